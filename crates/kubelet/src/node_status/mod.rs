//! The Node object and its lease: registration, conditions, what the node has and what is on it.

mod conditions;
mod network;
mod node;
mod task;

use std::collections::BTreeMap;
use std::sync::Arc;

use informer::SharedInformer;
use k8s_openapi::api::core::v1::Node;
use lifecycle::Tasks;

use crate::Config;
use crate::Machine;
use crate::context::Context;
use crate::pod_facts::Allocatable;

/// Registers the node and keeps its lease and status.
pub(crate) fn spawn(tasks: &Tasks, context: Arc<Context>, nodes: &Arc<SharedInformer<Node>>) {
    let nodes = nodes.indexer();
    let (network, about_pods) = (context.parts.sandboxes.network(), context.clone());
    tasks.spawn("network-events", |shutdown| network::run(about_pods, network, shutdown));
    tasks.spawn_restarting("node-status", move |shutdown| {
        task::run(context.clone(), nodes.clone(), shutdown)
    });
}

/// What pods may use: `cpu` in thousandths, the rest in whole units.
pub(crate) fn allocatable(context: &Context) -> BTreeMap<String, i64> {
    let it = context.allocatable;
    [
        ("cpu", it.cpu_millis),
        ("memory", it.memory),
        ("ephemeral-storage", it.ephemeral_storage),
        ("pods", i64::from(context.config.max_pods)),
    ]
    .into_iter()
    .map(|(name, amount)| (name.to_owned(), amount))
    .chain(it.huge_pages.resources())
    .collect()
}

/// Upstream's reserve (evictionHard): 100 MiB of memory and a tenth of the disk.
pub(crate) fn allocatable_of(machine: &Machine, _config: &Config) -> Allocatable {
    let whole = |it: u64| i64::try_from(it).unwrap_or(i64::MAX);
    Allocatable {
        cpu_millis: i64::from(machine.cpus) * 1000,
        memory: (whole(machine.memory) - whole(machine.huge_pages.total()) - (100 << 20)).max(0),
        ephemeral_storage: whole(machine.ephemeral_storage / 10 * 9),
        huge_pages: machine.huge_pages,
    }
}
