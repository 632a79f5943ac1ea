//! StatefulSets: pods that have a number each, and with it a name and claims of their own.
//!
//! A reconcile plans when its caches show all that earlier ones wrote: to the set, its pods, their
//! claims and its history. A name is given once, so no two pods have one identity whatever the
//! caches show: the server refuses the second.

mod apply;
mod claims;
#[cfg(test)]
mod crashes;
mod garbage;
mod identity;
mod metrics;
mod plan;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::Identified as _;
use api::apps::{ControllerRevision, StatefulSet};
use api::core::persistent_volume_claim::PersistentVolumeClaim;
use api::core::pod::PodView;
use apimachinery::ObjectKey;
use apimachinery::selector::{self, Labels};
use client::Api;
use informer::Indexer;
use k8s_openapi::api::apps::v1::StatefulSetStatus;
use reconcile::{Change, Failed, Next, OwnWrites, PATIENCE, Reconciler, WorkQueue, itself};
use stdx::SharedClock;

use self::apply::Sources;
pub(crate) use self::garbage::plan_any;
use self::identity::REVISION;
use self::metrics::Metrics;
use self::plan::{Observed, Plan};
use crate::claims::{Claimant, Claims};
use crate::flags::at_least_one;
use crate::history::{self, History, Limit, Record, Seen};
use crate::pod_control::{PodControl, Words};
use crate::sets::{self, Sets, Waits};
use crate::workload::{POD_INDEXES, Workload as _};
use crate::{Descriptor, Flags, Startup, owners, workload};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "statefulset-controller",
    aliases: &["statefulset"],
    identity: "statefulset-controller",
    is_on_by_default: true,
    flags: Flags::of::<Settings>(),
    start,
};

#[derive(clap::Args)]
#[group(skip)]
struct Settings {
    /// StatefulSets that are worked on at once
    #[arg(long, value_name = "N", default_value = "5", value_parser = at_least_one)]
    concurrent_statefulset_syncs: usize,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("read the selector of StatefulSet {set}")]
    Selector {
        set: ObjectKey,
        #[source]
        source: selector::Error,
    },
    #[error("ControllerRevision {revision} has no template")]
    Template { revision: ObjectKey },
    #[error(transparent)]
    Call(#[from] Failed),
}

struct StatefulSets {
    sets: Sets<StatefulSet>,
    pods: Indexer<PodView>,
    claims: Indexer<PersistentVolumeClaim>,
    claims_api: Api<PersistentVolumeClaim>,
    claim_writes: Arc<OwnWrites<PersistentVolumeClaim>>,
    pod_control: PodControl<ObjectKey>,
    history: History<StatefulSet>,
    clock: SharedClock,
    metrics: Metrics,
    /// The gate `MaxUnavailableStatefulSet`: the server drops the field as long as it is off.
    allows_max_unavailable: bool,
}

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller();
    let gates = &startup.availability.gates;
    let allows_max_unavailable = gates.is_enabled(features::MAX_UNAVAILABLE_STATEFUL_SET);
    let reconciler = StatefulSets {
        sets: Sets::new(startup, &mut controller),
        pods: controller.indexed_cache(POD_INDEXES),
        claims: controller.cache(),
        claims_api: startup.client.api(),
        claim_writes: controller.own_writes(PATIENCE),
        pod_control: PodControl::new(startup, &mut controller, &startup.events(), Words::OfSet),
        history: History::new(startup, &mut controller),
        clock: startup.world.clock.clone(),
        metrics: Metrics::new(&startup.metrics, allows_max_unavailable),
        allows_max_unavailable,
    };
    let sets = reconciler.sets.cache.clone();
    let (of_pods, of_claims, of_revisions) = (sets.clone(), sets.clone(), sets);
    controller
        .watches(itself::<StatefulSet>)
        .follows(move |change, queue| follow_pod(change, &of_pods, queue))
        .follows(move |change, queue| follow_claim(change, &of_claims, queue))
        .follows(move |change, queue| history::follow(change, &of_revisions, queue))
        .workers(startup.settings::<Settings>().concurrent_statefulset_syncs)
        .run(reconciler);
}

sets::pod_set!(StatefulSet, StatefulSetStatus, "controller.kubernetes.io/hash");

/// Pods wake their set; one that goes wakes the set that waits for its name, too.
fn follow_pod(change: Change<'_, PodView>, sets: &Indexer<StatefulSet>, queue: &WorkQueue) {
    if let Change::Updated { before, after } = change
        && !workload::is_relevant(before, after)
        && before.phase == after.phase
    {
        return;
    }
    workload::wake_owners(change, sets, queue);
    if let Change::Deleted(pod) = change
        && let Some((set, _)) = identity::split(&pod.meta.key.name)
    {
        let key = ObjectKey::new(pod.namespace(), set.to_owned());
        if sets.get(&key).is_some() {
            queue.add(key);
        }
    }
}

/// Claims come and go, and change hands.
fn follow_claim(
    change: Change<'_, PersistentVolumeClaim>,
    sets: &Indexer<StatefulSet>,
    queue: &WorkQueue,
) {
    if let Change::Updated { before, after } = change
        && before.metadata.owner_references == after.metadata.owner_references
        && before.is_deleting() == after.is_deleting()
    {
        return;
    }
    let Some(claim) = change.states().next() else { return };
    let name = owners::name(&claim.metadata);
    let all = sets.list_namespace(claim.namespace());
    let concerned = all.iter().filter(|it| claims::is_claim_of(it, name));
    concerned.for_each(|it| queue.add(it.key()));
}

