//! Deletes pods that nobody else would: finished ones above a threshold, those of nodes that are
//! gone, those deleted before they were bound, and those deleted on nodes that are out of service.
//! A pod event costs one look at its node in the cache. It may see a cache older than its own
//! deletions: they carry the pod's uid, so that to repeat one changes nothing.

mod garbage;
mod metrics;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::core::node::{Node, NodeView};
use api::core::pod::{Pod, PodView};
use apimachinery::ObjectKey;
use client::{Api, DeleteOptions, PatchKind, Preconditions};
use informer::Indexer;
use jiff::Timestamp;
use reconcile::{Change, Failed, Next, Outcome as _, Reconciler};
use serde_json::json;
use stdx::SharedClock;

pub(crate) use self::garbage::plan_any;
use self::metrics::Metrics;
use self::plan::{Place, Reason, Verdict};
use crate::pods::BY_NODE;
use crate::{Descriptor, Flags, Startup, conditions, pods};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "pod-garbage-collector-controller",
    aliases: &["podgc"],
    identity: "pod-garbage-collector",
    is_on_by_default: true,
    flags: Flags::of::<Settings>(),
    start,
};

#[derive(clap::Args)]
#[group(skip)]
struct Settings {
    /// How many finished pods may stay; the oldest above that are deleted. 0 or less: all stay
    #[arg(long, value_name = "N", default_value_t = 12_500, allow_negative_numbers = true)]
    terminated_pod_gc_threshold: i32,
}

/// Finished pods are counted at most this often: one by one they would cost a list of all each.
const FINISHED_PAUSE: Duration = Duration::from_secs(5);
/// Index: pods that ran to their end.
const FINISHED: &str = "finished";

struct PodGc {
    nodes: Indexer<NodeView>,
    pods: Indexer<PodView>,
    nodes_api: Api<Node>,
    pods_api: Api<Pod>,
    clock: SharedClock,
    /// Finished pods that may stay; absent: all.
    threshold: Option<usize>,
    /// Since when the node of a pod is missing, as seen here.
    missing: Mutex<BTreeMap<ObjectKey, Timestamp>>,
    metrics: Metrics,
}

/// What there is to look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Pod(ObjectKey),
    /// All finished pods: are they too many?
    Finished,
}

impl Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(key) => key.fmt(f),
            Self::Finished => f.write_str("finished pods"),
        }
    }
}

fn index_finished(pod: &PodView) -> Vec<String> {
    if pod.is_terminal() { vec![FINISHED.to_owned()] } else { Vec::new() }
}

fn start(startup: &Startup<'_>) {
    let settings: &Settings = startup.settings();
    let mut controller = startup.controller();
    let nodes: Indexer<NodeView> = controller.cache();
    let pods: Indexer<PodView> =
        controller.indexed_cache(&[(BY_NODE, pods::index_by_node), (FINISHED, index_finished)]);
    let reconciler = PodGc {
        nodes: nodes.clone(),
        pods: pods.clone(),
        nodes_api: startup.client.api(),
        pods_api: startup.client.api(),
        clock: startup.world.clock.clone(),
        threshold: usize::try_from(settings.terminated_pod_gc_threshold).ok().filter(|it| *it > 0),
        missing: Mutex::default(),
        metrics: Metrics::new(&startup.metrics),
    };
    controller
        .follows(move |change: Change<'_, NodeView>, queue| {
            let is_out = |it: &NodeView| plan::is_out_of_service(it);
            let is_bad = match change {
                Change::Deleted(_) => true,
                _ => change.with_new(is_out).is_some_and(|it| is_out(it)),
            };
            if is_bad {
                for pod in pods.by_index(BY_NODE, change.latest().name()) {
                    queue.add(Key::Pod(pod.meta.key.clone()));
                }
            }
        })
        .follows(move |change: Change<'_, PodView>, queue| {
            let Some(pod) = change.after() else { return };
            if change.with_new(PodView::is_terminal).is_some_and(|it| it.is_terminal()) {
                queue.add_after(Key::Finished, FINISHED_PAUSE);
            }
            let node = pod.node().and_then(|it| nodes.get(&ObjectKey::cluster(it)));
            let is_suspect = match plan::place(pod, node.as_deref()) {
                Place::Missing => true,
                Place::Nowhere | Place::OutOfService => pod.meta.is_deleting,
                Place::Present => false,
            };
            if is_suspect {
                queue.add(Key::Pod(pod.meta.key.clone()));
            }
        })
        .run(reconciler);
}

