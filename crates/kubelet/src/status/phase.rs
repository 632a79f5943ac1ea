//! The phase of a pod, from the states of its containers.

use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus};
use node_api::containers::Exit;

use super::containers::Statuses;
use crate::pod_worker::{Life, Role, View, Wanted, restarts};

#[derive(Default)]
struct Counts {
    pending_init: usize,
    running: usize,
    waiting: usize,
    stopped: usize,
    stopped_for_good: usize,
    succeeded: usize,
    has_failed_init: bool,
}

pub(super) fn compute(view: &View, life: &Life, statuses: &Statuses) -> &'static str {
    match view.status().and_then(|it| it.phase.as_deref()) {
        Some("Failed") => return "Failed",
        Some("Succeeded") => return "Succeeded",
        _ => {}
    }
    let counts = count(view, statuses);
    let is_over = matches!(life, Life::Terminated(_)) && !view.is_static;
    match from_counts(&counts, is_over) {
        // It ends before it ever ran.
        "Pending" | "Running" if is_over => "Failed",
        phase => phase,
    }
}

fn from_counts(counts: &Counts, is_over: bool) -> &'static str {
    if counts.has_failed_init {
        return "Failed";
    }
    if counts.pending_init > 0 || counts.waiting > 0 {
        return "Pending";
    }
    if counts.running > 0 {
        return "Running";
    }
    match counts.stopped {
        0 => "Pending",
        stopped if !is_over && stopped != counts.stopped_for_good => "Running",
        stopped if stopped == counts.succeeded => "Succeeded",
        _ => "Failed",
    }
}

fn count(view: &View, statuses: &Statuses) -> Counts {
    let mut counts = Counts::default();
    let main = statuses.main.iter().flatten();
    let has_begun = main.clone().any(|it| it.container_id.is_some());
    for wanted in view.wanted() {
        let list = match wanted.role {
            Role::Init | Role::Sidecar => &statuses.init,
            Role::Main => &statuses.main,
            Role::Ephemeral => continue,
        };
        let Some(status) = list.iter().flatten().find(|it| it.name == wanted.name()) else {
            continue;
        };
        match wanted.role {
            Role::Init => count_init(view, &wanted, status, &mut counts),
            Role::Sidecar => count_sidecar(status, has_begun, &mut counts),
            Role::Main => count_main(view, &wanted, status, &mut counts),
            Role::Ephemeral => {}
        }
    }
    counts
}

/// How the container ended, or how the run before ended if it waits for the next.
fn ended(status: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    let state = status.state.as_ref()?;
    if state.waiting.is_some() {
        return status.last_state.as_ref()?.terminated.as_ref();
    }
    state.terminated.as_ref()
}

fn is_running(status: &ContainerStatus) -> bool {
    status.state.as_ref().is_some_and(|it| it.running.is_some())
}

fn is_final(view: &View, wanted: &Wanted, ended: &ContainerStateTerminated) -> bool {
    let exit = Exit {
        code: ended.exit_code,
        signal: None,
        oom_killed: false,
        started: None,
        finished: view.now,
        message: None,
    };
    !restarts(view.spec(), wanted, &exit)
}

fn count_init(view: &View, wanted: &Wanted, status: &ContainerStatus, counts: &mut Counts) {
    match ended(status).filter(|_| !is_running(status)) {
        None => counts.pending_init += 1,
        Some(ended) if ended.exit_code != 0 => {
            if is_final(view, wanted, ended) {
                counts.has_failed_init = true;
            } else {
                counts.pending_init += 1;
            }
        }
        Some(_) => {}
    }
}

fn count_sidecar(status: &ContainerStatus, has_begun: bool, counts: &mut Counts) {
    if is_running(status) {
        counts.running += 1;
        if status.started != Some(true) && !has_begun {
            counts.pending_init += 1;
        }
    } else if ended(status).is_none() && !has_begun {
        counts.pending_init += 1;
    }
}

fn count_main(view: &View, wanted: &Wanted, status: &ContainerStatus, counts: &mut Counts) {
    if is_running(status) {
        counts.running += 1;
        return;
    }
    let Some(ended) = ended(status) else {
        counts.waiting += 1;
        return;
    };
    counts.stopped += 1;
    counts.stopped_for_good += usize::from(is_final(view, wanted, ended));
    let is_waiting = status.state.as_ref().is_some_and(|it| it.waiting.is_some());
    counts.succeeded += usize::from(ended.exit_code == 0 && !is_waiting);
}
