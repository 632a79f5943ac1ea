//! Which containers of a pod in its sandbox start or stop now. Pure.

use std::time::Duration;

use jiff::Timestamp;
use node_api::containers::{Container as Run, ContainerState};

use super::operations::{Action, StartContainer, TellBackOff, TellPullBackOff, Why, is_stopping};
use super::step::{Step, stop_container};
use super::view::{ANNOTATION_IMAGE, Role, View, Wanted, exit, is_running};
use super::{resize, restart};
use crate::probes::Failed;

/// How long `ErrImagePull` is shown before `ImagePullBackOff`.
const PULL_ERROR_SHOWN: Duration = Duration::from_secs(2);

/// What is next for one container.
#[derive(Debug, PartialEq, Eq)]
enum Need {
    /// It runs, or never has to again.
    Nothing,
    Start,
    /// It may start then.
    Wait(Timestamp),
}

pub(super) fn plan(view: &View, step: &mut Step) {
    let wanted = view.wanted();
    stop_failing(view, &wanted, step);
    tell_waits(view, &wanted, step);
    let has_begun =
        wanted.iter().any(|it| it.role == Role::Main && view.current(it.name()).is_some());
    for it in &wanted {
        match it.role {
            Role::Init if has_begun => continue,
            Role::Init | Role::Sidecar | Role::Main | Role::Ephemeral => {}
        }
        let is_blocking = start(view, it, step);
        if is_blocking && !has_begun && matches!(it.role, Role::Init | Role::Sidecar) {
            return;
        }
    }
}

/// Asks for the container's start, if it is time. Whether those after it have to wait for it.
fn start(view: &View, wanted: &Wanted, step: &mut Step) -> bool {
    match need(view, wanted) {
        Need::Start => ask_start(view, wanted, step),
        Need::Wait(until) => step.wake_at(until),
        Need::Nothing => {}
    }
    let run = view.current(wanted.name());
    match wanted.role {
        Role::Init => run.and_then(exit).is_none_or(|it| it.code != 0),
        Role::Sidecar => !run.is_some_and(|it| view.is_started(it)),
        Role::Main | Role::Ephemeral => false,
    }
}

/// One at a time: who starts first may prepare something for the next (its postStart hook holds the
/// others up).
fn ask_start(view: &View, wanted: &Wanted, step: &mut Step) {
    let is_asked = step.actions.iter().any(|it| matches!(it, Action::StartContainer(_)));
    let is_ready = view.memory.volumes.paths.is_some() && !resize::has_to_grow(view);
    if view.memory.is_starting() || is_asked || !is_ready {
        return;
    }
    let Some(sandbox) = view.sandbox() else { return };
    let newest = view.newest(wanted.name());
    let leftover = newest.filter(|it| it.state == ContainerState::Created);
    step.ask(
        view,
        StartContainer {
            name: wanted.name().to_owned(),
            attempt: next_attempt(view, wanted.name()),
            sandbox: sandbox.id.clone(),
            leftover: leftover.map(|it| it.id.clone()),
        },
    );
}

fn need(view: &View, wanted: &Wanted) -> Need {
    let run = match wanted.role {
        Role::Init => view.current(wanted.name()),
        Role::Sidecar | Role::Main | Role::Ephemeral => view.newest(wanted.name()),
    };
    let Some(run) = run else { return Need::Start };
    match &run.state {
        ContainerState::Running { .. } => Need::Nothing,
        // We died, or failed, between creating and starting it.
        ContainerState::Created => Need::Start,
        ContainerState::Exited(_) if view.memory.restarting.contains(&run.id) => Need::Start,
        ContainerState::Exited(exit) if !restart::restarts(view.spec(), wanted, exit) => {
            Need::Nothing
        }
        ContainerState::Exited(exit) => {
            let crash = view.memory.crashes.get(wanted.name());
            match restart::waits_until(crash, exit, view.now) {
                Some(until) => Need::Wait(until),
                None => Need::Start,
            }
        }
    }
}

/// The restart count of the next run: one more than the last that is known, here or to the API.
fn next_attempt(view: &View, name: &str) -> u32 {
    if let Some(newest) = view.newest(name) {
        // One that was created and never ran is replaced, not counted.
        let has_run = newest.state != ContainerState::Created;
        return newest.config.attempt + u32::from(has_run);
    }
    let status = view.status();
    let statuses = status.into_iter().flat_map(|it| {
        let all =
            [&it.init_container_statuses, &it.container_statuses, &it.ephemeral_container_statuses];
        all.into_iter().flatten().flatten()
    });
    let mut known = statuses.filter(|it| it.name == name && it.container_id.is_some());
    known.next().map_or(0, |it| u32::try_from(it.restart_count).unwrap_or(0) + 1)
}

