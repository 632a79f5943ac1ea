//! Gives nodes their parts of the pod network: `spec.podCIDRs`, one of each family, of those that
//! no other node has. A node that has some already keeps them; one whose pods have addresses says of
//! which parts, and gets those if they are free.

mod garbage;
mod metrics;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::Identified as _;
use api::core::node::{Node, NodeView};
use apimachinery::ObjectKey;
use client::{Api, PatchKind};
use informer::Indexer;
use reconcile::{
    Change, EventRecorder, EventType, Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler,
};
use serde_json::json;
use stdx::Cidr;

pub(crate) use self::garbage::plan_any;
use self::metrics::Metrics;
use self::plan::{Masks, Whole};
use crate::flags::boolean;
use crate::{Descriptor, Flags, Startup};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "node-ipam-controller",
    aliases: &["nodeipam"],
    identity: "node-controller",
    is_on_by_default: true,
    flags: Flags::of::<Settings>(),
    start,
};

#[derive(Clone, clap::Args)]
#[group(skip)]
pub(crate) struct Settings {
    /// Give nodes their parts of --cluster-cidr (default: false; in `xebec up` true)
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "true", value_parser = boolean)]
    allocate_node_cidrs: Option<bool>,
    /// The pod network that nodes get parts of: one range, or one of IPv4 and one of IPv6
    #[arg(long, value_name = "CIDR,...", value_delimiter = ',', value_parser = plan::parse_cidr)]
    cluster_cidr: Vec<Cidr>,
    /// The prefix length of a node's part; 24 for IPv4 and 64 for IPv6, if nobody says
    #[arg(long, value_name = "LENGTH")]
    node_cidr_mask_size: Option<u8>,
    /// The same for IPv4, where there are both
    #[arg(long, value_name = "LENGTH")]
    node_cidr_mask_size_ipv4: Option<u8>,
    /// The same for IPv6, where there are both
    #[arg(long, value_name = "LENGTH")]
    node_cidr_mask_size_ipv6: Option<u8>,
    /// Addresses of Services, which no node gets
    #[arg(long, value_name = "CIDR,...", value_delimiter = ',', value_parser = plan::parse_cidr)]
    service_cluster_ip_range: Vec<Cidr>,
    /// Their pods have addresses without.
    #[arg(skip)]
    spares_simulated: bool,
}

/// The label of nodes that exist only in the API.
const SIMULATED: &str = "xebec.local/simulated";

impl Settings {
    /// Where nobody said otherwise, nodes get parts of `pods`.
    pub(crate) fn allocating(&self, pods: &[Cidr], services: &[Cidr]) -> Self {
        let or = |given: &[Cidr], own: &[Cidr]| match given {
            [] => own.to_vec(),
            given => given.to_vec(),
        };
        Self {
            allocate_node_cidrs: Some(self.allocate_node_cidrs.unwrap_or(true)),
            cluster_cidr: or(&self.cluster_cidr, pods),
            service_cluster_ip_range: or(&self.service_cluster_ip_range, services),
            spares_simulated: self.allocate_node_cidrs.is_none(),
            ..self.clone()
        }
    }
}

struct NodeIpam {
    nodes: Indexer<NodeView>,
    api: Api<Node>,
    own_writes: Arc<OwnWrites<NodeView>>,
    events: EventRecorder,
    metrics: Metrics,
    wholes: Vec<Whole>,
    services: Vec<Cidr>,
    spares_simulated: bool,
    memory: Mutex<Memory>,
}

/// There is one worker, so what is here is what was decided last.
#[derive(Default)]
struct Memory {
    /// What was given to nodes: the cache may not show it yet.
    given: BTreeMap<String, Vec<Cidr>>,
    /// Where to look next, by range: what was just given back is not given again at once.
    next: BTreeMap<usize, u128>,
    /// Nodes of which was said that there is nothing left for them.
    told: BTreeSet<String>,
}

