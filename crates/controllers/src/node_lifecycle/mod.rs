//! Nodes that fell silent: conditions become Unknown, taints follow the conditions, pods of dead
//! nodes stop being ready. One deadline per node, moved by its heartbeats; nothing looks at all
//! nodes. A lease renewal costs one note of the time, and each node one look per grace period.

mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::Identified as _;
use api::coordination::lease::LeaseView;
use api::core::node::{Node, NodeView};
use api::core::pod::{Pod, PodView};
use apimachinery::ObjectKey;
use client::{Api, PatchKind};
use informer::Indexer;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NodeCondition, Taint};
use reconcile::{Change, EventRecorder, EventType, Failed, Next, Outcome as _, Reconciler, itself};
use serde_json::json;
use stdx::SharedClock;

use self::plan::Observed;
use crate::flags::duration;
use crate::pods::BY_NODE;
use crate::{Descriptor, Flags, Startup, conditions, pods};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "node-lifecycle-controller",
    aliases: &["nodelifecycle"],
    identity: "node-controller",
    is_on_by_default: true,
    flags: Flags::of::<Settings>(),
    start,
};

#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Settings {
    /// How long a node may be silent before it counts as unreachable
    #[arg(long, value_name = "DURATION", default_value = "50s", value_parser = duration)]
    pub(crate) node_monitor_grace_period: Duration,
    /// How long a node that has never said that it is ready may be silent
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration)]
    pub(crate) node_startup_grace_period: Duration,
}

const LEASES: &str = "kube-node-lease";
const WORKERS: usize = 8;

/// When each node's last heartbeat was seen here. Our clock, not the node's: clocks differ.
#[derive(Default)]
struct Heartbeats(Mutex<BTreeMap<String, Timestamp>>);

impl Heartbeats {
    fn seen(&self, node: &str, now: Timestamp) {
        let mut heartbeats = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heartbeats.insert(node.to_owned(), now);
    }

    /// The first look at a node counts as a heartbeat: after a restart every node gets its grace.
    fn last(&self, node: &str, now: Timestamp) -> Timestamp {
        let mut heartbeats = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *heartbeats.entry(node.to_owned()).or_insert(now)
    }

    fn forget(&self, node: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(node);
    }
}

struct NodeLifecycle {
    nodes: Indexer<NodeView>,
    pods: Indexer<PodView>,
    nodes_api: Api<Node>,
    pods_api: Api<Pod>,
    heartbeats: Arc<Heartbeats>,
    events: EventRecorder,
    clock: SharedClock,
    grace: Duration,
    startup_grace: Duration,
}

fn start(startup: &Startup<'_>) {
    let settings: &Settings = startup.settings();
    let mut controller = startup.controller();
    let heartbeats = Arc::new(Heartbeats::default());
    let reconciler = NodeLifecycle {
        nodes: controller.cache(),
        pods: controller.indexed_cache(&[(BY_NODE, pods::index_by_node)]),
        nodes_api: startup.client.api(),
        pods_api: startup.client.api(),
        heartbeats: heartbeats.clone(),
        events: startup.events_of("node-controller"),
        clock: startup.world.clock.clone(),
        grace: settings.node_monitor_grace_period,
        startup_grace: settings.node_startup_grace_period,
    };
    let (clock, beats) = (startup.world.clock.clone(), heartbeats.clone());
    let renewals = move |change: Change<'_, LeaseView>| {
        let lease = change.with_new(|it| it.renewed).map(|it| &it.meta.key);
        if let Some(key) = lease.filter(|it| it.namespace == LEASES) {
            beats.seen(&key.name, clock.now());
        }
    };
    let clock = startup.world.clock.clone();
    let posts = move |change: Change<'_, NodeView>| {
        if let Some(node) = change.with_new(heartbeat) {
            heartbeats.seen(node.name(), clock.now());
        }
    };
    controller
        // No key: the node's timer finds the newer heartbeat when it rings.
        .follows(move |change, _| renewals(change))
        // Noted before the node is looked at.
        .follows(move |change, _| posts(change))
        .watches(itself::<NodeView>)
        .workers(WORKERS)
        .run(reconciler);
}

