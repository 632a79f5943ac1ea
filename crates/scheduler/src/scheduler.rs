//! The loop: take the next pod, decide, assume, hand over to a binder. Woken by informer events and
//! by the queue's next deadline; nothing polls.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::core::node::NodeView;
use api::core::pod::PodView;
use apimachinery::ObjectKey;
use client::Client;
use informer::{EventHandler, Factory, Indexer};
use lifecycle::{Shutdown, Tasks};
use reconcile::EventRecorder;
use stdx::World;
use telemetry::{Registry, Watched};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::binding::Writer;
use crate::cycle;
use crate::diagnosis::Diagnosis;
use crate::metrics::{Incoming, Metrics, Outcome, QueuedBy};
use crate::pod::PodRequirements;
use crate::queue::Queue;
use crate::snapshot::Snapshot;

#[derive(Clone, Debug)]
pub struct Config {
    /// Pods with another `spec.schedulerName` are left alone.
    pub scheduler_name: String,
    /// Bindings under way at once.
    pub binders: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { scheduler_name: "default-scheduler".to_owned(), binders: 16 }
    }
}

/// The queue and the snapshot change together, under one short lock.
#[derive(Default)]
struct State {
    queue: Queue,
    snapshot: Snapshot,
    /// The node to look at first.
    start: usize,
}

struct Shared {
    config: Config,
    state: Mutex<State>,
    /// Something may be active now, or a deadline moved.
    wake: Notify,
    pods: Indexer<PodView>,
    writer: Writer,
    metrics: Metrics,
}

/// A decision that is still to be written.
enum Decision {
    Bind { key: ObjectKey, uid: String, node: String, tried: Tried },
    Refuse { key: ObjectKey, diagnosis: Diagnosis },
}

/// Starts scheduling; returns at once. Informers are shared through `factory`.
pub fn start(
    config: Config,
    tasks: &Tasks,
    world: &World,
    factory: &Arc<Factory>,
    client: &Client,
    metrics: &Registry,
) {
    let events = EventRecorder::new(tasks, client.clone(), world.clone(), "default-scheduler");
    let pods = factory.informer::<PodView>();
    let nodes = factory.informer::<NodeView>();
    let shared = Arc::new(Shared {
        state: Mutex::default(),
        wake: Notify::new(),
        pods: pods.indexer(),
        writer: Writer { client: client.clone(), events, world: world.clone() },
        metrics: Metrics::new(metrics, &config.scheduler_name),
        config,
    });
    shared.state().queue.measure(Incoming::new(metrics));
    show_pending(&shared, metrics);
    // Nodes first, so that the first pods find them.
    nodes.add_event_handler(Arc::new(NodeEvents(shared.clone())));
    pods.add_event_handler(Arc::new(PodEvents(shared.clone())));
    let (decisions, waiting) = mpsc::channel(1024);
    let waiting = Arc::new(tokio::sync::Mutex::new(waiting));
    for index in 0..shared.config.binders {
        let (shared, waiting) = (shared.clone(), waiting.clone());
        tasks.spawn(&format!("binder-{index}"), |shutdown| {
            write_decisions(shared, waiting, shutdown)
        });
    }
    tasks.spawn_restarting("scheduling", move |shutdown| {
        run(shared.clone(), decisions.clone(), shutdown)
    });
}

/// How many pods wait is counted when somebody asks.
fn show_pending(shared: &Arc<Shared>, metrics: &Registry) {
    let shared = Arc::downgrade(shared);
    metrics.on_read(move || {
        let Some(shared) = shared.upgrade() else { return Watched::Gone };
        let pending = shared.state().queue.pending();
        shared.metrics.show_pending(&pending);
        Watched::Alive
    });
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_ours(&self, pod: &PodView) -> bool {
        let name = match pod.spec.scheduler_name.as_str() {
            "" => "default-scheduler",
            name => name,
        };
        name == self.config.scheduler_name
    }
}

async fn run(shared: Arc<Shared>, decisions: mpsc::Sender<Decision>, shutdown: Shutdown) {
    loop {
        while let Some(decision) = decide(&shared) {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                sent = decisions.send(decision) => if sent.is_err() { return },
            }
            // A long queue must not keep other tasks of this thread from running.
            tokio::task::yield_now().await;
        }
        let deadline = shared.state().queue.advance(Instant::now());
        if shared.state().queue.has_active() {
            continue;
        }
        let sleep = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = shared.wake.notified() => {}
            () = sleep => {}
        }
    }
}

/// When a pod was tried, and what it had gone through before.
struct Tried {
    start: Instant,
    added: Instant,
    attempts: u32,
}

/// One scheduling cycle, without any waiting.
fn decide(shared: &Shared) -> Option<Decision> {
    let mut state = shared.state();
    let State { queue, snapshot, start: first } = &mut *state;
    let start = Instant::now();
    queue.advance(start);
    let pod = queue.take()?;
    let nodes = snapshot.nodes();
    match cycle::choose(&pod, nodes, *first, &shared.writer.world.random) {
        Ok(choice) => {
            let node = nodes[choice.node].name.clone();
            *first = choice.next_start;
            let (key, uid) = (pod.key().clone(), pod.pod.meta.uid.clone());
            let (added, attempts) = queue.tried(&key).unwrap_or((start, 1));
            snapshot.assume(&pod, &node);
            shared.metrics.decided(start.elapsed());
            let tried = Tried { start, added, attempts };
            Some(Decision::Bind { key, uid, node, tried })
        }
        Err(diagnosis) => {
            queue.put_back_unschedulable(pod.key(), Instant::now());
            shared.metrics.decided(start.elapsed());
            shared.metrics.attempted(Outcome::Unschedulable, start.elapsed());
            Some(Decision::Refuse { key: pod.key().clone(), diagnosis })
        }
    }
}

