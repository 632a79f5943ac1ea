//! DaemonSets: one pod on each node that should have one.
//!
//! A reconcile looks at all nodes and at the set's own pods, and plans when its caches show all
//! that earlier ones wrote. Pods are pinned to their node by affinity and bound by the scheduler.

mod backoff;
#[cfg(test)]
mod crashes;
mod garbage;
mod nodes;
mod plan;
mod rolling;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::Identified as _;
use api::apps::{ControllerRevision, DaemonSet};
use api::core::node::NodeView;
use api::core::pod::PodView;
use apimachinery::ObjectKey;
use apimachinery::selector::{self, Labels};
use informer::Indexer;
use k8s_openapi::api::apps::v1::DaemonSetStatus;
use reconcile::{
    Change, EventType, Failed, Next, Reconciler, WorkQueue, is_namespace_ending, itself,
};
use stdx::SharedClock;
use telemetry::{Counter, Description, Family, Stability};

use self::backoff::Backoff;
pub(crate) use self::garbage::plan_any;
use self::plan::{Observed, Plan, Reason, Removal};
use crate::claims::{Claimant, Claims};
use crate::flags::at_least_one;
use crate::history::{self, History, Limit, Record, Seen};
use crate::pod_control::{self, PodControl, Words};
use crate::sets::{self, Sets, Waits};
use crate::workload::{POD_INDEXES, Workload as _};
use crate::{Descriptor, Flags, Startup, owners, workload};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "daemonset-controller",
    aliases: &["daemonset"],
    identity: "daemon-set-controller",
    is_on_by_default: true,
    flags: Flags::of::<Settings>(),
    start,
};

#[derive(clap::Args)]
#[group(skip)]
struct Settings {
    /// DaemonSets that are worked on at once
    #[arg(long, value_name = "N", default_value = "2", value_parser = at_least_one)]
    concurrent_daemonset_syncs: usize,
}

const STALE: Description<2> = Description {
    name: "daemonset_controller_stale_sync_skips_total",
    stability: Stability::Alpha,
    help: "Total number of DaemonSet syncs skipped due to a stale watch cache.",
    labels: ["group", "resource"],
};

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("read the selector of DaemonSet {set}")]
    Selector {
        set: ObjectKey,
        #[source]
        source: selector::Error,
    },
    #[error(transparent)]
    Call(#[from] Failed),
}

struct DaemonSets {
    sets: Sets<DaemonSet>,
    pods: Indexer<PodView>,
    nodes: Indexer<NodeView>,
    pod_control: PodControl<ObjectKey>,
    history: History<DaemonSet>,
    /// By set, with its uid.
    backoffs: Mutex<BTreeMap<ObjectKey, (String, Backoff)>>,
    clock: SharedClock,
    stale: Family<Counter, 2>,
}

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller();
    let reconciler = DaemonSets {
        sets: Sets::new(startup, &mut controller),
        pods: controller.indexed_cache(POD_INDEXES),
        nodes: controller.cache(),
        pod_control: PodControl::new(startup, &mut controller, &startup.events(), Words::Plain),
        history: History::new(startup, &mut controller),
        backoffs: Mutex::default(),
        clock: startup.world.clock.clone(),
        stale: startup.metrics.counters(&STALE),
    };
    let sets = reconciler.sets.cache.clone();
    let (of_pods, of_nodes, of_revisions) = (sets.clone(), sets.clone(), sets);
    controller
        .watches(itself::<DaemonSet>)
        .follows(move |change, queue| follow_pod(change, &of_pods, queue))
        .follows(move |change, queue| follow_node(change, &of_nodes, queue))
        .follows(move |change, queue| history::follow(change, &of_revisions, queue))
        .workers(startup.settings::<Settings>().concurrent_daemonset_syncs)
        .run(reconciler);
}

sets::pod_set!(DaemonSet, DaemonSetStatus, nodes::HASH);

fn follow_pod(change: Change<'_, PodView>, sets: &Indexer<DaemonSet>, queue: &WorkQueue) {
    if let Change::Updated { before, after } = change
        && !workload::is_relevant(before, after)
        && before.node_name == after.node_name
    {
        return;
    }
    workload::wake_owners(change, sets, queue);
}

/// Whatever may run on a node or not: any set may have something to do there.
fn follow_node(change: Change<'_, NodeView>, sets: &Indexer<DaemonSet>, queue: &WorkQueue) {
    if let Change::Updated { before, after } = change
        && before.meta.labels == after.meta.labels
        && before.taints == after.taints
    {
        return;
    }
    sets.list().iter().for_each(|it| queue.add(it.key()));
}

