//! The loop of one pod: wait for one thing, look, step, start what the step asks for.

mod observe;
mod outcome;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::{AbortHandle, Abortable, BoxFuture};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodStatus};
use lifecycle::Shutdown;
use node_api::containers::ContainerState;
use node_api::sandboxes::Sandbox;
use node_api::{ContainerId, PodUid};
use reconcile::EventType;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::memory::{Memory, Sent};
use super::ops::{self, Outcome, Scene, Start};
use super::step::{Action, Life, Op, step};
use super::view::{View, exit};
use super::{Cause, Desired, Ending, Pokes};
use crate::context::Context;
use crate::metrics::Look;
use crate::objects::Followed;
use crate::probes::Health;
use crate::tokens::Tokens;

type Working = FuturesUnordered<BoxFuture<'static, (Op, Outcome)>>;
/// `None`: the probes of this run ended.
type Probing = FuturesUnordered<BoxFuture<'static, Option<(ContainerId, watch::Receiver<Health>)>>>;

pub(super) struct Task {
    context: Arc<Context>,
    uid: PodUid,
    desired: watch::Receiver<Desired>,
    /// The newest version seen, from the source or from a write of ours. For static pods with the
    /// mirror's status.
    pod: Arc<Pod>,
    life: Life,
    memory: Memory,
    sandboxes: Vec<Sandbox>,
    health: BTreeMap<ContainerId, (Health, AbortHandle)>,
    messages: BTreeMap<ContainerId, String>,
    followed: Arc<Followed>,
    tokens: Arc<Tokens>,
    renew_at: Option<Timestamp>,
    ending: CancellationToken,
    working: Working,
    probing: Probing,
    /// Set before the API is told that the pod has finished: from then on its resources are free
    /// for others.
    is_over: Arc<AtomicBool>,
    is_ended: bool,
}

pub(super) async fn run(
    context: Arc<Context>,
    uid: PodUid,
    desired: watch::Receiver<Desired>,
    mut pokes: watch::Receiver<Pokes>,
    (ended, is_over, shutdown): (mpsc::Sender<PodUid>, Arc<AtomicBool>, Shutdown),
) {
    let mut task = Task::new(context, uid, desired, is_over);
    let mut objects = task.followed.changes();
    let mut seen = Pokes::default();
    let (mut why, first_seen) = (Look::First, Instant::now());
    let mut is_started = task.is_running();
    loop {
        let start = Instant::now();
        let wake = task.advance();
        task.context.metrics.pod_stepped(std::mem::replace(&mut why, Look::Again), start.elapsed());
        if !is_started && task.is_running() {
            is_started = true;
            task.context.metrics.pod_started(first_seen.elapsed());
        }
        if task.is_ended {
            break;
        }
        let now = task.now();
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            Some((op, outcome)) = task.working.next() => task.finish(op, outcome),
            Some(health) = task.probing.next() => task.note_health(health),
            changed = task.desired.changed() => match changed {
                Ok(()) => {
                    why = Look::Changed;
                    task.take_desired();
                }
                Err(_) => return,
            },
            Ok(()) = pokes.changed() => {
                let counted = *pokes.borrow_and_update();
                if counted.sandboxes != seen.sandboxes {
                    task.list_sandboxes();
                }
                seen = counted;
            }
            Ok(()) = objects.changed() => task.objects_changed(),
            () = sleep_until(wake, now) => task.renew_tokens(),
        }
    }
    // Nobody listens any more only when everything ends.
    let _ = ended.send(task.uid.clone()).await;
}

async fn sleep_until(wake: Option<Timestamp>, now: Timestamp) {
    match wake {
        Some(at) => {
            let left = Duration::try_from(at.duration_since(now)).unwrap_or_default();
            // Clocks of different grain: never wake a moment too early, and again and again.
            tokio::time::sleep(left + Duration::from_millis(1)).await;
        }
        None => std::future::pending().await,
    }
}

