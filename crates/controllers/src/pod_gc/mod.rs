//! Deletes pods that nobody else would: finished ones above a threshold, those of nodes that are gone,
//! and those deleted before they were bound. A pod event costs one look at its node in the cache.

mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::core::node::Node;
use api::core::pod::{Pod, PodView};
use apimachinery::{ApiError, ObjectKey};
use client::{Api, DeleteOptions, PatchKind, Preconditions};
use informer::Indexer;
use jiff::Timestamp;
use reconcile::{Next, Reconciler, WorkQueue};
use serde_json::json;
use stdx::SharedClock;

use self::plan::Verdict;
use crate::handlers::on_transition;
use crate::pods::BY_NODE;
use crate::{Descriptor, Startup, conditions, owners};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "pod-garbage-collector-controller",
    identity: "pod-garbage-collector",
    start,
};

/// Finished pods are counted at most this often: one by one they would cost a list of all each.
const FINISHED_PAUSE: Duration = Duration::from_secs(5);
/// Index: pods that ran to their end.
const FINISHED: &str = "finished";

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("look for node {node} before its pods are given up")]
    CheckNode {
        node: String,
        #[source]
        source: ApiError,
    },
    #[error("delete pod {pod}")]
    Delete {
        pod: ObjectKey,
        #[source]
        source: ApiError,
    },
}

struct PodGc {
    nodes: Indexer<Node>,
    pods: Indexer<PodView>,
    nodes_api: Api<Node>,
    pods_api: Api<Pod>,
    clock: SharedClock,
    threshold: usize,
    /// Since when the node of a pod is missing, as seen here.
    missing: Mutex<BTreeMap<ObjectKey, Timestamp>>,
}

/// The key under which finished pods are counted; no pod has it.
fn finished_key() -> ObjectKey {
    ObjectKey::cluster(FINISHED)
}

fn index_by_node(pod: &PodView) -> Vec<String> {
    pod.node().map(str::to_owned).into_iter().collect()
}

fn index_finished(pod: &PodView) -> Vec<String> {
    if pod.is_terminal() { vec![FINISHED.to_owned()] } else { Vec::new() }
}

fn start(context: &Startup, descriptor: &Descriptor) {
    let client = context.client(descriptor);
    let queue = WorkQueue::new(descriptor.name);
    let nodes = context.factory.informer::<Node>();
    let pods = context.factory.informer::<PodView>();
    pods.add_index(BY_NODE, index_by_node);
    pods.add_index(FINISHED, index_finished);
    let reconciler = PodGc {
        nodes: nodes.indexer(),
        pods: pods.indexer(),
        nodes_api: client.api(),
        pods_api: client.api(),
        clock: context.world.clock.clone(),
        threshold: context.config.terminated_pod_gc_threshold,
        missing: Mutex::default(),
    };
    let (to_queue, bound) = (queue.clone(), pods.indexer());
    on_transition(&nodes, move |before, after| {
        if let (Some(node), None) = (before, after) {
            for pod in bound.by_index(BY_NODE, owners::name(&node.metadata)) {
                to_queue.add(pod.meta.key.clone());
            }
        }
    });
    let (to_queue, known) = (queue.clone(), nodes.indexer());
    on_transition(&pods, move |before, after| {
        let Some(pod) = after else {
            return;
        };
        if pod.is_terminal() && before.is_none_or(|it| !it.is_terminal()) {
            to_queue.add_after(finished_key(), FINISHED_PAUSE);
        }
        let is_suspect = match pod.node() {
            None => pod.meta.is_deleting,
            Some(node) => known.get(&ObjectKey::cluster(node)).is_none(),
        };
        if is_suspect {
            to_queue.add(pod.meta.key.clone());
        }
    });
    context.run(descriptor, queue, 1, reconciler);
}

impl Reconciler for PodGc {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Error> {
        if *key == finished_key() {
            if self.pods.count_by_index(FINISHED, FINISHED) <= self.threshold {
                return Ok(Next::Settled);
            }
            let finished = self.pods.by_index(FINISHED, FINISHED);
            for pod in plan::excess(finished, self.threshold) {
                self.delete(&pod).await?;
            }
            return Ok(Next::Settled);
        }
        let Some(pod) = self.pods.get(key) else {
            self.missing().remove(key);
            return Ok(Next::Settled);
        };
        let node = pod.node().map(ObjectKey::cluster);
        let has_node = node.as_ref().is_some_and(|it| self.nodes.get(it).is_some());
        let now = self.clock.now();
        let since = *self.missing().entry(key.clone()).or_insert(now);
        match plan::plan(&pod, has_node, since, now) {
            Verdict::Keep => {}
            Verdict::Wait(left) => return Ok(Next::After(left)),
            Verdict::DeleteUnscheduled => self.delete(&pod).await?,
            Verdict::DeleteOrphan => {
                let node = node.unwrap_or_default().name;
                if self.is_node_gone(&node).await? {
                    self.fail(&pod, now).await?;
                    self.delete(&pod).await?;
                }
            }
        }
        self.missing().remove(key);
        Ok(Next::Settled)
    }
}

impl PodGc {
    fn missing(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Timestamp>> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cache may be behind: the server has the last word before anything is deleted.
    async fn is_node_gone(&self, node: &str) -> Result<bool, Error> {
        match self.nodes_api.get("", node).await {
            Ok(_) => Ok(false),
            Err(err) if err.is_not_found() => Ok(true),
            Err(source) => Err(Error::CheckNode { node: node.to_owned(), source }),
        }
    }

    /// A pod that cannot have finished by itself ends as Failed, so that its owner replaces it.
    async fn fail(&self, pod: &PodView, now: Timestamp) -> Result<(), Error> {
        if pod.is_terminal() {
            return Ok(());
        }
        let key = pod.meta.key.clone();
        let body = json!({
            "metadata": {"uid": pod.meta.uid},
            "status": {"phase": "Failed", "conditions": [{
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "DeletionByPodGC",
                "message": "PodGC: node no longer exists",
                "lastTransitionTime": conditions::time(now),
            }]},
        });
        let (body, kind) = (body.to_string().into(), PatchKind::Strategic);
        let patched = self.pods_api.patch_status(&key.namespace, &key.name, kind, body).await;
        settled(key, patched.map(|_| ()))
    }

    async fn delete(&self, pod: &PodView) -> Result<(), Error> {
        let key = pod.meta.key.clone();
        let uid = Some(pod.meta.uid.clone());
        let options = DeleteOptions {
            grace_period_seconds: Some(0),
            preconditions: Preconditions { uid, resource_version: None },
            ..DeleteOptions::default()
        };
        let deleted = self.pods_api.delete(&key.namespace, &key.name, options).await;
        settled(key, deleted)
    }
}

/// Gone, or another pod of that name: nothing left to do.
fn settled(pod: ObjectKey, result: Result<(), ApiError>) -> Result<(), Error> {
    match result {
        Ok(()) => Ok(()),
        Err(err) if err.is_not_found() || err.is_conflict() => Ok(()),
        Err(source) => Err(Error::Delete { pod, source }),
    }
}