/// Containers that fail their probes or are not what the pod asks for any more.
fn stop_failing(view: &View, wanted: &[Wanted], step: &mut Step) {
    for wanted in wanted {
        let Some(run) = view.current(wanted.name()).filter(|it| is_running(it)) else { continue };
        let Some(why) = fault(view, wanted, run) else { continue };
        let grace = grace_of(view, wanted, why);
        if !is_stopping(&view.memory, &run.id, None) {
            let deadline = view.now.checked_add(grace).unwrap_or(Timestamp::MAX);
            stop_container(run, deadline, why, view, step);
        }
    }
}

fn fault(view: &View, wanted: &Wanted, run: &Run) -> Option<Why> {
    let image = wanted.container.image.as_ref();
    if run.config.annotations.get(ANNOTATION_IMAGE) != image && wanted.role != Role::Ephemeral {
        return Some(Why::Changed);
    }
    if resize::needs_restart(view, run) {
        return Some(Why::Resized);
    }
    match view.health.get(&run.id)?.failed? {
        Failed::Liveness => Some(Why::FailedLiveness),
        Failed::Startup => Some(Why::FailedStartup),
    }
}

/// A probe may have a grace of its own.
fn grace_of(view: &View, wanted: &Wanted, why: Why) -> Duration {
    let probe = match why {
        Why::FailedLiveness => wanted.container.liveness_probe.as_ref(),
        Why::FailedStartup => wanted.container.startup_probe.as_ref(),
        Why::PodStops | Why::Changed | Why::Resized => None,
    };
    match probe.and_then(|it| it.termination_grace_period_seconds) {
        Some(seconds) => Duration::from_secs(u64::try_from(seconds).unwrap_or(1).max(1)),
        None => view.grace_of_spec(),
    }
}

/// Events about containers that have to wait, once for each wait.
fn tell_waits(view: &View, wanted: &[Wanted], step: &mut Step) {
    for wanted in wanted {
        let name = wanted.name();
        if let Some(run) = waiting_run(view, wanted)
            && !view.memory.told.contains(&run.id)
            && view.memory.troubles.get(name).is_none_or(|it| is_of_run(it.reason))
        {
            let (name, run) = (name.to_owned(), run.id.clone());
            step.ask(view, TellBackOff { name, run });
        }
        let Some(trouble) = view.memory.troubles.get(name) else { continue };
        if trouble.reason == "ErrImagePull" {
            let at = trouble.since.checked_add(PULL_ERROR_SHOWN).unwrap_or(Timestamp::MAX);
            if at <= view.now {
                let (name, image) = (name.to_owned(), trouble.image.clone());
                step.ask(view, TellPullBackOff { name, image });
            } else {
                step.wake_at(at);
            }
        }
    }
}

/// Troubles that left a run behind: the wait after it takes their place.
fn is_of_run(reason: &str) -> bool {
    matches!(reason, "RunContainerError" | "PostStartHookError")
}

/// The exited run of a container that has to wait before it starts again.
pub(crate) fn waiting_run<'a>(view: &'a View, wanted: &Wanted) -> Option<&'a Run> {
    match need(view, wanted) {
        Need::Wait(_) => view.newest(wanted.name()),
        Need::Nothing | Need::Start => None,
    }
}

/// Whether a run that exited is, or will be, followed by another.
pub(crate) fn will_restart(view: &View, wanted: &Wanted) -> bool {
    need(view, wanted) != Need::Nothing
}

/// Whether the containers have done what they should, or one that others need has failed for good.
pub(super) fn is_completed(view: &View) -> bool {
    let is_final = |it: &Wanted| {
        let newest = view.newest(it.name());
        let newest = newest.filter(|it| !view.memory.restarting.contains(&it.id));
        let exit = newest.and_then(exit);
        exit.is_some_and(|exit| !restart::restarts(view.spec(), it, exit))
    };
    if view.memory.is_starting() {
        return false;
    }
    let wanted = view.wanted();
    let has_failed_init = wanted.iter().any(|it| {
        let exit = view.newest(it.name()).and_then(exit);
        it.role == Role::Init && is_final(it) && exit.is_some_and(|it| it.code != 0)
    });
    has_failed_init || wanted.iter().filter(|it| it.role == Role::Main).all(is_final)
}
