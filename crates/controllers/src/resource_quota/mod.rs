//! Quotas: how much of what each bounds is used.
//!
//! Writes that take something are charged as they happen, by the API server. Here is counted what
//! is freed, what was there before the quota, and, once in a while, all. Every write carries the
//! resourceVersion of the quota that was read before counting: whatever was charged since keeps it
//! from happening.

mod count;
mod garbage;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::amounts::Amounts;
use api::core::ResourceQuota;
use api::core::pod::PodView;
use api::core::resource_quota::usage::{Classes, is_measured};
use api::{Identified as _, Meta};
use apimachinery::{GroupResource, ObjectKey, Scope};
use client::{Api, Client, Discovered};
use informer::{Indexer, MetadataInformer};
use reconcile::{
    Change, Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler, WorkQueue, on_change,
};
use stdx::SharedClock;

use self::count::Look;
pub(crate) use self::garbage::plan_any;
use crate::flags::{at_least_one, duration};
use crate::resources::{Listener, Resources};
use crate::{Descriptor, Flags, Startup};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "resourcequota-controller",
    aliases: &["resourcequota"],
    identity: "resourcequota-controller",
    is_on_by_default: true,
    flags: Flags::of::<Settings>(),
    start,
};

#[derive(clap::Args)]
#[group(skip)]
struct Settings {
    /// Quotas that are counted at once
    #[arg(long, value_name = "N", default_value = "5", value_parser = at_least_one)]
    concurrent_resource_quota_syncs: usize,
    /// How long a quota is believed without counting anew; 0: until something changes
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    resource_quota_sync_period: Duration,
}

/// Writes that were under way when a quota began to be enforced have happened by then.
const UNDER_WAY: Duration = Duration::from_secs(1);

struct Quotas {
    quotas: Indexer<ResourceQuota>,
    resources: Arc<Resources>,
    client: Client,
    api: Api<ResourceQuota>,
    writes: Arc<OwnWrites<ResourceQuota>>,
    clock: SharedClock,
    period: Duration,
}

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller();
    let settings = startup.settings::<Settings>();
    let quotas: Indexer<ResourceQuota> = controller.cache();
    let reconciler = Quotas {
        quotas: quotas.clone(),
        resources: startup.resources.clone(),
        client: startup.client.clone(),
        api: startup.client.api(),
        writes: controller.own_writes(PATIENCE),
        clock: startup.world.clock.clone(),
        period: settings.resource_quota_sync_period,
    };
    let waker = Arc::new(Waker { quotas, queue: controller.queue() });
    startup.resources.listen(waker.clone());
    controller
        .follows(|change: Change<'_, ResourceQuota>, queue| {
            // How much is used is charged by others and written by us.
            let changed = change
                .with_new(plan::shape)
                .filter(|it| change.before().is_none() || plan::is_stale(it));
            changed.into_iter().for_each(|it| queue.add(it.key()));
        })
        .follows(move |change: Change<'_, PodView>, _queue| waker.on_pod(change))
        .workers(settings.concurrent_resource_quota_syncs)
        .run(reconciler);
}

/// Wakes quotas when something counts for less than before, or when it becomes known how to count.
struct Waker {
    quotas: Indexer<ResourceQuota>,
    queue: WorkQueue<ObjectKey>,
}

impl Waker {
    fn wake(&self, namespace: &str, resource: &GroupResource) {
        wake(&self.quotas.list_namespace(namespace), resource, &self.queue);
    }

    fn on_pod(&self, change: Change<'_, PodView>) {
        let is_freed = match change {
            Change::Added(_) => false,
            Change::Updated { before, after } => is_less(before, after),
            Change::Deleted(_) => true,
        };
        if is_freed {
            self.wake(change.latest().namespace(), &GroupResource::new("", "pods"));
        }
    }
}

fn wake(quotas: &[Arc<ResourceQuota>], resource: &GroupResource, queue: &WorkQueue<ObjectKey>) {
    let about = quotas.iter().filter(|it| plan::is_about(it, resource));
    about.for_each(|it| queue.add(it.key()));
}

/// Whether a pod may count for less than it did: it has ended, is being deleted, or asks for or
/// holds something else.
fn is_less(before: &PodView, after: &PodView) -> bool {
    let is_over = |it: &PodView| matches!(&*it.phase, "Failed" | "Succeeded");
    is_over(before) != is_over(after)
        || before.deletion != after.deletion
        || before.generation != after.generation
        || before.spec != after.spec
}

impl Listener for Waker {
    fn followed(&self, resource: &Discovered, informer: &Arc<MetadataInformer>) {
        let of = resource.resource.group_resource();
        if resource.scope == Scope::Cluster {
            return;
        }
        wake(&self.quotas.list(), &of, &self.queue);
        // These are seen by more than their metadata.
        if of.group.is_empty() && of.resource == "pods" {
            return;
        }
        let (quotas, queue) = (self.quotas.clone(), self.queue.clone());
        let is_measured = is_measured(&of);
        informer.add_event_handler(on_change(move |change: Change<'_, Meta>| match change {
            Change::Updated { after, .. } if is_measured => {
                wake(&quotas.list_namespace(&after.key.namespace), &of, &queue);
            }
            Change::Deleted(gone) => {
                wake(&quotas.list_namespace(&gone.key.namespace), &of, &queue);
            }
            Change::Added(_) | Change::Updated { .. } => {}
        }));
    }
}

impl Reconciler for Quotas {
    type Key = ObjectKey;
    type Error = Failed;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failed> {
        if let Some(wait) = self.writes.wait(key) {
            return Ok(Next::After(wait));
        }
        let Some(quota) = self.quotas.get(key) else { return Ok(Next::Settled) };
        let mut look = Look {
            client: &self.client,
            quota: &quota,
            key,
            now: self.clock.now(),
            classes: Classes::new(),
            counted: Amounts::new(),
            look_again: (!self.period.is_zero()).then_some(self.period),
        };
        // What can be counted is worth to be known, even if something else cannot.
        let mut failure = None;
        for resource in plan::resources(&quota) {
            let Some(served) = self.resources.find(&resource) else { continue };
            failure = look.count(&served).await.err().or(failure);
        }
        let Look { counted, look_again, .. } = look;
        if let Some(wanted) = plan::plan(&quota, &counted) {
            let written = self.api.update_status(*wanted).await.unless_gone();
            let written = written.map_err(Failed::to::<ResourceQuota>("update", key))?;
            if let Some(written) = written {
                self.writes.wrote(key, written.meta());
            }
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        let is_new = plan::is_new(&quota).then_some(UNDER_WAY);
        let next = [look_again, is_new].into_iter().flatten().min();
        Ok(next.map_or(Next::Settled, Next::After))
    }
}
