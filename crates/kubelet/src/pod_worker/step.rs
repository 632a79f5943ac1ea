//! The life of a pod on the node, and the one function that moves it on: which operation is next,
//! and nothing of what it does. Pure: a view of the world
//! goes in, the next life and what to do come out. Level-triggered: the same view gives the same
//! answer, whatever happened before.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodStatus;
use node_api::containers::Container as Run;
use node_api::sandboxes::SandboxState;

use super::operations::{
    Action, CreateSandbox, DeletePod, End, EnsureCgroup, Operation, RemoveContainer, RemoveSandbox,
    SetUpVolumes, StopContainer, StopSandbox, TearDown, TellDeadline, Why, WriteStatus,
    is_stopping,
};
use super::view::{Role, View, is_running};
use super::{containers, resize};
use crate::status;

/// Where a pod is. It moves down only, but for a sandbox that dies: then it is starting again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// No living sandbox yet: cgroup, volumes, sandbox are being made.
    Starting,
    /// In its sandbox, containers start, end and start again.
    Running,
    /// Containers are being stopped; none is started any more.
    Terminating(Ending),
    /// Nothing of it runs or is mounted. Its last containers are kept for their logs until the pod
    /// is gone.
    Terminated(Ending),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) cause: Cause,
    /// The time it was given; `deadline` is when that is over.
    pub(crate) grace: Duration,
    pub(crate) deadline: Timestamp,
}

impl Ending {
    pub(crate) fn new(cause: Cause, grace: Duration, now: Timestamp) -> Self {
        Self { cause, grace, deadline: now.checked_add(grace).unwrap_or(Timestamp::MAX) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Its containers have done what they should, or have failed for good.
    Completed,
    Deleted,
    DeadlineExceeded,
    /// It had finished before this kubelet saw it: its status stays as it is.
    Finished,
    /// It was never let in.
    Rejected {
        reason: String,
        message: String,
    },
}

#[derive(Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) life: Life,
    pub(crate) actions: Vec<Action>,
    /// When to look again, if nothing happens before.
    pub(crate) wake: Option<Timestamp>,
}

impl Step {
    /// Adds the operation, unless it is under way or has to wait after a failure.
    pub(super) fn ask(&mut self, view: &View, operation: impl Operation) {
        let op = operation.op();
        if view.memory.in_flight.contains(&op) {
            return;
        }
        match view.memory.retries.get(&op) {
            Some(retry) if retry.at > view.now => self.wake_at(retry.at),
            _ => self.actions.push(operation.action()),
        }
    }