fn start(startup: &Startup<'_>) {
    let settings: &Settings = startup.settings();
    if settings.allocate_node_cidrs != Some(true) {
        return;
    }
    let masks = Masks {
        one: settings.node_cidr_mask_size,
        v4: settings.node_cidr_mask_size_ipv4,
        v6: settings.node_cidr_mask_size_ipv6,
    };
    let wholes = match plan::wholes(&settings.cluster_cidr, masks) {
        Ok(wholes) => wholes,
        Err(err) => {
            tracing::error!(error = %err, "--allocate-node-cidrs: no node gets a range");
            return;
        }
    };
    let mut controller = startup.controller();
    let nodes: Indexer<NodeView> = controller.cache();
    let metrics = Metrics::new(&startup.metrics, &wholes);
    let reconciler = NodeIpam {
        nodes: nodes.clone(),
        api: startup.client.api(),
        own_writes: controller.own_writes(PATIENCE),
        events: startup.events(),
        metrics,
        wholes,
        services: settings.service_cluster_ip_range.clone(),
        spares_simulated: settings.spares_simulated,
        memory: Mutex::default(),
    };
    controller
        .follows(move |change: Change<'_, NodeView>, queue| {
            queue.add(change.latest().key());
            if let Change::Deleted(_) = change {
                // What it had is for those who wait.
                let waiting = nodes.list().into_iter().filter(|it| it.pod_cidrs.is_empty());
                waiting.for_each(|it| queue.add(it.key()));
            }
        })
        .run(reconciler);
}

impl Reconciler for NodeIpam {
    type Key = ObjectKey;
    type Error = Failed;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failed> {
        let Some(node) = self.nodes.get(key) else {
            self.own_writes.forget(key);
            self.forget(&key.name);
            return Ok(Next::Settled);
        };
        if let Some(wait) = self.own_writes.wait(key) {
            return Ok(Next::After(wait));
        }
        let is_spared =
            self.spares_simulated && node.meta.labels.iter().any(|(label, _)| label == SIMULATED);
        if !node.pod_cidrs.is_empty() || node.meta.is_deleting || is_spared {
            // The cache shows it.
            self.memory().given.remove(&key.name);
            return Ok(Next::Settled);
        }
        match self.choose(&node) {
            Some(cidrs) => self.give(key, &node, cidrs).await?,
            None => {
                if self.memory().told.insert(key.name.clone()) {
                    self.say(&node, "CIDRNotAvailable");
                }
            }
        }
        Ok(Next::Settled)
    }
}

impl NodeIpam {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, node: &str) {
        let mut memory = self.memory();
        memory.told.remove(node);
        memory.given.remove(node);
        drop(memory);
        self.metrics.released();
    }

    /// One part of each range, or nothing.
    fn choose(&self, node: &NodeView) -> Option<Vec<Cidr>> {
        let wished = plan::wished(node.wished_cidrs.as_deref().unwrap_or_default());
        let node = node.name();
        let mut memory = self.memory();
        let mut taken: Vec<Cidr> = self.services.clone();
        for other in self.nodes.list() {
            taken.extend(other.pod_cidrs.iter().filter_map(|it| it.parse::<Cidr>().ok()));
        }
        let given = memory.given.iter().filter(|(other, _)| *other != node);
        taken.extend(given.flat_map(|(_, it)| it.iter().copied()));
        let mut chosen = Vec::new();
        for (index, whole) in self.wholes.iter().enumerate() {
            if let Some(part) = plan::grant(*whole, &taken, &wished) {
                chosen.push(part);
                continue;
            }
            let start = memory.next.get(&index).copied().unwrap_or_default();
            let found = plan::choose(*whole, &taken, start);
            self.metrics.tried(*whole, &found);
            let part = found.part?;
            memory.next.insert(index, found.next);
            chosen.push(part);
        }
        memory.given.insert(node.to_owned(), chosen.clone());
        Some(chosen)
    }

    async fn give(&self, key: &ObjectKey, node: &NodeView, cidrs: Vec<Cidr>) -> Result<(), Failed> {
        let texts: Vec<String> = cidrs.iter().map(ToString::to_string).collect();
        let body = json!({
            "metadata": {"resourceVersion": node.version().to_string()},
            "spec": {"podCIDR": texts.first(), "podCIDRs": texts},
        });
        let body = body.to_string().into();
        let patched = self.api.patch("", &key.name, PatchKind::Merge, body).await.unless_gone();
        let written = match patched {
            Ok(Some(written)) => written,
            Ok(None) => return Ok(()),
            Err(err) => {
                self.memory().given.remove(&key.name);
                if !err.is_conflict() {
                    self.say(node, "CIDRAssignmentFailed");
                }
                return Err(Failed::to::<Node>("give a range to", key)(err));
            }
        };
        self.own_writes.wrote(key, written.meta());
        self.memory().told.remove(&key.name);
        self.metrics.allocated();
        Ok(())
    }

    fn say(&self, node: &NodeView, reason: &str) {
        let message = format!("Node {} status is now: {reason}", node.name());
        self.events.event(node, EventType::Normal, reason, message);
    }
}
