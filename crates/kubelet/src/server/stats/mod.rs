//! What the node, its pods and their containers use: `/stats/summary` and `/metrics/resource`.
//!
//! Read when somebody asks, never otherwise. How much CPU is used per second is the difference of
//! two readings: what was read for an earlier question if that is not too long ago, else a second
//! reading a moment after the first.

mod page;
mod rates;
mod summary;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::core::Pod;
use futures_util::StreamExt as _;
use futures_util::stream;
use jiff::Timestamp;
use node_api::containers::{Container, ContainerState, ContainerStats, Usage};
use node_api::sandboxes::SandboxStats;
use node_api::{Cgroups, ContainerId, PodUid};

use self::rates::{FIRST_WINDOW, Of, Rate, Rates};
use super::Core;

/// Pods that are read at once.
const AT_ONCE: usize = 16;

/// What one question is answered with.
#[derive(Debug)]
struct Reading {
    node_name: String,
    memory_capacity: u64,
    /// Or why it cannot be read.
    node: Result<Used, String>,
    pods: Vec<PodUsed>,
    /// Whether something that runs could not be read.
    is_partial: bool,
}

/// What something uses, at one time.
#[derive(Clone, Debug, PartialEq)]
struct Used {
    at: Timestamp,
    usage: Usage,
    rate: Option<Rate>,
}

#[derive(Debug)]
struct PodUsed {
    pod: Arc<Pod>,
    whole: Option<(Used, SandboxStats)>,
    containers: Vec<ContainerUsed>,
}

#[derive(Debug)]
struct ContainerUsed {
    id: ContainerId,
    name: String,
    started: Option<Timestamp>,
    used: Used,
    stats: ContainerStats,
    log_bytes: Option<u64>,
}

/// Where they are read, and what was read before.
pub(crate) struct Stats {
    node_name: String,
    memory_capacity: u64,
    cgroups: Arc<dyn Cgroups>,
    rates: Mutex<Rates>,
}

impl Stats {
    pub(crate) fn new(node_name: String, memory_capacity: u64, cgroups: Arc<dyn Cgroups>) -> Self {
        Self { node_name, memory_capacity, cgroups, rates: Mutex::default() }
    }

    fn rates(&self) -> MutexGuard<'_, Rates> {
        self.rates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn summary(&self, core: &Core) -> Vec<u8> {
        summary::render(&self.read_rated(core).await)
    }

    /// Counters alone, so once is enough.
    pub(crate) async fn page(&self, core: &Core) -> String {
        page::render(&self.read(core).await)
    }

    /// With the CPU per second of everything that runs.
    async fn read_rated(&self, core: &Core) -> Reading {
        let reading = self.read(core).await;
        let is_known = |it: &Used| it.rate.is_some();
        let containers = reading.pods.iter().flat_map(|it| &it.containers);
        let is_complete = containers.map(|it| &it.used).all(is_known)
            && reading.node.as_ref().is_ok_and(is_known);
        if is_complete {
            return reading;
        }
        tokio::time::sleep(FIRST_WINDOW).await;
        self.read(core).await
    }

    async fn read(&self, core: &Core) -> Reading {
        let pods = stream::iter(core.pods.pods());
        let read = pods.map(|pod| self.read_pod(core, pod)).buffered(AT_ONCE);
        let read: Vec<(PodUsed, bool)> = read.collect().await;
        let is_partial = read.iter().any(|(_, is_partial)| *is_partial);
        let pods: Vec<PodUsed> = read.into_iter().map(|(pod, _)| pod).collect();
        let now = core.world.clock.now();
        let node = self.cgroups.machine().await;
        let node = node.map(|usage| self.rated(Of::Node, now, usage));
        let node = node.map_err(|err| stdx::error_chain(&err));
        let running: BTreeSet<Of> = pods.iter().flat_map(keys).chain([Of::Node]).collect();
        self.rates().keep(&running);
        Reading {
            node_name: self.node_name.clone(),
            memory_capacity: self.memory_capacity,
            node,
            pods,
            is_partial,
        }
    }

    fn rated(&self, of: Of, at: Timestamp, usage: Usage) -> Used {
        let rate = self.rates().read(of, at, usage.cpu);
        Used { at, usage, rate }
    }

    /// And whether something of it could not be read. What has ended uses nothing.
    async fn read_pod(&self, core: &Core, pod: Arc<Pod>) -> (PodUsed, bool) {
        let text = |it: &Option<String>| it.clone().unwrap_or_default();
        let (namespace, name) = (text(&pod.metadata.namespace), text(&pod.metadata.name));
        let uid = PodUid::new(text(&pod.metadata.uid));
        let mut used = PodUsed { pod, whole: None, containers: Vec::new() };
        let Some(found) = core.pods.find(&namespace, &name, Some(&uid)) else {
            return (used, false);
        };
        let mut is_partial = false;
        if let Some(sandbox) = &found.sandbox {
            match core.sandboxes.stats(sandbox).await {
                Ok(stats) => {
                    let of = Of::Pod(uid.to_string());
                    let rated = self.rated(of, stats.at, stats.usage);
                    used.whole = Some((rated, stats));
                }
                Err(_) => is_partial = true,
            }
        }
        for (container, on_node) in &found.containers {
            let Some(run) = &on_node.current else { continue };
            let known = core.containers.get(&run.id);
            let Some(started) = known.as_ref().and_then(started) else { continue };
            let Ok(stats) = core.containers.stats(&run.id).await else {
                is_partial = true;
                continue;
            };
            let of = Of::Container(run.id.to_string());
            used.containers.push(ContainerUsed {
                id: run.id.clone(),
                name: container.clone(),
                started: Some(started),
                used: self.rated(of, stats.at, stats.usage),
                log_bytes: std::fs::metadata(&run.log_path).ok().map(|it| it.len()),
                stats,
            });
        }
        (used, is_partial)
    }
}

/// Since when it runs, if it does.
fn started(container: &Container) -> Option<Timestamp> {
    match &container.state {
        ContainerState::Running { started } => Some(*started),
        ContainerState::Created | ContainerState::Exited(_) => None,
    }
}

fn keys(pod: &PodUsed) -> Vec<Of> {
    let uid = pod.pod.metadata.uid.clone().unwrap_or_default();
    let containers = pod.containers.iter().map(|it| Of::Container(it.id.to_string()));
    containers.chain([Of::Pod(uid)]).collect()
}