impl Reconciler for DaemonSets {
    type Key = ObjectKey;
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Error> {
        if self.sets.cache.get(key).is_none() {
            self.forget(key);
            return Ok(Next::Settled);
        }
        for (wait, group, resource) in self.waits(key) {
            if let Some(wait) = wait {
                self.stale.with([group, resource]).increment();
                return Ok(Next::After(wait));
            }
        }
        let Some(set) = self.sets.cache.get(key) else { return Ok(Next::Settled) };
        let selector =
            set.pod_selector().map_err(|source| Error::Selector { set: key.clone(), source })?;
        if selector.is_everything() {
            let text = "This daemon set is selecting all pods. A non-empty selector is required.";
            let events = &self.pod_control.events;
            events.event(&*set, EventType::Warning, "SelectingAll", text.to_owned());
            return Ok(Next::Settled);
        }
        if owners::is_deleting(&set.metadata) {
            return Ok(Next::Settled);
        }
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

impl DaemonSets {
    fn waits(&self, key: &ObjectKey) -> Waits<3> {
        [
            (self.sets.writes.wait(key), "apps", "daemonsets"),
            (self.pod_control.writes.wait(key), "", "pods"),
            (self.history.writes.wait(key), "apps", "controllerrevisions"),
        ]
    }

    fn backoffs(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, (String, Backoff)>> {
        self.backoffs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, key: &ObjectKey) {
        self.sets.writes.forget(key);
        self.sets.explanations.forget(key);
        self.pod_control.writes.forget(key);
        self.history.writes.forget(key);
        self.backoffs().remove(key);
    }

    fn until_shown(&self, key: &ObjectKey, next: Option<Duration>) -> Next {
        sets::until_shown(self.waits(key), next)
    }

    fn claimed(&self, key: &ObjectKey, set: &DaemonSet, selector: &Labels) -> Claims<PodView> {
        let uid = owners::uid(&set.metadata);
        let candidates = workload::candidates(&self.pods, uid, &key.namespace, selector);
        Claimant { uid, selector, is_deleting: false }.claim(&candidates)
    }

    async fn go_on(
        &self,
        key: &ObjectKey,
        set: &Arc<DaemonSet>,
        pods: Vec<Arc<PodView>>,
        record: Record,
    ) -> Result<Next, Error> {
        let limit = set.spec.as_ref().and_then(|it| it.revision_history_limit).unwrap_or(10);
        let is_used = |revision: &ControllerRevision| {
            let hash = history::hash_of::<DaemonSet>(revision);
            pods.iter().any(|it| it.label(nodes::HASH) == Some(hash))
        };
        let surplus = history::surplus(&record, Limit::WithUsed(limit), is_used);
        let plan = plan::plan(&self.observe(key, set, pods, &record));
        let hash = history::hash_of::<DaemonSet>(&record.update);
        let applied = self.apply(key, set, hash, &plan).await;
        let said = plan::explain(&plan);
        let uid = owners::uid(&set.metadata).to_owned();
        if plan.backoff.is_empty() {
            self.backoffs().remove(key);
        } else {
            self.backoffs().insert(key.clone(), (uid, plan.backoff));
        }
        let told = self.sets.write_status(key, set, plan.status).await;
        let trimmed = self.history.delete(key, &surplus).await;
        applied?;
        told?;
        trimmed?;
        let (events, now) = (&self.pod_control.events, self.clock.now());
        let held = self.sets.explanations.tell(events, &**set, said, now);
        Ok(self.until_shown(key, plan.next.into_iter().chain(held).min()))
    }

    fn observe(
        &self,
        key: &ObjectKey,
        set: &Arc<DaemonSet>,
        pods: Vec<Arc<PodView>>,
        record: &Record,
    ) -> Observed {
        let mut nodes = self.nodes.list();
        nodes.sort_by(|one, two| one.name().cmp(two.name()));
        let uid = owners::uid(&set.metadata);
        let backoff = self.backoffs().get(key).filter(|it| it.0 == uid).map(|it| it.1.clone());
        let hash = |it: &Arc<ControllerRevision>| history::hash_of::<DaemonSet>(it).to_owned();
        Observed {
            set: set.clone(),
            hashes: record.equal.iter().map(hash).collect(),
            nodes,
            pods,
            backoff: backoff.unwrap_or_default(),
            now: self.clock.now(),
        }
    }

    /// Both are tried, whatever comes of the first.
    async fn apply(
        &self,
        key: &ObjectKey,
        set: &DaemonSet,
        hash: &str,
        plan: &Plan,
    ) -> Result<(), Failed> {
        let create = |node: &String| self.pod_control.create(key, set, nodes::pod(set, node, hash));
        let created = pod_control::in_batches(&plan.create, create).await;
        let failed = created.failed.into_iter().find(|it| !is_namespace_ending(it));
        plan.delete.iter().for_each(|it| self.tell(set, it));
        let pods: Vec<Arc<PodView>> = plan.delete.iter().map(|it| it.pod.clone()).collect();
        self.pod_control.delete_all(key, set, &pods).await?;
        failed.map_or(Ok(()), |it| Err(Failed::to::<DaemonSet>("create a pod of", key)(it)))
    }

    fn tell(&self, set: &DaemonSet, removal: &Removal) {
        let (key, node) = (removal.pod.key(), &removal.node);
        let (kind, reason, message) = match removal.reason {
            Reason::Failed => (
                EventType::Warning,
                "FailedDaemonPod",
                format!("Found failed daemon pod {key} on node {node}, will try to kill it"),
            ),
            Reason::Succeeded => (
                EventType::Normal,
                "SucceededDaemonPod",
                format!("Found succeeded daemon pod {key} on node {node}, will try to delete it"),
            ),
            Reason::Other => return,
        };
        self.pod_control.events.event(set, kind, reason, message);
    }
}
