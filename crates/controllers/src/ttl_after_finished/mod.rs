//! Deletes finished Jobs once they have been there for as long as they say. Sleeps until the next
//! is due; the server has the last word before anything is deleted, so that the cache may be
//! behind its own deletions.

mod garbage;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::batch::job::Job;
use apimachinery::ObjectKey;
use client::{Api, DeleteOptions, Preconditions, Propagation};
use informer::Indexer;
use reconcile::{Failed, Next, Outcome as _, Reconciler, itself};
use stdx::SharedClock;
use telemetry::{Buckets, Description, Histogram, Stability, exponential};

pub(crate) use self::garbage::plan_any;
use self::plan::Verdict;
use crate::flags::at_least_one;
use crate::{Descriptor, Flags, Startup};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "ttl-after-finished-controller",
    aliases: &["ttl-after-finished"],
    identity: "ttl-after-finished-controller",
    is_on_by_default: true,
    flags: Flags::of::<Settings>(),
    start,
};

#[derive(clap::Args)]
#[group(skip)]
struct Settings {
    /// Finished Jobs that are looked at at once
    #[arg(long, value_name = "N", default_value = "5", value_parser = at_least_one)]
    concurrent_ttl_after_finished_syncs: usize,
}

const DELETION_DURATION: Description<0> = Description {
    name: "ttl_after_finished_controller_job_deletion_duration_seconds",
    stability: Stability::Alpha,
    help: "The time it took to delete the job since it became eligible for deletion",
    labels: [],
};
const BUCKETS: Buckets = Buckets::seconds(&exponential::<14>(0.1, 2.0));

struct FinishedJobs {
    jobs: Indexer<Job>,
    api: Api<Job>,
    clock: SharedClock,
    deletion_duration: Arc<Histogram>,
}

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller();
    let reconciler = FinishedJobs {
        jobs: controller.cache(),
        api: startup.client.api(),
        clock: startup.world.clock.clone(),
        deletion_duration: startup.metrics.histogram(&DELETION_DURATION, BUCKETS),
    };
    controller
        .watches(itself::<Job>)
        .workers(startup.settings::<Settings>().concurrent_ttl_after_finished_syncs)
        .run(reconciler);
}

impl Reconciler for FinishedJobs {
    type Key = ObjectKey;
    type Error = Failed;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failed> {
        let Some(job) = self.jobs.get(key) else { return Ok(Next::Settled) };
        match plan::plan(&job, self.clock.now()) {
            Verdict::Keep => return Ok(Next::Settled),
            Verdict::Wait(left) => return Ok(Next::After(left)),
            Verdict::Delete(_) => {}
        }
        // Its time may have been changed since.
        let fresh = self.api.get(&key.namespace, &key.name).await.unless_gone();
        let Some(fresh) = fresh.map_err(Failed::to::<Job>("look for", key))? else {
            return Ok(Next::Settled);
        };
        match plan::plan(&fresh, self.clock.now()) {
            Verdict::Keep => Ok(Next::Settled),
            Verdict::Wait(left) => Ok(Next::After(left)),
            Verdict::Delete(due) => {
                self.delete(key, &fresh).await?;
                let late = Duration::try_from(self.clock.now().duration_since(due));
                self.deletion_duration.observe(late.unwrap_or_default());
                Ok(Next::Settled)
            }
        }
    }
}

impl FinishedJobs {
    async fn delete(&self, key: &ObjectKey, job: &Job) -> Result<(), Failed> {
        let preconditions = Preconditions { uid: job.metadata.uid.clone(), resource_version: None };
        let propagation = Some(Propagation::Foreground);
        let options = DeleteOptions { propagation, preconditions, ..DeleteOptions::default() };
        let deleted = self.api.delete(&key.namespace, &key.name, options).await;
        deleted.unless_replaced().map_err(Failed::to::<Job>("delete", key))?;
        Ok(())
    }
}
