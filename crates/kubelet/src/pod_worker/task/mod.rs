//! The loop of one pod: wait for one thing, look, step, start what the step asks for.

mod observe;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::future::{AbortHandle, Abortable, BoxFuture};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use lifecycle::Shutdown;
use node_api::sandboxes::Sandbox;
use node_api::{ContainerId, PodUid};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::memory::Memory;
use super::operations::{Action, Ended, On, Op, Scene, SetUpVolumes, StartContainer};
use super::step::{Life, step};
use super::view::View;
use super::{Cause, Desired, Ending, Pokes, resize};
use crate::allocation::{self, Allocation, Written};
use crate::certificates::Certificates;
use crate::context::Context;
use crate::metrics::Look;
use crate::objects::Followed;
use crate::probes::Health;
use crate::tokens::Tokens;

type Working = FuturesUnordered<BoxFuture<'static, Ended>>;
/// `None`: the probes of this run ended.
type Probing = FuturesUnordered<BoxFuture<'static, Option<(ContainerId, watch::Receiver<Health>)>>>;

pub(super) struct Task {
    context: Arc<Context>,
    uid: PodUid,
    desired: watch::Receiver<Desired>,
    /// The newest version seen, from the source or from a write of ours, with what it was given. For
    /// static pods with the mirror's status.
    pod: Arc<Pod>,
    /// What the pod has. What the node agrees to becomes it when it is on disk.
    allocation: Arc<Allocation>,
    life: Life,
    memory: Memory,
    sandboxes: Vec<Sandbox>,
    health: BTreeMap<ContainerId, (Health, AbortHandle)>,
    messages: BTreeMap<ContainerId, String>,
    followed: Arc<Followed>,
    tokens: Arc<Tokens>,
    certificates: Arc<Certificates>,
    ending: CancellationToken,
    working: Working,
    probing: Probing,
    /// Whether others may have what the pod took.
    is_over: Arc<AtomicBool>,
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
        if task.memory.is_ended {
            break;
        }
        let now = task.now();
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            Some(ended) = task.working.next() => task.finish(ended),
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
        let written = allocation::read(&context.pod_directory(&uid));
        let is_recorded = written.is_some();
        let Written { allocation, resized } = written.unwrap_or_else(|| Written {
            allocation: (*first.allocation).clone(),
            ..Written::default()
        });
        let allocation = Arc::new(allocation);
        let pod = allocation.apply(&shown(&first));
        let resized = resized.into_iter().map(|(id, it)| (ContainerId::new(id), it)).collect();
        let mut memory = Memory { is_recorded, resized, ..Memory::default() };
        resize::recall(&pod, &mut memory);
        let tokens = Tokens::new(context.parts.client.clone(), context.world.clone());
        let (client, node) = (context.parts.client.clone(), context.config.node_name.clone());
        let certificates = Certificates::new(client, context.world.clone(), node);
        let mut task = Self {
            life: Life::Starting,
            memory,
            allocation,
            sandboxes: Vec::new(),
            health: BTreeMap::new(),
            messages: BTreeMap::new(),
            followed: Arc::new(context.objects.follow(&first.pod)),
            tokens: Arc::new(tokens),
            certificates: Arc::new(certificates),
            ending: CancellationToken::new(),
            working: FuturesUnordered::new(),
            probing: FuturesUnordered::new(),
            is_over,
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
            let is_changed = step.life != self.life;
            if is_changed {
                tracing::debug!(uid = %self.uid, from = ?self.life, to = ?step.life, "pod moves on");
                self.life = step.life;
            }
            if matches!(self.life, Life::Terminating(_) | Life::Terminated(_)) {
                self.ending.cancel();
            }
            for action in step.actions {
                self.begin(&mut view, action);
            }
            self.memory = view.memory;
            if !is_changed {
                let wakes = [step.wake, self.memory.volumes.renew_at];
                return wakes.into_iter().flatten().min();
            }
        }
    }

    fn begin(&mut self, view: &mut View, action: Action) {
        let operation = action.any();
        operation.begin(view);
        self.working.push(operation.work(self.scene(view)));
    }

    fn finish(&mut self, ended: Ended) {
        let now = self.now();
        ended(&mut self.memory, now);
        if std::mem::take(&mut self.memory.is_sandbox_list_old) {
            self.list_sandboxes();
        }
        if let Some(pod) = self.memory.answered.take() {
            self.take_answer(pod);
        }
        if let Some(allocation) = self.memory.recorded.take() {
            self.pod = allocation.apply(&self.pod);
            self.allocation = allocation;
            // downwardAPI volumes show them.
            self.memory.volumes.wanted += 1;
        }
    }

    fn take_answer(&mut self, pod: Arc<Pod>) {
        if self.desired.borrow().is_static {
            let mut shown = Pod::clone(&self.pod);
            shown.status.clone_from(&pod.status);
            shown.metadata.resource_version.clone_from(&pod.metadata.resource_version);
            self.pod = Arc::new(shown);
        } else if !is_older(&pod, &self.pod) {
            self.pod = self.allocation.apply(&pod);
        }
    }

    fn scene(&self, view: &View) -> Scene {
        Scene {
            context: self.context.clone(),
            uid: self.uid.clone(),
            pod: self.pod.clone(),
            allocation: self.allocation.clone(),
            shown: self.api_pod(),
            followed: self.followed.clone(),
            tokens: self.tokens.clone(),
            certificates: self.certificates.clone(),
            ending: self.ending.clone(),
            is_over: self.is_over.clone(),
            volumes: view.memory.volumes.paths.clone().unwrap_or_default(),
            addresses: view.sandbox().map(|it| it.addresses.clone()).unwrap_or_default(),
            can_recursive_read_only: view.can_recursive_read_only,
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
        self.memory.retry_now(&Op::of::<SetUpVolumes>(On::Pod));
        // A container may wait for a ConfigMap that its environment needs.
        let config: Vec<_> = self
            .memory
            .troubles
            .iter()
            .filter(|(_, it)| it.reason == "CreateContainerConfigError")
            .map(|(name, _)| Op::of::<StartContainer>(On::Container(name.clone())))
            .collect();
        config.iter().for_each(|it| self.memory.retry_now(it));
    }

    fn renew_tokens(&mut self) {
        if self.memory.volumes.renew_at.is_some_and(|it| it <= self.now()) {
            self.memory.volumes.renew_at = None;
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
        self.pod = self.allocation.apply(&pod);
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