async fn write_decisions(
    shared: Arc<Shared>,
    waiting: Arc<tokio::sync::Mutex<mpsc::Receiver<Decision>>>,
    shutdown: Shutdown,
) {
    loop {
        let next = async { waiting.lock().await.recv().await };
        let decision = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            decision = next => decision,
        };
        match decision {
            None => return,
            Some(Decision::Bind { key, uid, node, tried }) => {
                bind(&shared, &key, (&uid, &node), &tried).await;
            }
            Some(Decision::Refuse { key, diagnosis }) => refuse(&shared, &key, &diagnosis).await,
        }
    }
}

async fn bind(shared: &Shared, key: &ObjectKey, (uid, node): (&str, &str), tried: &Tried) {
    let bound = shared.writer.bind(key, uid, node).await;
    let result = if bound.is_ok() { Outcome::Scheduled } else { Outcome::Error };
    shared.metrics.attempted(result, tried.start.elapsed());
    match bound {
        Ok(()) => {
            shared.metrics.scheduled(tried.added.elapsed(), tried.attempts);
            if let Some(seen) = shared.pods.get(key) {
                shared.writer.record_scheduled(&seen, key, node);
            }
        }
        Err(err) => {
            let mut state = shared.state();
            state.snapshot.forget_assumed(key);
            if err.is_not_found() {
                state.queue.forget(key);
            } else {
                tracing::warn!(pod = %key, node, error = %err, "binding refused");
                state.queue.put_back_failed(key, Instant::now());
            }
            drop(state);
            shared.wake.notify_one();
        }
    }
}

async fn refuse(shared: &Shared, key: &ObjectKey, diagnosis: &Diagnosis) {
    let Some(pod) = shared.pods.get(key) else { return };
    if let Err(err) = shared.writer.report_unschedulable(&pod, diagnosis).await
        && !err.is_not_found()
    {
        tracing::warn!(pod = %key, error = %err, "could not say why the pod is unschedulable");
    }
}

struct PodEvents(Arc<Shared>);

impl PodEvents {
    fn observe(&self, old: Option<&PodView>, pod: &Arc<PodView>) {
        let mut state = self.0.state();
        let (key, now) = (&pod.meta.key, Instant::now());
        if pod.node().is_some() {
            let held = state.snapshot.holds(key);
            state.queue.forget(key);
            state.snapshot.observe_bound(pod);
            let has_finished = held && !state.snapshot.holds(key);
            let is_resized = old.is_some_and(|it| takes_less(it, pod));
            if has_finished || is_resized {
                // Its room is free, or some of it.
                state.queue.cluster_changed(now, QueuedBy::AssignedPodUpdate);
            }
        } else if self.0.is_ours(pod) && !pod.meta.is_deleting {
            if old.is_none_or(|it| changes_scheduling(it, pod)) {
                state.queue.observe(PodRequirements::of(pod), now);
            }
        } else {
            state.queue.forget(key);
        }
        drop(state);
        self.0.wake.notify_one();
    }
}

/// Whether a placed pod takes less of anything than it did.
fn takes_less(old: &PodView, new: &PodView) -> bool {
    if old.spec == new.spec {
        return false;
    }
    let requests = |it: &PodView| PodRequirements::of(&Arc::new(it.clone())).requests;
    !requests(new).covers(&requests(old))
}

/// Our own condition writes come back as updates; they are no reason to try again.
fn changes_scheduling(old: &PodView, new: &PodView) -> bool {
    old.spec != new.spec
        || old.node_name != new.node_name
        || old.meta.uid != new.meta.uid
        || old.meta.labels != new.meta.labels
}

impl EventHandler<PodView> for PodEvents {
    fn on_add(&self, pod: &Arc<PodView>, _is_initial: bool) {
        self.observe(None, pod);
    }

    fn on_update(&self, old: &Arc<PodView>, new: &Arc<PodView>) {
        self.observe(Some(old), new);
    }

    fn on_delete(&self, last: &Arc<PodView>) {
        let key = &last.meta.key;
        let mut state = self.0.state();
        state.queue.forget(key);
        state.snapshot.forget_pod(key);
        state.queue.cluster_changed(Instant::now(), QueuedBy::AssignedPodDelete);
        drop(state);
        self.0.wake.notify_one();
    }
}

struct NodeEvents(Arc<Shared>);

impl NodeEvents {
    fn observe(&self, old: Option<&NodeView>, node: &NodeView) {
        let mut state = self.0.state();
        state.snapshot.observe_node(node);
        // Heartbeats change neither what a node offers nor what it repels.
        if old.is_none_or(|it| may_help(it, node)) {
            let why = if old.is_some() { QueuedBy::NodeUpdate } else { QueuedBy::NodeAdd };
            state.queue.cluster_changed(Instant::now(), why);
            drop(state);
            self.0.wake.notify_one();
        }
    }
}

fn may_help(old: &NodeView, new: &NodeView) -> bool {
    old.taints != new.taints
        || old.is_unschedulable != new.is_unschedulable
        || old.meta.labels != new.meta.labels
        || old.allocatable != new.allocatable
}

impl EventHandler<NodeView> for NodeEvents {
    fn on_add(&self, node: &Arc<NodeView>, _is_initial: bool) {
        self.observe(None, node);
    }

    fn on_update(&self, old: &Arc<NodeView>, new: &Arc<NodeView>) {
        self.observe(Some(old), new);
    }

    fn on_delete(&self, last: &Arc<NodeView>) {
        self.0.state().snapshot.forget_node(last.name());
    }
}