fn heartbeat(node: &NodeView) -> Option<Timestamp> {
    node.condition("Ready")?.last_heartbeat_time.as_ref().map(|it| it.0)
}

impl Reconciler for NodeLifecycle {
    type Key = ObjectKey;
    type Error = Failed;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failed> {
        let Some(node) = self.nodes.get(key) else {
            self.heartbeats.forget(&key.name);
            return Ok(Next::Settled);
        };
        let now = self.clock.now();
        let seen = self.heartbeats.last(&key.name, now);
        let (grace, startup_grace) = (self.grace, self.startup_grace);
        let plan = plan::plan(&Observed { node: node.clone(), seen, now, grace, startup_grace });
        let version = match plan.conditions {
            Some(conditions) => match self.set_conditions(&node, &conditions).await? {
                Some(version) => version,
                None => return Ok(Next::Settled),
            },
            None => node.version(),
        };
        if let Some(taints) = plan.taints {
            self.set_taints(key, version, taints).await?;
        }
        if plan.is_down {
            self.mark_pods(key, now).await?;
        }
        Ok(plan.deadline.map_or(Next::Settled, Next::After))
    }
}

impl NodeLifecycle {
    /// The version after the change; `None` when it is gone. With the resourceVersion that was
    /// looked at: a heartbeat that the cache has not seen yet wins.
    async fn set_conditions(
        &self,
        node: &NodeView,
        conditions: &[NodeCondition],
    ) -> Result<Option<u64>, Failed> {
        let key = node.key();
        let body = json!({
            "metadata": {"resourceVersion": node.version().to_string()},
            "status": {"conditions": conditions},
        });
        let (body, kind) = (body.to_string().into(), PatchKind::Strategic);
        let changed = self.nodes_api.patch_status("", &key.name, kind, body).await;
        let changed = changed.unless_gone();
        let changed = changed.map_err(Failed::to::<Node>("mark as unknown", &key))?;
        if changed.is_some() {
            let message = format!("Node {key} status is now: NodeNotReady");
            self.events.event(node, EventType::Normal, "NodeNotReady", message);
        }
        Ok(changed.map(|it| it.meta().resource_version))
    }

    /// With the resourceVersion that was looked at: taints that others set meanwhile are not lost.
    async fn set_taints(
        &self,
        key: &ObjectKey,
        version: u64,
        taints: Vec<Taint>,
    ) -> Result<(), Failed> {
        let body = json!({
            "metadata": {"resourceVersion": version.to_string()},
            "spec": {"taints": taints},
        });
        let body = body.to_string().into();
        let patched = self.nodes_api.patch("", &key.name, PatchKind::Merge, body).await;
        patched.unless_gone().map_err(Failed::to::<Node>("set the taints of", key))?;
        Ok(())
    }

    async fn mark_pods(&self, node: &ObjectKey, now: Timestamp) -> Result<(), Failed> {
        for pod in self.pods.by_index(BY_NODE, &node.name) {
            if !pod.is_ready {
                continue;
            }
            let key = pod.key();
            let body = json!({
                "metadata": {"uid": pod.uid()},
                "status": {"conditions": [{
                    "type": "Ready",
                    "status": "False",
                    "lastTransitionTime": conditions::time(now),
                }]},
            });
            let (body, kind) = (body.to_string().into(), PatchKind::Strategic);
            let marked = self.pods_api.patch_status(&key.namespace, &key.name, kind, body).await;
            let marked = marked.unless_replaced();
            if marked.map_err(Failed::to::<Pod>("mark as not ready", &key))?.is_some() {
                let message = "Node is not ready".to_owned();
                self.events.event(&*pod, EventType::Warning, "NodeNotReady", message);
            }
        }
        Ok(())
    }
}
