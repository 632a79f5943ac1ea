//! Nodes that fell silent: conditions become Unknown, taints follow the conditions, pods of dead
//! nodes stop being ready. How fast pods are driven out is up to the node's zone.
//!
//! One deadline per node, moved by its heartbeats; nothing looks at all nodes. A lease renewal
//! costs one note of the time, and each node one look per grace period.

mod garbage;
mod metrics;
mod plan;
#[cfg(test)]
mod tests;
mod zones;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::Identified as _;
use api::coordination::lease::LeaseView;
use api::core::node::{Node, NodeView};
use api::core::pod::{Pod, PodView};
use apimachinery::ObjectKey;
use client::{Api, PatchKind};
use informer::Indexer;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NodeCondition, ObjectReference, Taint};
use reconcile::{
    Change, EventRecorder, EventType, Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler,
    WorkQueue, itself,
};
use serde_json::json;
use stdx::SharedClock;
use tokio::time::Instant;

pub(crate) use self::garbage::plan_any;
use self::metrics::Metrics;
use self::plan::{Observed, Plan};
use self::zones::{Limits, Permit, Zones};
use crate::flags::{duration, rate};
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
    /// Accepted as upstream's: nodes are looked at when something changes or is due
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    node_monitor_period: Duration,
    /// Nodes per second whose pods are driven out, in a zone that is well
    #[arg(long, value_name = "RATE", default_value = "0.1", value_parser = rate)]
    node_eviction_rate: f64,
    /// The same in a large zone of which many nodes are not ready; in a small one it is none
    #[arg(long, value_name = "RATE", default_value = "0.01", value_parser = rate)]
    secondary_node_eviction_rate: f64,
    /// The share of a zone's nodes, at least three, that must be not ready for it not to be well
    #[arg(long, value_name = "SHARE", default_value = "0.55", value_parser = rate)]
    unhealthy_zone_threshold: f64,
    /// More nodes than this are a large zone
    #[arg(long, value_name = "N", default_value_t = 50)]
    large_cluster_size_threshold: u32,
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

    /// As if every node had just been heard.
    fn restart(&self, now: Timestamp) {
        let mut heartbeats = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heartbeats.values_mut().for_each(|it| *it = now);
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
    own_writes: Arc<OwnWrites<NodeView>>,
    heartbeats: Arc<Heartbeats>,
    zones: Arc<Mutex<Zones>>,
    /// For nodes that somebody else's change gives their turn.
    queue: WorkQueue,
    /// Nodes that were told of, with their uids.
    known: Mutex<BTreeMap<String, String>>,
    events: EventRecorder,
    metrics: Metrics,
    clock: SharedClock,
    grace: Duration,
    startup_grace: Duration,
}

fn start(startup: &Startup<'_>) {
    let settings: &Settings = startup.settings();
    let mut controller = startup.controller();
    let heartbeats = Arc::new(Heartbeats::default());
    let zones = Arc::new(Mutex::new(Zones::new(Limits {
        rate: settings.node_eviction_rate,
        secondary_rate: settings.secondary_node_eviction_rate,
        threshold: settings.unhealthy_zone_threshold,
        large: usize::try_from(settings.large_cluster_size_threshold).unwrap_or(usize::MAX),
    })));
    let reconciler = NodeLifecycle {
        nodes: controller.cache(),
        pods: controller.indexed_cache(&[(BY_NODE, pods::index_by_node)]),
        nodes_api: startup.client.api(),
        pods_api: startup.client.api(),
        own_writes: controller.own_writes(PATIENCE),
        heartbeats: heartbeats.clone(),
        zones: zones.clone(),
        queue: controller.queue(),
        known: Mutex::default(),
        events: startup.events_of("node-controller"),
        metrics: Metrics::new(&startup.metrics),
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
        .follows(move |change: Change<'_, NodeView>, queue| {
            let node = change.latest().name();
            let standing = change.after().map(|it| plan::standing(it));
            if let Some(next) = lock(&zones).observe(node, standing) {
                queue.add(ObjectKey::cluster(next));
            }
        })
        .watches(itself::<NodeView>)
        .workers(WORKERS)
        .run(reconciler);
}

fn lock(zones: &Mutex<Zones>) -> MutexGuard<'_, Zones> {
    zones.lock().unwrap_or_else(PoisonError::into_inner)
}

fn heartbeat(node: &NodeView) -> Option<Timestamp> {
    node.condition("Ready")?.last_heartbeat_time.as_ref().map(|it| it.0)
}

impl Reconciler for NodeLifecycle {
    type Key = ObjectKey;
    type Error = Failed;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failed> {
        if let Some(wait) = self.own_writes.wait(key) {
            return Ok(Next::After(wait));
        }
        let now = self.clock.now();
        self.look_at_zones(now);
        let node = self.nodes.get(key);
        self.introduce(key, node.as_deref());
        let Some(node) = node else {
            self.heartbeats.forget(&key.name);
            return Ok(Next::Settled);
        };
        let started = Instant::now();
        let seen = self.heartbeats.last(&key.name, now);
        let (grace, startup_grace) = (self.grace, self.startup_grace);
        let plan = plan::plan(&Observed { node: node.clone(), seen, now, grace, startup_grace });
        if plan.conditions.is_some() {
            // It counts as it is about to be, or its zone would take it for a single case.
            let standing = plan::standing_when_silent(&node);
            lock(&self.zones).observe(&key.name, Some(standing));
            self.look_at_zones(now);
        }
        let turn = self.turn(&node, &plan, now);
        self.write(key, &node, &plan, &turn).await?;
        if plan.is_silent {
            self.mark_pods(key, now).await?;
        }
        self.metrics.duration.observe(started.elapsed());
        let deadlines = plan.deadline.into_iter().chain(turn.wait);
        Ok(deadlines.min().map_or(Next::Settled, Next::After))
    }
}

