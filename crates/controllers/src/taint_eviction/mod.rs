//! Evicts pods from nodes with NoExecute taints that they do not tolerate, or tolerate only for a
//! while. A pod event costs O(1), a node event nothing unless its taints changed, then the node's
//! pods.

mod garbage;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::Identified as _;
use api::core::node::NodeView;
use api::core::pod::{Pod, PodView};
use apimachinery::ObjectKey;
use client::{Api, DeleteOptions, PatchKind, Preconditions};
use informer::Indexer;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;
use reconcile::{
    Change, EventRecorder, EventType, Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler,
};
use stdx::SharedClock;
use telemetry::{Buckets, Counter, Description, Histogram, Stability};
use tokio::time::Instant;

pub(crate) use self::garbage::plan_any;
use self::plan::{Observed, Verdict};
use crate::pods::BY_NODE;
use crate::{Descriptor, Flags, Startup, pods};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "taint-eviction-controller",
    aliases: &[],
    identity: "node-controller",
    is_on_by_default: true,
    flags: Flags::NONE,
    start,
};

const WORKERS: usize = 8;

const DELETIONS: Description<0> = Description {
    name: "taint_eviction_controller_pod_deletions_total",
    stability: Stability::Alpha,
    help: "Total number of Pods deleted by TaintEvictionController since its start.",
    labels: [],
};
const LATENCY: Description<0> = Description {
    name: "taint_eviction_controller_pod_deletion_duration_seconds",
    stability: Stability::Alpha,
    help: "Latency, in seconds, between the time when a taint effect has been activated for the \
           Pod and its deletion via TaintEvictionController.",
    labels: [],
};
const BUCKETS: Buckets =
    Buckets::seconds(&[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0]);

struct TaintEviction {
    nodes: Indexer<NodeView>,
    pods: Indexer<PodView>,
    own_writes: Arc<OwnWrites<PodView>>,
    api: Api<Pod>,
    events: EventRecorder,
    clock: SharedClock,
    /// Since when each pod with a deadline has it: later changes of the taints do not give more
    /// time.
    since: Mutex<BTreeMap<ObjectKey, Timestamp>>,
    deletions: Arc<Counter>,
    latency: Arc<Histogram>,
}

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller();
    let pods = controller.indexed_cache(&[(BY_NODE, pods::index_by_node)]);
    let reconciler = TaintEviction {
        nodes: controller.cache(),
        pods: pods.clone(),
        own_writes: controller.own_writes(PATIENCE),
        api: startup.client.api(),
        events: startup.events(),
        clock: startup.world.clock.clone(),
        since: Mutex::default(),
        deletions: startup.metrics.counter(&DELETIONS),
        latency: startup.metrics.histogram(&LATENCY, BUCKETS),
    };
    controller
        .follows(move |change: Change<'_, NodeView>, queue| {
            let Some(node) = change.with_new(no_execute) else { return };
            for pod in pods.by_index(BY_NODE, node.name()) {
                queue.add(pod.key());
            }
        })
        .follows(|change: Change<'_, PodView>, queue| {
            let is_same = match change {
                Change::Updated { before, after } => {
                    before.node_name == after.node_name
                        && before.spec.tolerations == after.spec.tolerations
                }
                // Unbound pods are nobody's to evict.
                Change::Added(pod) | Change::Deleted(pod) => pod.node().is_none(),
            };
            if !is_same {
                queue.add(change.latest().key());
            }
        })
        .workers(WORKERS)
        .run(reconciler);
}

fn no_execute(node: &NodeView) -> Vec<&Taint> {
    node.taints.iter().filter(|it| it.effect == "NoExecute").collect()
}

impl Reconciler for TaintEviction {
    type Key = ObjectKey;
    type Error = Failed;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failed> {
        if let Some(wait) = self.own_writes.wait(key) {
            return Ok(Next::After(wait));
        }
        let pod = self.pods.get(key).filter(|it| !it.is_deleting());
        let Some(pod) = pod else {
            self.since().remove(key);
            return Ok(Next::Settled);
        };
        let node = pod.node().and_then(|it| self.nodes.get(&ObjectKey::cluster(it)));
        let taints = node.as_ref().map(|it| it.taints.as_slice());
        let now = self.clock.now();
        let verdict = plan::plan(&Observed {
            taints: taints.unwrap_or_default(),
            tolerations: &pod.spec.tolerations,
            since: self.since().get(key).copied(),
            now,
        });
        match verdict {
            Verdict::Stay => return Ok(Next::Settled),
            Verdict::Wait(left) => {
                self.since().entry(key.clone()).or_insert(now);
                return Ok(Next::After(left));
            }
            Verdict::StayAfterAll => {
                let message = format!("Cancelling deletion of Pod {key}");
                self.events.event(&*pod, EventType::Normal, "TaintManagerEviction", message);
            }
            Verdict::Evict { late } => self.evict(key, &pod, late).await?,
        }
        self.since().remove(key);
        Ok(Next::Settled)
    }
}

impl TaintEviction {
    fn since(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Timestamp>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `late`: how long after it had to leave.
    async fn evict(&self, key: &ObjectKey, pod: &PodView, late: Duration) -> Result<(), Failed> {
        let started = Instant::now();
        let message = format!("Marking for deletion Pod {key}");
        self.events.event(pod, EventType::Normal, "TaintManagerEviction", message);
        let (reason, message) =
            ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint");
        let body = pods::disruption_patch(pod, reason, message, self.clock.now());
        let kind = PatchKind::Strategic;
        let uid = Some(pod.uid().to_owned());
        let preconditions = Preconditions { uid, resource_version: None };
        let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
        let evicted = match self.api.patch_status(&key.namespace, &key.name, kind, body).await {
            Ok(_) => self.api.delete(&key.namespace, &key.name, options).await,
            Err(err) => Err(err),
        };
        let evicted = evicted.unless_replaced().map_err(Failed::to::<Pod>("evict", key))?;
        if evicted.is_some() {
            self.own_writes.deleted(key, pod);
            self.deletions.increment();
            self.latency.observe(late + started.elapsed());
        }
        Ok(())
    }
}
