//! Pods in `kubectl get`: the one word that says how a pod is.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodSpec, PodStatus,
};
use serde_json::{Value, json};

use apimachinery::table::{self, Column};

use super::conditions;
use super::{is_finished, phase};
use crate::cell;
use crate::check::text;
use crate::core::pod_spec::is_sidecar;

pub(super) const COLUMNS: &[Column] = &[
    Column::name(),
    Column::new("Ready", "string"),
    Column::new("Status", "string"),
    Column::new("Restarts", "string"),
    Column::new("Age", "string"),
    Column::new("IP", "string").wide(),
    Column::new("Node", "string").wide(),
    Column::new("Nominated Node", "string").wide(),
    Column::new("Readiness Gates", "string").wide(),
];

pub(super) fn row(pod: &Pod, now: Timestamp) -> Vec<Value> {
    let summary = Summary::of(pod);
    let status = pod.status.as_ref();
    let first_ip = status.and_then(|it| it.pod_ips.as_ref()?.first());
    let nominated = status.and_then(|it| it.nominated_node_name.as_ref());
    let node = pod.spec.as_ref().and_then(|it| it.node_name.as_ref());
    vec![
        cell::name(&pod.metadata),
        Value::from(format!("{}/{}", summary.n_ready, summary.n_total)),
        Value::from(summary.reason),
        Value::from(summary.restarts.render(now)),
        cell::age(&pod.metadata, now),
        cell::or_none(first_ip.map_or("", |it| it.ip.as_str())),
        cell::or_none(text(node)),
        cell::or_none(text(nominated)),
        readiness_gates(pod),
    ]
}

pub(super) fn row_conditions(pod: &Pod) -> Vec<Value> {
    if !is_finished(pod) {
        return Vec::new();
    }
    let message = match phase(pod) {
        "Succeeded" => "The pod has completed successfully.",
        _ => "The pod failed.",
    };
    vec![json!({"type": "Completed", "status": "True", "reason": phase(pod), "message": message})]
}

fn readiness_gates(pod: &Pod) -> Value {
    let gates = pod.spec.iter().flat_map(|it| it.readiness_gates.iter().flatten());
    let (mut n_true, mut n_gates) = (0, 0);
    for gate in gates {
        n_gates += 1;
        n_true += usize::from(conditions::is_true(pod, &gate.condition_type));
    }
    if n_gates == 0 { Value::from("<none>") } else { Value::from(format!("{n_true}/{n_gates}")) }
}

/// How often containers came back, and when the last one went.
#[derive(Clone, Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, container: &ContainerStatus) {
        self.count += i64::from(container.restart_count);
        let terminated = container.last_state.as_ref().and_then(|it| it.terminated.as_ref());
        let finished = terminated.and_then(|it| it.finished_at.as_ref()).map(|it| it.0);
        self.last = self.last.max(finished);
    }

    fn render(&self, now: Timestamp) -> String {
        match self.last {
            Some(last) if self.count != 0 => {
                format!("{} ({} ago)", self.count, table::age(Some(last), now))
            }
            _ => self.count.to_string(),
        }
    }
}

struct Summary {
    reason: String,
    n_ready: usize,
    n_total: usize,
    restarts: Restarts,
}

impl Summary {
    /// From the general to the particular: the phase, what the init containers are doing, what the
    /// containers are doing, and last whether the pod is on its way out.
    fn of(pod: &Pod) -> Self {
        let (no_spec, no_status) = (PodSpec::default(), PodStatus::default());
        let spec = pod.spec.as_ref().unwrap_or(&no_spec);
        let status = pod.status.as_ref().unwrap_or(&no_status);
        let n_sidecars = spec.init_containers.iter().flatten().filter(|it| is_sidecar(it)).count();
        let mut summary = Self {
            reason: first_reason(pod, status),
            n_ready: 0,
            n_total: spec.containers.len() + n_sidecars,
            restarts: Restarts::default(),
        };
        let sidecar_restarts = summary.add_init_containers(spec, status);
        if sidecar_restarts.is_initialized || conditions::is_true(pod, "Initialized") {
            summary.restarts = sidecar_restarts.restarts;
            summary.add_containers(pod, status);
        }
        if pod.metadata.deletion_timestamp.is_some() {
            if status.reason.as_deref() == Some("NodeLost") {
                summary.reason = "Unknown".to_owned();
            } else if !is_finished(pod) {
                summary.reason = "Terminating".to_owned();
            }
        }
        summary
    }

