//! The conditions that a kubelet owns, in upstream's order. Those of others stay as they are.

use k8s_openapi::api::core::v1::{ContainerStatus, PodCondition, PodStatus};

use super::seconds;
use crate::pod_worker::{Role, View};

/// What a condition says, before its times.
struct Said {
    is_true: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

impl Said {
    const TRUE: Self = Self { is_true: true, reason: None, message: None };

    fn no(reason: &'static str, message: String) -> Self {
        let message = Some(message).filter(|it| !it.is_empty());
        Self { is_true: false, reason: Some(reason), message }
    }
}

pub(super) fn set(view: &View, status: &mut PodStatus) {
    let phase = status.phase.clone().unwrap_or_default();
    let containers_ready = containers_ready(view, status, &phase);
    let ready = match &containers_ready {
        Said { is_true: true, .. } => gates_ready(view, status),
        Said { reason, message, .. } => {
            Said { is_true: false, reason: *reason, message: message.clone() }
        }
    };
    let said = [
        ("PodReadyToStartContainers", has_sandbox(view)),
        ("Initialized", initialized(view, status, &phase)),
        ("Ready", ready),
        ("ContainersReady", containers_ready),
        ("PodScheduled", Said::TRUE),
    ];
    for (type_, said) in said {
        put(view, status, type_, said);
    }
}

fn put(view: &View, status: &mut PodStatus, type_: &str, said: Said) {
    let conditions = status.conditions.get_or_insert_default();
    let mut condition = PodCondition {
        type_: type_.to_owned(),
        status: if said.is_true { "True" } else { "False" }.to_owned(),
        reason: said.reason.map(str::to_owned),
        message: said.message,
        observed_generation: view.generation,
        last_transition_time: Some(seconds(view.now)),
        last_probe_time: None,
    };
    match conditions.iter_mut().find(|it| it.type_ == type_) {
        None => conditions.push(condition),
        Some(old) => {
            if old.status == condition.status && old.last_transition_time.is_some() {
                condition.last_transition_time.clone_from(&old.last_transition_time);
            }
            condition.last_probe_time.clone_from(&old.last_probe_time);
            *old = condition;
        }
    }
}

fn has_sandbox(view: &View) -> Said {
    if view.sandbox().is_some() {
        Said::TRUE
    } else {
        Said { is_true: false, reason: None, message: None }
    }
}

/// `[a b]`, as Go prints a list.
fn render_list(names: &[&str]) -> String {
    format!("[{}]", names.join(" "))
}

fn find<'a>(status: &'a PodStatus, name: &str) -> Option<&'a ContainerStatus> {
    let init = status.init_container_statuses.iter().flatten();
    init.chain(status.container_statuses.iter().flatten()).find(|it| it.name == name)
}

fn initialized(view: &View, status: &PodStatus, phase: &str) -> Said {
    if phase == "Succeeded" {
        return Said { is_true: true, reason: Some("PodCompleted"), message: None };
    }
    let main = status.container_statuses.iter().flatten();
    if main.into_iter().any(|it| it.started == Some(true) || it.container_id.is_some()) {
        return Said::TRUE;
    }
    let wanted = view.wanted();
    let is_complete = |name: &str, role: Role| {
        find(status, name).is_some_and(|it| match role {
            Role::Sidecar => it.started == Some(true),
            Role::Init | Role::Main | Role::Ephemeral => it.ready,
        })
    };
    let incomplete: Vec<&str> = wanted
        .iter()
        .filter(|it| matches!(it.role, Role::Init | Role::Sidecar))
        .filter(|it| !is_complete(it.name(), it.role))
        .map(|it| it.name())
        .collect();
    if incomplete.is_empty() {
        return Said::TRUE;
    }
    let list = render_list(&incomplete);
    Said::no("ContainersNotInitialized", format!("containers with incomplete status: {list}"))
}

fn containers_ready(view: &View, status: &PodStatus, phase: &str) -> Said {
    match phase {
        "Succeeded" => return Said::no("PodCompleted", String::new()),
        "Failed" => return Said::no("PodFailed", String::new()),
        _ => {}
    }
    let wanted = view.wanted();
    let unready: Vec<&str> = wanted
        .iter()
        .filter(|it| matches!(it.role, Role::Sidecar | Role::Main))
        .map(|it| it.name())
        .filter(|it| !find(status, it).is_some_and(|it| it.ready))
        .collect();
    if unready.is_empty() {
        return Said::TRUE;
    }
    let list = render_list(&unready);
    Said::no("ContainersNotReady", format!("containers with unready status: {list}"))
}

fn gates_ready(view: &View, status: &PodStatus) -> Said {
    let gates = view.spec().readiness_gates.iter().flatten().map(|it| it.condition_type.as_str());
    let problems: Vec<String> = gates
        .filter_map(|gate| {
            let condition = status.conditions.iter().flatten().find(|it| it.type_ == gate);
            match condition {
                None => Some(format!(
                    "corresponding condition of pod readiness gate {gate:?} does not exist."
                )),
                Some(it) if it.status == "True" => None,
                Some(it) => Some(format!(
                    "the status of pod readiness gate {gate:?} is not \"True\", but {}",
                    it.status
                )),
            }
        })
        .collect();
    if problems.is_empty() {
        Said::TRUE
    } else {
        Said::no("ReadinessGatesNotReady", problems.join(", "))
    }
}