/// Whether the node's pods are told to leave.
#[derive(Default)]
struct Turn {
    evicts: Option<&'static str>,
    /// It is its first.
    is_new: bool,
    wait: Option<Duration>,
}

impl NodeLifecycle {
    /// What has been counted since the last look becomes modes, and those wake who is concerned.
    fn look_at_zones(&self, now: Timestamp) {
        let mut zones = lock(&self.zones);
        if !zones.is_changed() {
            return;
        }
        let found = zones.look();
        self.metrics.show(&zones);
        drop(zones);
        for (zone, mode) in &found.modes {
            tracing::info!(zone = zone.replace('\0', ""), ?mode, "a zone changed");
        }
        if found.is_back {
            self.heartbeats.restart(now);
        }
        found.wake.into_iter().for_each(|it| self.queue.add(ObjectKey::cluster(it)));
    }

    /// Says of each node once that it came, and that it went.
    fn introduce(&self, key: &ObjectKey, node: Option<&NodeView>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let name = &key.name;
        let before = match node {
            Some(node) => known.insert(name.clone(), node.uid().to_owned()),
            None => known.remove(name),
        };
        drop(known);
        let about = |uid: &str| ObjectReference {
            kind: Some("Node".to_owned()),
            api_version: Some("v1".to_owned()),
            name: Some(name.clone()),
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        };
        let uid = node.map(NodeView::uid);
        if let Some(old) = before.as_deref().filter(|it| uid != Some(it)) {
            let text = format!("Node {name} event: Removing Node {name} from Controller");
            self.events.event_about(about(old), EventType::Normal, "RemovingNode", text);
        }
        if let Some(new) = uid.filter(|it| before.as_deref() != Some(it)) {
            let text = format!("Node {name} event: Registered Node {name} in Controller");
            self.events.event_about(about(new), EventType::Normal, "RegisteredNode", text);
        }
    }

    fn turn(&self, node: &NodeView, plan: &Plan, now: Timestamp) -> Turn {
        let mut zones = lock(&self.zones);
        let is_evicting = plan::is_evicting(node);
        let evicts = plan.evicts.filter(|_| !zones.is_all_down());
        if evicts.is_none() || is_evicting {
            if let Some(next) = zones.release(node.name()) {
                self.queue.add(ObjectKey::cluster(next));
            }
            return Turn { evicts, ..Turn::default() };
        }
        match zones.permit(node.name(), now) {
            Permit::Granted { next } => {
                if let Some((next, pause)) = next {
                    self.queue.add_after(ObjectKey::cluster(next), pause);
                }
                Turn { evicts, is_new: true, wait: None }
            }
            Permit::Wait(left) => Turn { wait: Some(left), ..Turn::default() },
            Permit::Held => Turn::default(),
        }
    }

    async fn write(
        &self,
        key: &ObjectKey,
        node: &NodeView,
        plan: &Plan,
        turn: &Turn,
    ) -> Result<(), Failed> {
        let mut version = node.version();
        if let Some(conditions) = &plan.conditions {
            match self.set_conditions(node, conditions, plan.has_fallen).await? {
                Some(written) => version = written,
                None => return Ok(()),
            }
        }
        let conditions = plan.conditions.as_deref().unwrap_or(&node.conditions);
        if let Some(taints) = plan::taints(node, conditions, turn.evicts, self.clock.now()) {
            self.set_taints(key, version, taints).await?;
            if turn.is_new {
                self.metrics.evicted(lock(&self.zones).zone_of(&key.name));
            }
        }
        if !plan.labels.is_empty() {
            self.set_labels(key, node, &plan.labels).await?;
        }
        Ok(())
    }

    /// The version after the change; `None` when it is gone. With the resourceVersion that was
    /// looked at: a heartbeat that the cache has not seen yet wins.
    async fn set_conditions(
        &self,
        node: &NodeView,
        conditions: &[NodeCondition],
        has_fallen: bool,
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
        if let Some(changed) = &changed {
            self.own_writes.wrote(&key, changed.meta());
            if has_fallen {
                let message = format!("Node {key} status is now: NodeNotReady");
                self.events.event(node, EventType::Normal, "NodeNotReady", message);
            }
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
        let patched = patched.unless_gone();
        let patched = patched.map_err(Failed::to::<Node>("set the taints of", key))?;
        if let Some(patched) = patched {
            self.own_writes.wrote(key, patched.meta());
        }
        Ok(())
    }

    async fn set_labels(
        &self,
        key: &ObjectKey,
        node: &NodeView,
        labels: &[(&'static str, String)],
    ) -> Result<(), Failed> {
        let labels: BTreeMap<&str, &String> = labels.iter().map(|(to, it)| (*to, it)).collect();
        let body = json!({"metadata": {"uid": node.uid(), "labels": labels}}).to_string();
        let patched = self.nodes_api.patch("", &key.name, PatchKind::Merge, body.into()).await;
        let patched = patched.unless_replaced();
        let patched = patched.map_err(Failed::to::<Node>("set the labels of", key))?;
        if let Some(patched) = patched {
            self.own_writes.wrote(key, patched.meta());
        }
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
