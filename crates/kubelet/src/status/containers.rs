//! The status of each container.

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, PodStatus, VolumeMountStatus,
};
use node_api::containers::{Container as Run, ContainerState as RunState, Exit};

use super::{resize, seconds};
use crate::container_config::is_recursive_read_only;
use crate::pod_worker::{Life, Role, View, Wanted, render_duration, waiting_run, will_restart};

#[derive(Default)]
pub(super) struct Statuses {
    pub(super) init: Option<Vec<ContainerStatus>>,
    pub(super) main: Option<Vec<ContainerStatus>>,
    pub(super) ephemeral: Option<Vec<ContainerStatus>>,
}

pub(super) fn compute(view: &View, life: &Life, old: &PodStatus) -> Statuses {
    let mut statuses = Statuses::default();
    let has_begun = has_begun(view, old);
    for wanted in view.wanted() {
        let (list, old) = match wanted.role {
            Role::Init | Role::Sidecar => (&mut statuses.init, &old.init_container_statuses),
            Role::Main => (&mut statuses.main, &old.container_statuses),
            Role::Ephemeral => (&mut statuses.ephemeral, &old.ephemeral_container_statuses),
        };
        let old = old.iter().flatten().find(|it| it.name == wanted.name());
        let status = compute_one(view, life, &wanted, old, has_begun);
        list.get_or_insert_default().push(status);
    }
    statuses
}

/// Whether any container but an init container has ever run.
fn has_begun(view: &View, old: &PodStatus) -> bool {
    let is_known = |it: &ContainerStatus| it.container_id.is_some();
    old.container_statuses.iter().flatten().any(is_known)
        || view.wanted().iter().any(|it| it.role == Role::Main && view.newest(it.name()).is_some())
}

fn compute_one(
    view: &View,
    life: &Life,
    wanted: &Wanted,
    old: Option<&ContainerStatus>,
    has_begun: bool,
) -> ContainerStatus {
    let newest = view.newest(wanted.name());
    let mut status = match newest {
        Some(run) => of_run(view, life, wanted, run, old),
        None => of_none(view, life, wanted, old, has_begun),
    };
    status.name = wanted.name().to_owned();
    if status.image.is_empty() {
        status.image = wanted.container.image.clone().unwrap_or_default();
    }
    status.volume_mounts = volume_mounts(wanted, view.can_recursive_read_only);
    if wanted.role != Role::Ephemeral
        && let Some(run) = newest
    {
        let resources = wanted.container.resources.as_ref();
        status.allocated_resources = resources.and_then(|it| it.requests.clone());
        status.resources = Some(resize::of_run(view, wanted, run));
    }
    set_ready(view, wanted, newest, &mut status);
    status
}

fn set_ready(view: &View, wanted: &Wanted, run: Option<&Run>, status: &mut ContainerStatus) {
    let is_started = run.is_some_and(|it| view.is_started(it));
    status.started = Some(is_started);
    status.ready = match wanted.role {
        Role::Init => {
            let state = status.state.as_ref();
            state.and_then(|it| it.terminated.as_ref()).is_some_and(|it| it.exit_code == 0)
        }
        Role::Sidecar | Role::Main => run.is_some_and(|it| view.is_ready(it)),
        Role::Ephemeral => false,
    };
}

/// Nothing of it is on the node.
fn of_none(
    view: &View,
    life: &Life,
    wanted: &Wanted,
    old: Option<&ContainerStatus>,
    has_begun: bool,
) -> ContainerStatus {
    let is_over = matches!(life, Life::Terminated(_));
    if let Some(old) = old {
        let state = old.state.as_ref();
        if state.is_some_and(|it| it.terminated.is_some()) {
            return old.clone();
        }
        let was_running = state.is_some_and(|it| it.running.is_some());
        if was_running || (is_over && has_begun) {
            return lost(old);
        }
    } else if is_over && has_begun {
        return lost(&ContainerStatus::default());
    }
    let mut status = ContainerStatus { state: Some(waiting(view, wanted)), ..Default::default() };
    if let Some(old) = old {
        status.restart_count = old.restart_count;
        status.last_state.clone_from(&old.last_state);
    }
    status
}

/// It ran, and is not there any more: nobody knows how it went.
fn lost(old: &ContainerStatus) -> ContainerStatus {
    let terminated = ContainerStateTerminated {
        exit_code: 137,
        reason: Some("ContainerStatusUnknown".to_owned()),
        message: Some("The container could not be located when the pod was terminated".to_owned()),
        ..Default::default()
    };
    let state = ContainerState { terminated: Some(terminated), ..Default::default() };
    ContainerStatus { state: Some(state), ..old.clone() }
}

fn waiting(view: &View, wanted: &Wanted) -> ContainerState {
    let (reason, message) = match view.memory.troubles.get(wanted.name()) {
        Some(trouble) => (trouble.reason, Some(trouble.message.clone())),
        None if view.spec().init_containers.iter().flatten().next().is_some() => {
            ("PodInitializing", None)
        }
        None => ("ContainerCreating", None),
    };
    let waiting = ContainerStateWaiting { reason: Some(reason.to_owned()), message };
    ContainerState { waiting: Some(waiting), ..Default::default() }
}