impl Reconciler for StatefulSets {
    type Key = ObjectKey;
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Error> {
        if self.sets.cache.get(key).is_none() {
            self.forget(key);
            return Ok(Next::Settled);
        }
        for (wait, group, resource) in self.waits(key) {
            if let Some(wait) = wait {
                self.metrics.stale(group, resource);
                return Ok(Next::After(wait));
            }
        }
        let Some(set) = self.sets.cache.get(key) else { return Ok(Next::Settled) };
        let selector =
            set.pod_selector().map_err(|source| Error::Selector { set: key.clone(), source })?;
        let claims = self.claimed(key, &set, &selector);
        if !claims.adopt.is_empty() || !claims.release.is_empty() {
            self.sets.claim(key, &set, &claims, &self.pod_control).await?;
            return Ok(self.until_shown(key, None));
        }
        let record = match self.history.observe(key, &set, &selector).await? {
            Seen::Complete(record) => record,
            Seen::Unfinished(next) => return Ok(next),
            Seen::Collision => {
                self.sets.count_collision(key, &set).await?;
                return Ok(self.until_shown(key, None));
            }
        };
        self.go_on(key, &set, claims.owned, record).await
    }
}

impl StatefulSets {
    fn waits(&self, key: &ObjectKey) -> Waits<4> {
        [
            (self.sets.writes.wait(key), "apps", "statefulsets"),
            (self.pod_control.writes.wait(key), "", "pods"),
            (self.claim_writes.wait(key), "", "persistentvolumeclaims"),
            (self.history.writes.wait(key), "apps", "controllerrevisions"),
        ]
    }

    fn forget(&self, key: &ObjectKey) {
        self.sets.writes.forget(key);
        self.sets.explanations.forget(key);
        self.pod_control.writes.forget(key);
        self.claim_writes.forget(key);
        self.history.writes.forget(key);
    }

    fn until_shown(&self, key: &ObjectKey, next: Option<Duration>) -> Next {
        sets::until_shown(self.waits(key), next)
    }

    /// Its own are those that match and have a name that it would give.
    fn claimed(&self, key: &ObjectKey, set: &StatefulSet, selector: &Labels) -> Claims<PodView> {
        let uid = owners::uid(&set.metadata);
        let is_deleting = owners::is_deleting(&set.metadata);
        let candidates = workload::candidates(&self.pods, uid, &key.namespace, selector);
        let claims = Claimant { uid, selector, is_deleting }.claim(&candidates);
        let is_member = |pod: &PodView| identity::ordinal(&key.name, &pod.meta.key.name).is_some();
        claims.narrowed(is_deleting, is_member)
    }

    async fn go_on(
        &self,
        key: &ObjectKey,
        set: &Arc<StatefulSet>,
        pods: Vec<Arc<PodView>>,
        record: Record,
    ) -> Result<Next, Error> {
        let current = current(set, &record);
        let used: BTreeSet<String> = [&current, &record.update]
            .iter()
            .map(|it| owners::name(&it.metadata).to_owned())
            .chain(pods.iter().filter_map(|it| it.label(REVISION).map(str::to_owned)))
            .collect();
        let (sources, plan) = self.plan(key, set, pods, current, &record);
        self.metrics.planned(set, &plan);
        let applied = self.apply(key, set, &sources, &plan).await;
        let said = plan::untold(&plan);
        let told = self.sets.write_status(key, set, plan.status).await;
        let limit = set.spec.as_ref().and_then(|it| it.revision_history_limit).unwrap_or(10);
        let is_used = |it: &ControllerRevision| used.contains(owners::name(&it.metadata));
        let surplus = history::surplus(&record, Limit::BesideUsed(limit), is_used);
        let trimmed = self.history.delete(key, &surplus).await;
        applied?;
        told?;
        trimmed?;
        let (events, now) = (&self.pod_control.events, self.clock.now());
        let held = self.sets.explanations.tell(events, &**set, said, now);
        Ok(self.until_shown(key, plan.next.into_iter().chain(held).min()))
    }

    fn plan(
        &self,
        key: &ObjectKey,
        set: &Arc<StatefulSet>,
        pods: Vec<Arc<PodView>>,
        current: Arc<ControllerRevision>,
        record: &Record,
    ) -> (Sources, Plan) {
        let named = |name: &str| ObjectKey::new(&key.namespace, name.to_owned());
        let observed = Observed {
            set: set.clone(),
            current,
            update: record.update.clone(),
            pods,
            claim: &|name| self.claims.get(&named(name)),
            pod: &|name| self.pods.get(&named(name)),
            allows_max_unavailable: self.allows_max_unavailable,
            now: self.clock.now(),
        };
        (Sources::of(&observed), plan::plan(&observed))
    }
}

/// The revision that the last rollout ended with; before any did, the present one.
fn current(set: &StatefulSet, record: &Record) -> Arc<ControllerRevision> {
    let name = set.status.as_ref().and_then(|it| it.current_revision.as_deref());
    let found = record.revisions.iter().find(|it| it.metadata.name.as_deref() == name);
    found.unwrap_or(&record.update).clone()
}