impl Reconciler for PodGc {
    type Key = Key;
    type Error = Failed;

    async fn reconcile(&self, key: &Key) -> Result<Next, Failed> {
        match key {
            Key::Pod(key) => self.look_at(key).await,
            Key::Finished => self.sweep().await,
        }
    }
}

impl PodGc {
    /// The finished pods above the threshold.
    async fn sweep(&self) -> Result<Next, Failed> {
        let Some(threshold) = self.threshold else { return Ok(Next::Settled) };
        if self.pods.count_by_index(FINISHED, FINISHED) <= threshold {
            return Ok(Next::Settled);
        }
        for pod in plan::excess(self.pods.by_index(FINISHED, FINISHED), threshold) {
            self.force(&pod, Reason::Terminated).await?;
        }
        Ok(Next::Settled)
    }

    async fn look_at(&self, key: &ObjectKey) -> Result<Next, Failed> {
        let Some(pod) = self.pods.get(key) else {
            self.missing().remove(key);
            return Ok(Next::Settled);
        };
        let node = pod.node().map(ObjectKey::cluster);
        let cached = node.as_ref().and_then(|it| self.nodes.get(it));
        let now = self.clock.now();
        let since = *self.missing().entry(key.clone()).or_insert(now);
        match plan::plan(&pod, plan::place(&pod, cached.as_deref()), since, now) {
            Verdict::Keep => {}
            Verdict::Wait(left) => return Ok(Next::After(left)),
            Verdict::Delete(Reason::Orphaned) => {
                let node = node.unwrap_or_default().name;
                if self.is_node_gone(&node).await? {
                    self.force(&pod, Reason::Orphaned).await?;
                }
            }
            Verdict::Delete(reason) => self.force(&pod, reason).await?,
        }
        self.missing().remove(key);
        Ok(Next::Settled)
    }

    /// Fails and deletes a pod, and counts it.
    async fn force(&self, pod: &PodView, reason: Reason) -> Result<(), Failed> {
        let forced = match self.fail(pod, reason).await {
            Ok(()) => self.delete(pod).await,
            Err(err) => Err(err),
        };
        self.metrics.forced(&pod.meta.key.namespace, reason, forced.is_ok());
        forced
    }

    fn missing(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Timestamp>> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cache may be behind: the server has the last word before anything is deleted.
    async fn is_node_gone(&self, node: &str) -> Result<bool, Failed> {
        let found = self.nodes_api.get("", node).await.unless_gone();
        let key = ObjectKey::cluster(node);
        Ok(found.map_err(Failed::to::<Node>("look for", &key))?.is_none())
    }

    /// A pod that cannot have finished by itself ends as Failed, so that its owner replaces it.
    async fn fail(&self, pod: &PodView, reason: Reason) -> Result<(), Failed> {
        if pod.is_terminal() {
            return Ok(());
        }
        let key = pod.meta.key.clone();
        let mut body = json!({"metadata": {"uid": pod.meta.uid}, "status": {"phase": "Failed"}});
        if reason == Reason::Orphaned {
            body["status"]["conditions"] = json!([{
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "DeletionByPodGC",
                "message": "PodGC: node no longer exists",
                "lastTransitionTime": conditions::time(self.clock.now()),
            }]);
        }
        let (body, kind) = (body.to_string().into(), PatchKind::Strategic);
        let patched = self.pods_api.patch_status(&key.namespace, &key.name, kind, body).await;
        patched.unless_replaced().map_err(Failed::to::<Pod>("fail", &key))?;
        Ok(())
    }

    async fn delete(&self, pod: &PodView) -> Result<(), Failed> {
        let key = pod.meta.key.clone();
        let uid = Some(pod.meta.uid.clone());
        let options = DeleteOptions {
            grace_period_seconds: Some(0),
            preconditions: Preconditions { uid, resource_version: None },
            ..DeleteOptions::default()
        };
        let deleted = self.pods_api.delete(&key.namespace, &key.name, options).await;
        deleted.unless_replaced().map_err(Failed::to::<Pod>("delete", &key))?;
        Ok(())
    }
}