fn of_run(
    view: &View,
    life: &Life,
    wanted: &Wanted,
    run: &Run,
    old: Option<&ContainerStatus>,
) -> ContainerStatus {
    let mut status = ContainerStatus {
        container_id: Some(id_of(view, run)),
        restart_count: i32::try_from(run.config.attempt).unwrap_or(i32::MAX),
        ..Default::default()
    };
    name_image(view, wanted, run, &mut status);
    let before = previous(view, run, old);
    (status.state, status.last_state) = match &run.state {
        RunState::Running { started } => {
            let running = ContainerStateRunning { started_at: Some(seconds(*started)) };
            (Some(ContainerState { running: Some(running), ..Default::default() }), before)
        }
        RunState::Created => (Some(waiting(view, wanted)), before),
        RunState::Exited(exit) => {
            let terminated = terminated(view, run, exit);
            match waiting_again(view, life, wanted) {
                Some(waiting) => (Some(waiting), Some(terminated)),
                None => (Some(terminated), before),
            }
        }
    };
    status
}

/// With the name of whoever runs it, as upstream shows it.
fn id_of(view: &View, run: &Run) -> String {
    format!("{}://{}", view.runtime, run.id)
}

fn name_image(view: &View, wanted: &Wanted, run: &Run, status: &mut ContainerStatus) {
    let Some(image) = view.images.get(&run.config.image) else {
        status.image_id = run.config.image.to_string();
        return;
    };
    let asked = wanted.container.image.as_deref().unwrap_or_default();
    let tag =
        image.tags.iter().find(|it| it.as_str() == asked || it.ends_with(&format!("/{asked}")));
    status.image = tag.or_else(|| image.tags.first()).cloned().unwrap_or_default();
    status.image_id.clone_from(&image.id);
}

/// How the run before this one ended.
fn previous(view: &View, run: &Run, old: Option<&ContainerStatus>) -> Option<ContainerState> {
    let mut earlier = view.runs_of(&run.config.name).rev().skip_while(|it| it.id != run.id).skip(1);
    if let Some(earlier) = earlier.next()
        && let RunState::Exited(exit) = &earlier.state
    {
        return Some(terminated(view, earlier, exit));
    }
    let old = old.filter(|_| run.config.attempt > 0)?;
    let ended = old.state.as_ref().filter(|it| it.terminated.is_some());
    let is_same = old.container_id.as_deref() == Some(id_of(view, run).as_str());
    if is_same { old.last_state.clone() } else { ended.cloned().or_else(|| old.last_state.clone()) }
}

fn terminated(view: &View, run: &Run, exit: &Exit) -> ContainerState {
    let reason = match exit {
        Exit { started: None, .. } => "StartError",
        Exit { oom_killed: true, .. } => "OOMKilled",
        Exit { code: 0, .. } => "Completed",
        _ => "Error",
    };
    let message = exit.message.clone().or_else(|| view.messages.get(&run.id).cloned());
    let epoch = jiff::Timestamp::UNIX_EPOCH;
    let terminated = ContainerStateTerminated {
        exit_code: exit.code,
        reason: Some(reason.to_owned()),
        message: message.filter(|it| !it.is_empty()),
        started_at: Some(seconds(exit.started.unwrap_or(epoch))),
        finished_at: Some(seconds(exit.finished)),
        container_id: Some(id_of(view, run)),
        signal: None,
    };
    ContainerState { terminated: Some(terminated), ..Default::default() }
}

/// What an exited container waits for before it runs again.
fn waiting_again(view: &View, life: &Life, wanted: &Wanted) -> Option<ContainerState> {
    if matches!(life, Life::Terminating(_) | Life::Terminated(_)) || !will_restart(view, wanted) {
        return None;
    }
    if view.memory.troubles.contains_key(wanted.name()) {
        return Some(waiting(view, wanted));
    }
    waiting_run(view, wanted)?;
    let delay = view.memory.crashes.get(wanted.name())?.delay;
    let message = format!(
        "back-off {} restarting failed container={} pod={}",
        render_duration(delay),
        wanted.name(),
        view.pod_text()
    );
    let reason = Some("CrashLoopBackOff".to_owned());
    let waiting = ContainerStateWaiting { reason, message: Some(message) };
    Some(ContainerState { waiting: Some(waiting), ..Default::default() })
}

/// `can` says whether the runtime makes what is mounted below read-only too.
fn volume_mounts(wanted: &Wanted, can: bool) -> Option<Vec<VolumeMountStatus>> {
    let mode = |mount| match is_recursive_read_only(mount, can) {
        Ok(true) => "Enabled",
        Ok(false) | Err(_) => "Disabled",
    };
    let mounts = wanted.container.volume_mounts.iter().flatten();
    let mounts: Vec<_> = mounts
        .map(|it| VolumeMountStatus {
            name: it.name.clone(),
            mount_path: it.mount_path.clone(),
            read_only: it.read_only,
            recursive_read_only: it.read_only.filter(|it| *it).map(|_| mode(it).to_owned()),
            volume_status: None,
        })
        .collect();
    (!mounts.is_empty()).then_some(mounts)
}