impl Task {
    fn new(
        context: Arc<Context>,
        uid: PodUid,
        mut desired: watch::Receiver<Desired>,
        is_over: Arc<AtomicBool>,
    ) -> Self {
        let first = desired.borrow_and_update().clone();
        let pod = shown(&first);
        let tokens = Tokens::new(context.parts.client.clone(), context.world.clone());
        let mut task = Self {
            life: Life::Starting,
            memory: Memory::default(),
            sandboxes: Vec::new(),
            health: BTreeMap::new(),
            messages: BTreeMap::new(),
            followed: Arc::new(context.objects.follow(&first.pod)),
            tokens: Arc::new(tokens),
            renew_at: None,
            ending: CancellationToken::new(),
            working: FuturesUnordered::new(),
            probing: FuturesUnordered::new(),
            is_over,
            is_ended: false,
            context,
            uid,
            desired,
            pod,
        };
        task.list_sandboxes();
        task.life = task.first_life(&first);
        task
    }

    /// Where a pod begins that this kubelet sees for the first time; it may have been here before.
    fn first_life(&self, desired: &Desired) -> Life {
        let now = self.now();
        if let Some((reason, message)) = desired.rejection.clone() {
            let cause = Cause::Rejected { reason, message };
            return Life::Terminated(Ending::new(cause, Duration::ZERO, now));
        }
        let phase = self.pod.status.as_ref().and_then(|it| it.phase.as_deref());
        if matches!(phase, Some("Succeeded" | "Failed")) && !desired.is_static {
            return Life::Terminating(Ending::new(Cause::Finished, Duration::ZERO, now));
        }
        Life::Starting
    }

    /// Whether its status said, or says, that all its containers have started.
    fn is_running(&self) -> bool {
        let sent = self.memory.sent.as_ref().map(|it| &it.status);
        let status = sent.or(self.pod.status.as_ref());
        status.and_then(|it| it.phase.as_deref()) == Some("Running")
    }

    fn now(&self) -> Timestamp {
        self.context.world.clock.now()
    }

    /// Steps until nothing changes, and starts what is asked for. When to look again.
    fn advance(&mut self) -> Option<Timestamp> {
        loop {
            let mut view = self.observe();
            let step = step(&self.life, &view);
            let mut is_changed = step.life != self.life;
            if is_changed {
                tracing::debug!(uid = %self.uid, from = ?self.life, to = ?step.life, "pod moves on");
                self.life = step.life;
            }
            if matches!(self.life, Life::Terminating(_) | Life::Terminated(_)) {
                self.ending.cancel();
            }
            for action in step.actions {
                // What is told changes what the status says.
                is_changed |= matches!(action.op(), Op::Tell(_));
                self.begin(&mut view, action);
            }
            self.memory = view.memory;
            if !is_changed {
                let wakes = [step.wake, self.renew_at];
                return wakes.into_iter().flatten().min();
            }
        }
    }