    pub(super) fn wake_at(&mut self, at: Timestamp) {
        self.wake = Some(self.wake.map_or(at, |it| it.min(at)));
    }
}

/// One step. When the life changes, the caller steps again at once.
pub(crate) fn step(life: &Life, view: &View) -> Step {
    let mut step = Step { life: life.clone(), actions: Vec::new(), wake: None };
    match life {
        Life::Starting => starting(view, &mut step),
        Life::Running => running(view, &mut step),
        Life::Terminating(ending) => terminating(ending, view, &mut step),
        Life::Terminated(ending) => terminated(ending, view, &mut step),
    }
    if step.life == *life {
        write_status(view, &mut step);
    }
    step
}

fn starting(view: &View, step: &mut Step) {
    if let Some(life) = ends(view, step) {
        step.life = life;
    } else if view.sandbox().is_some() {
        step.life = Life::Running;
    } else {
        keep_up(view, step);
        resize::record(view, step);
        let is_prepared = view.memory.cgroup.is_some()
            && view.memory.is_recorded
            && view.memory.volumes.paths.is_some();
        // What died may still hold an address.
        let is_dead_stopped = stop_sandboxes(view, step);
        if is_prepared && is_dead_stopped {
            let attempt = view.sandboxes.last().map_or(0, |it| it.config.attempt + 1);
            step.ask(view, CreateSandbox { attempt });
        }
    }
}

fn running(view: &View, step: &mut Step) {
    if let Some(life) = ends(view, step) {
        step.life = life;
    } else if view.sandbox().is_none() {
        step.life = Life::Starting;
    } else {
        keep_up(view, step);
        resize::plan(view, step);
        containers::plan(view, step);
        remove_old(view, step);
    }
}

/// Why the pod should stop, if it should.
fn ends(view: &View, step: &mut Step) -> Option<Life> {
    let end = |cause, grace| Some(Life::Terminating(Ending::new(cause, grace, view.now)));
    if let Some(stop) = view.stop {
        return end(Cause::Deleted, stop.grace);
    }
    if let Some(deadline) = active_deadline(view) {
        if deadline <= view.now {
            step.actions.push(TellDeadline.action());
            return end(Cause::DeadlineExceeded, view.grace_of_spec());
        }
        step.wake_at(deadline);
    }
    containers::is_completed(view).then(|| end(Cause::Completed, view.grace_of_spec())).flatten()
}

fn active_deadline(view: &View) -> Option<Timestamp> {
    let seconds = u64::try_from(view.spec().active_deadline_seconds?).ok()?;
    let start = view.status()?.start_time.as_ref()?.0;
    start.checked_add(Duration::from_secs(seconds)).ok()
}

/// Cgroup and volumes are made at the start, after an adoption, and again when what they are made
/// from changes.
fn keep_up(view: &View, step: &mut Step) {
    let memory = &view.memory;
    if memory.cgroup.is_none() {
        step.ask(view, EnsureCgroup(resize::widest(view)));
    }
    if memory.volumes.paths.is_none() || memory.volumes.wanted != memory.volumes.done {
        step.ask(view, SetUpVolumes { wanted: memory.volumes.wanted });
    }
}

/// Keeps the newest run of each container and the one before it, for `logs --previous`.
fn remove_old(view: &View, step: &mut Step) {
    let mut kept = Vec::new();
    for wanted in view.wanted() {
        let newest_first: Vec<_> = view.runs_of(wanted.name()).rev().collect();
        kept.extend(newest_first.iter().take(2).map(|it| it.sandbox.clone()));
        for run in newest_first.into_iter().skip(2).filter(|it| !is_running(it)) {
            step.ask(view, RemoveContainer(run.id.clone()));
        }
    }
    let dead = view.sandboxes.iter().filter(|it| it.state == SandboxState::NotReady);
    for sandbox in dead.filter(|it| !kept.contains(&it.id)) {
        step.ask(view, RemoveSandbox(sandbox.id.clone()));
    }
}

/// Stops every sandbox that was not stopped yet; whether all are.
fn stop_sandboxes(view: &View, step: &mut Step) -> bool {
    let mut is_all_stopped = true;
    for sandbox in &view.sandboxes {
        if !view.memory.stopped.contains(&sandbox.id) {
            is_all_stopped = false;
            step.ask(view, StopSandbox(sandbox.id.clone()));
        }
    }
    is_all_stopped
}

fn terminating(ending: &Ending, view: &View, step: &mut Step) {
    let ending = ending.clone();
    // Whoever deletes may shorten the time that is left, and never stretch it.
    if let Some(stop) = view.stop.filter(|it| it.grace < ending.grace) {
        let mut shorter = Ending::new(ending.cause, stop.grace, view.now);
        shorter.deadline = shorter.deadline.min(ending.deadline);
        step.life = Life::Terminating(shorter);
        return;
    }
    let is_quiet = stop_containers(&ending, view, step);
    let is_busy = view.memory.is_starting() || view.memory.is_under_way::<CreateSandbox>();
    if !is_quiet || is_busy || !stop_sandboxes(view, step) {
        return;
    }
    if view.memory.is_torn_down {
        step.life = Life::Terminated(ending);
    } else if !view.memory.is_under_way::<SetUpVolumes>() && !resize::is_writing(view) {
        step.ask(view, TearDown);
    }
}

/// Containers all at once; then sidecars one by one, the last first (KEP-753). Whether none runs.
fn stop_containers(ending: &Ending, view: &View, step: &mut Step) -> bool {
    let running = |is_sidecar: bool| -> Vec<Run> {
        let wanted = view.wanted().into_iter();
        let wanted = wanted.filter(|it| (it.role == Role::Sidecar) == is_sidecar);
        wanted
            .flat_map(|it| view.runs_of(it.name()).cloned().collect::<Vec<_>>())
            .filter(is_running)
            .collect()
    };
    let main = running(false);
    if !main.is_empty() {
        main.iter().for_each(|it| stop_container(it, ending.deadline, Why::PodStops, view, step));
        return false;
    }
    let sidecars = running(true);
    if let Some(last) = sidecars.last().filter(|_| !view.memory.is_starting()) {
        stop_container(last, ending.deadline, Why::PodStops, view, step);
    }
    sidecars.is_empty()
}

/// Unless it is being stopped by then already.
pub(super) fn stop_container(
    run: &Run,
    deadline: Timestamp,
    why: Why,
    view: &View,
    step: &mut Step,
) {
    if !is_stopping(&view.memory, &run.id, Some(deadline)) {
        let (id, name) = (run.id.clone(), run.config.name.clone());
        step.ask(view, StopContainer { id, name, deadline, why });
    }
}

fn terminated(ending: &Ending, view: &View, step: &mut Step) {
    let Some(stop) = view.stop else { return };
    if stop.is_removed || view.memory.is_deleted {
        for sandbox in &view.sandboxes {
            step.ask(view, RemoveSandbox(sandbox.id.clone()));
        }
        if view.sandboxes.is_empty() && stop.is_removed {
            step.ask(view, End);
        }
    } else if !view.is_static && is_status_known(view, ending) {
        step.ask(view, DeletePod);
    }
}

/// Whether the API shows the last status.
fn is_status_known(view: &View, ending: &Ending) -> bool {
    let life = Life::Terminated(ending.clone());
    !view.memory.is_under_way::<WriteStatus>() && !needs_write(view, &status::compute(view, &life))
}

fn write_status(view: &View, step: &mut Step) {
    if view.stop.is_some_and(|it| it.is_removed) || view.memory.is_deleted {
        return;
    }
    let status = status::compute(view, &step.life);
    if needs_write(view, &status) {
        step.ask(view, WriteStatus(Box::new(status)));
    }
}

fn needs_write(view: &View, status: &PodStatus) -> bool {
    if view.status() == Some(status) {
        return false;
    }
    // What the server made of it may read differently; sending it again would change nothing.
    let version = &view.pod.metadata.resource_version;
    !view.memory.sent.as_ref().is_some_and(|it| it.status == *status && it.version == *version)
}
