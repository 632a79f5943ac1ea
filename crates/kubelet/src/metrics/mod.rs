//! What the kubelet counts, under upstream's names.

mod operations;

use std::sync::{Arc, Weak};
use std::time::Duration;

use node_api::containers::ContainerState;
use node_api::sandboxes::SandboxState;
use node_api::{Containers, Sandboxes};
use telemetry::{Buckets, Description, Family, Histogram, Registry, Stability, Watched};

pub(crate) use operations::Measured;

const fn describe<const N: usize>(
    name: &'static str,
    help: &'static str,
    labels: [&'static str; N],
) -> Description<N> {
    Description { name, stability: Stability::Alpha, help, labels }
}

const NODE_NAME: Description<1> =
    describe("kubelet_node_name", "The node's name. The count is always 1.", ["node"]);
const RUNNING_PODS: Description<0> =
    describe("kubelet_running_pods", "Number of pods that have a running pod sandbox", []);
const RUNNING_CONTAINERS: Description<1> = describe(
    "kubelet_running_containers",
    "Number of containers currently running",
    ["container_state"],
);
const POD_START: Description<0> = describe(
    "kubelet_pod_start_duration_seconds",
    "Duration in seconds from kubelet seeing a pod for the first time to the pod starting to run",
    [],
);
const POD_WORKER: Description<1> = describe(
    "kubelet_pod_worker_duration_seconds",
    "Duration in seconds to sync a single pod. Broken down by operation type: create, update, or sync",
    ["operation_type"],
);
const POD_START_BOUNDS: [f64; 25] = [
    0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 20.0, 30.0, 45.0, 60.0, 120.0, 180.0, 240.0,
    300.0, 360.0, 480.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0,
];
/// Prometheus' own.
const DEFAULT_BOUNDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// What pods' workers count.
pub(crate) struct Metrics {
    pod_start: Arc<Histogram>,
    pod_worker: Family<Histogram, 1>,
}

/// Why a worker looks at its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    First,
    /// Its specification is another.
    Changed,
    /// Something happened to it, or its time has come.
    Again,
}

impl Metrics {
    pub(crate) fn new(registry: &Registry, node_name: &str) -> Self {
        registry.gauges(&NODE_NAME).with([node_name]).set(1.0);
        let default = Buckets::seconds(&DEFAULT_BOUNDS);
        Self {
            pod_start: registry.histogram(&POD_START, Buckets::seconds(&POD_START_BOUNDS)),
            pod_worker: registry.histograms(&POD_WORKER, default),
        }
    }

    pub(crate) fn pod_started(&self, since_seen: Duration) {
        self.pod_start.observe(since_seen);
    }

    /// One look at the pod. What it starts runs beside it, and is counted as operations.
    pub(crate) fn pod_stepped(&self, why: Look, elapsed: Duration) {
        let operation = match why {
            Look::First => "create",
            Look::Changed => "update",
            Look::Again => "sync",
        };
        self.pod_worker.with([operation]).observe(elapsed);
    }
}

/// Counts what runs when somebody asks.
pub(crate) fn show_running(
    registry: &Registry,
    sandboxes: Weak<dyn Sandboxes>,
    containers: Weak<dyn Containers>,
) {
    let (pods, by_state) = (registry.gauge(&RUNNING_PODS), registry.gauges(&RUNNING_CONTAINERS));
    registry.on_read(move || {
        let (Some(sandboxes), Some(containers)) = (sandboxes.upgrade(), containers.upgrade())
        else {
            return Watched::Gone;
        };
        let is_ready = |it: &node_api::sandboxes::Sandbox| it.state == SandboxState::Ready;
        pods.set(sandboxes.list().iter().filter(|it| is_ready(it)).count() as f64);
        let (mut created, mut running, mut exited) = (0, 0, 0);
        for container in containers.list(None) {
            match container.state {
                ContainerState::Created => created += 1,
                ContainerState::Running { .. } => running += 1,
                ContainerState::Exited(_) => exited += 1,
            }
        }
        for (state, count) in [("created", created), ("running", running), ("exited", exited)] {
            by_state.with([state]).set(f64::from(count));
        }
        Watched::Alive
    });
}