    /// The first init container that is not done decides.
    fn add_init_containers(&mut self, spec: &PodSpec, status: &PodStatus) -> Initialization {
        let declared = spec.init_containers.as_deref().unwrap_or_default();
        let mut sidecars = Restarts::default();
        for (index, container) in status.init_container_statuses.iter().flatten().enumerate() {
            self.restarts.add(container);
            let is_sidecar = is_declared_sidecar(declared, &container.name);
            if is_sidecar {
                sidecars.add(container);
            }
            let (waiting, terminated) = state(container);
            if terminated.is_some_and(|it| it.exit_code == 0) {
                continue;
            }
            if is_sidecar && container.started == Some(true) {
                self.n_ready += usize::from(container.ready);
                continue;
            }
            self.reason = match terminated {
                Some(it) => format!("Init:{}", termination(it)),
                None if !waiting.is_empty() && waiting != "PodInitializing" => {
                    format!("Init:{waiting}")
                }
                None => format!("Init:{index}/{}", declared.len()),
            };
            return Initialization { is_initialized: false, restarts: sidecars };
        }
        Initialization { is_initialized: true, restarts: sidecars }
    }

    /// From last to first, so that the first container with something to say is heard.
    fn add_containers(&mut self, pod: &Pod, status: &PodStatus) {
        let mut has_running = false;
        let mut failure = None;
        for container in status.container_statuses.iter().flatten().rev() {
            self.restarts.add(container);
            let (waiting, terminated) = state(container);
            let is_running = container.state.as_ref().is_some_and(|it| it.running.is_some());
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if let Some(terminated) = terminated {
                self.reason = termination(terminated);
                if terminated.exit_code != 0 {
                    failure = Some(self.reason.clone());
                }
            } else if container.ready && is_running {
                has_running = true;
                self.n_ready += 1;
            }
        }
        if self.reason == "Completed" {
            if has_running && conditions::is_true(pod, "Ready") {
                self.reason = "Running".to_owned();
            } else if let Some(failure) = failure {
                self.reason = failure;
            } else if has_running {
                self.reason = "NotReady".to_owned();
            }
        }
    }
}

struct Initialization {
    is_initialized: bool,
    /// Of sidecars alone: init containers that are done no longer count.
    restarts: Restarts,
}

fn first_reason(pod: &Pod, status: &PodStatus) -> String {
    let scheduled = conditions::get(pod, "PodScheduled");
    if scheduled.is_some_and(|it| it.reason.as_deref() == Some("SchedulingGated")) {
        return "SchedulingGated".to_owned();
    }
    match text(status.reason.as_ref()) {
        "" => phase(pod).to_owned(),
        reason => reason.to_owned(),
    }
}

fn is_declared_sidecar(declared: &[Container], name: &str) -> bool {
    declared.iter().any(|it| it.name == name && is_sidecar(it))
}

/// Why it waits (empty when it does not) and how it ended.
fn state(container: &ContainerStatus) -> (&str, Option<&ContainerStateTerminated>) {
    let state: Option<&ContainerState> = container.state.as_ref();
    let waiting = state.and_then(|it| it.waiting.as_ref());
    let waiting = text(waiting.and_then(|it| it.reason.as_ref()));
    (waiting, state.and_then(|it| it.terminated.as_ref()))
}

fn termination(terminated: &ContainerStateTerminated) -> String {
    match (text(terminated.reason.as_ref()), terminated.signal.unwrap_or(0)) {
        ("", 0) => format!("ExitCode:{}", terminated.exit_code),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}