    fn begin(&mut self, view: &mut View, action: Action) {
        let op = action.op();
        let (context, scene) = (self.context.clone(), self.scene(view));
        let future: BoxFuture<'static, Outcome> = match action {
            Action::EnsureCgroup => Box::pin(ops::ensure_cgroup(scene)),
            Action::SetUpVolumes { wanted } => Box::pin(ops::set_up_volumes(scene, wanted)),
            Action::CreateSandbox { attempt } => Box::pin(ops::create_sandbox(scene, attempt)),
            Action::StartContainer { name, attempt } => {
                match self.prepare_start(view, &name, attempt) {
                    Some(start) => Box::pin(ops::start_container(scene, start)),
                    None => return,
                }
            }
            Action::StopContainer { id, name, deadline, why } => {
                let container = container(view, &name);
                let grace = Duration::try_from(deadline.duration_since(view.now));
                let grace = grace.unwrap_or_default().max(Duration::from_secs(1));
                Box::pin(ops::stop_container(scene, id, container, grace, why))
            }
            Action::RemoveContainer(id) => {
                Box::pin(async move { outcome(context.parts.containers.remove(&id).await) })
            }
            Action::StopSandbox(id) => {
                Box::pin(async move { outcome(context.parts.sandboxes.stop(&id).await) })
            }
            Action::RemoveSandbox(id) => {
                Box::pin(async move { outcome(context.parts.sandboxes.remove(&id).await) })
            }
            Action::TearDown => Box::pin(ops::tear_down(scene)),
            Action::TellBackOff { .. } | Action::TellPullBackOff { .. } | Action::TellDeadline => {
                return self.tell(view, action);
            }
            Action::WriteStatus(status) => {
                return self.write_status(view, *status);
            }
            Action::DeletePod => Box::pin(ops::delete_pod(context, self.pod.clone())),
            Action::End => Box::pin(ops::remove_logs(context, self.pod.clone())),
        };
        self.work(view, op, future);
    }

    fn work(&mut self, view: &mut View, op: Op, future: BoxFuture<'static, Outcome>) {
        view.memory.in_flight.insert(op.clone());
        self.working.push(Box::pin(async move { (op, future.await) }));
    }

    fn write_status(&mut self, view: &mut View, status: PodStatus) {
        if matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
            self.is_over.store(true, Ordering::Relaxed);
        }
        let shown = self.api_pod();
        let version = shown.as_ref().and_then(|it| it.metadata.resource_version.clone());
        view.memory.sent = Some(Sent { status: status.clone(), version });
        if let Some(shown) = shown {
            let future = ops::write_status(self.context.clone(), shown, status);
            self.work(view, Op::Status, Box::pin(future));
        }
    }

    /// Also notes that a container that ended starts again: the next wait is longer.
    fn prepare_start(&mut self, view: &mut View, name: &str, attempt: u32) -> Option<Start> {
        let sandbox = view.sandbox()?.id.clone();
        let newest = view.newest(name);
        let is_created = newest.is_some_and(|it| it.state == ContainerState::Created);
        let leftover = newest.filter(|_| is_created).map(|it| it.id.clone());
        if newest.and_then(exit).is_some() {
            view.memory.restarts(name, view.now);
        }
        Some(Start { container: container(view, name), attempt, sandbox, leftover })
    }

    fn tell(&mut self, view: &mut View, action: Action) {
        let (context, pod) = (&self.context, &self.pod);
        match action {
            Action::TellBackOff { name, run } => {
                let message = format!(
                    "Back-off restarting failed container {name} in pod {}",
                    view.pod_text()
                );
                context.container_event((pod, &name), EventType::Warning, "BackOff", message);
                view.memory.told.insert(run);
                view.memory.troubles.remove(&name);
            }
            Action::TellPullBackOff { name } => {
                let image = container(view, &name).image.unwrap_or_default();
                let message = format!("Back-off pulling image {image:?}");
                context.container_event(
                    (pod, &name),
                    EventType::Normal,
                    "BackOff",
                    message.clone(),
                );
                let error = "Error: ImagePullBackOff".to_owned();
                context.container_event((pod, &name), EventType::Warning, "Failed", error);
                if let Some(trouble) = view.memory.troubles.get_mut(&name) {
                    trouble.message = format!("{message}: ErrImagePull: {}", trouble.message);
                    trouble.reason = "ImagePullBackOff";
                }
            }
            Action::TellDeadline => {
                let message = "Pod was active on the node longer than the specified deadline";
                let reason = "DeadlineExceeded";
                context.event(pod, EventType::Normal, reason, message.to_owned());
            }
            _ => {}
        }
    }

    fn scene(&self, view: &View) -> Scene {
        Scene {
            context: self.context.clone(),
            uid: self.uid.clone(),
            pod: self.pod.clone(),
            followed: self.followed.clone(),
            tokens: self.tokens.clone(),
            ending: self.ending.clone(),
            volumes: view.memory.volumes.paths.clone().unwrap_or_default(),
            addresses: view.sandbox().map(|it| it.addresses.clone()).unwrap_or_default(),
        }
    }

    /// The object in the API whose status it is.
    fn api_pod(&self) -> Option<Arc<Pod>> {
        let desired = self.desired.borrow();
        if !desired.is_static {
            return Some(self.pod.clone());
        }
        let mirror = desired.mirror.clone()?;
        let mut shown = Pod::clone(&mirror);
        shown.status.clone_from(&self.pod.status);
        Some(Arc::new(shown))
    }

    /// Starts following the probes of one run.
    fn follow_probes(&mut self, id: ContainerId, mut health: watch::Receiver<Health>) {
        let now = *health.borrow_and_update();
        let (abort, registration) = AbortHandle::new_pair();
        let next = id.clone();
        let changed = async move { health.changed().await.ok().map(|()| (next, health)) };
        self.probing.push(Box::pin(async move {
            Abortable::new(changed, registration).await.ok().flatten()
        }));
        self.health.insert(id, (now, abort));
    }

    fn note_health(&mut self, changed: Option<(ContainerId, watch::Receiver<Health>)>) {
        if let Some((id, health)) = changed
            && self.health.contains_key(&id)
        {
            self.follow_probes(id, health);
        }
    }

    fn objects_changed(&mut self) {
        self.memory.volumes.wanted += 1;
        self.memory.retry_now(&Op::Volumes);
        // A container may wait for a ConfigMap that its environment needs.
        let config: Vec<_> = self
            .memory
            .troubles
            .iter()
            .filter(|(_, it)| it.reason == "CreateContainerConfigError")
            .map(|(name, _)| Op::Start(name.clone()))
            .collect();
        config.iter().for_each(|it| self.memory.retry_now(it));
    }

    fn renew_tokens(&mut self) {
        if self.renew_at.is_some_and(|it| it <= self.now()) {
            self.renew_at = None;
            self.memory.volumes.wanted += 1;
        }
    }

    fn take_desired(&mut self) {
        let desired = self.desired.borrow_and_update().clone();
        let pod = shown(&desired);
        if is_older(&pod, &self.pod) && !desired.is_static {
            return;
        }
        if pod.metadata.labels != self.pod.metadata.labels
            || pod.metadata.annotations != self.pod.metadata.annotations
        {
            // downwardAPI volumes show them.
            self.memory.volumes.wanted += 1;
        }
        self.pod = pod;
    }

    fn list_sandboxes(&mut self) {
        let all = self.context.parts.sandboxes.list();
        self.sandboxes = all.into_iter().filter(|it| it.config.pod.uid == self.uid).collect();
    }
}

/// A static pod is shown with the status of its mirror.
fn shown(desired: &Desired) -> Arc<Pod> {
    if !desired.is_static {
        return desired.pod.clone();
    }
    let mut pod = Pod::clone(&desired.pod);
    if let Some(mirror) = &desired.mirror {
        pod.status.clone_from(&mirror.status);
        pod.metadata.resource_version.clone_from(&mirror.metadata.resource_version);
    }
    Arc::new(pod)
}

fn is_older(pod: &Pod, than: &Pod) -> bool {
    let version = |it: &Pod| it.metadata.resource_version.as_ref()?.parse::<u64>().ok();
    matches!((version(pod), version(than)), (Some(it), Some(known)) if it < known)
}

fn container(view: &View, name: &str) -> Container {
    let wanted = view.wanted().into_iter().find(|it| it.name() == name);
    wanted.map(|it| it.container).unwrap_or_default()
}

fn outcome(result: Result<(), node_api::Error>) -> Outcome {
    match result {
        Ok(()) => Outcome::Done,
        Err(err) => {
            let text = stdx::error_chain(&err);
            tracing::warn!(error = text, "the node refused");
            Outcome::Failed
        }
    }
}
