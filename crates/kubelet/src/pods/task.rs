//! The loop: one event, then the workers that it concerns are told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::object::key_of;
use apimachinery::{ApiError, ObjectKey};
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use informer::Lister;
use k8s_openapi::api::core::v1::{Node, Pod};
use lifecycle::{Shutdown, Tasks};
use node_api::{Event, PodUid};
use reconcile::EventType;
use tokio::sync::{mpsc, watch};

use super::directory::{Known, Registry};
use super::{Sources, orphans, weights};
use crate::admission::{self, Candidate, Used};
use crate::allocation::{self, Allocation, Asking, Decision, Pending};
use crate::context::{Context, log_directory_name};
use crate::disk;
use crate::pod_worker::{Desired, Worker};
use crate::sources::inbox::Inbox;
use crate::sources::mirror;
use crate::sources::static_pods::{self, StaticPods};

/// Workers that ended and wait to be forgotten.
const ENDED_MAX: usize = 64;
const MIRROR_RETRY: Duration = Duration::from_secs(5);

struct Dispatcher {
    context: Arc<Context>,
    tasks: Tasks,
    pods: Lister<Pod>,
    nodes: Lister<Node>,
    workers: BTreeMap<PodUid, Worker>,
    /// Pods of the API that have a worker, by name.
    by_key: BTreeMap<ObjectKey, PodUid>,
    /// Pods that had finished before they were seen: nothing to do but to remove their logs at the
    /// end.
    finished: BTreeMap<ObjectKey, Arc<Pod>>,
    statics: StaticPods,
    /// Writes of mirror pods under way; the key is looked at again when one ends.
    mirrors: FuturesUnordered<BoxFuture<'static, (ObjectKey, Result<(), ApiError>)>>,
    mirroring: BTreeSet<ObjectKey>,
    ended: mpsc::Sender<PodUid>,
    registry: Registry,
    /// What burstable pods ask for together, in thousandths of a processor.
    burstable: watch::Sender<i64>,
    /// Pods that ask for something else than they were given.
    asking: BTreeMap<PodUid, Arc<Pod>>,
    /// Whether all pods of the first list are known.
    is_complete: bool,
}

pub(super) fn spawn(tasks: &Tasks, context: Arc<Context>, sources: Sources, registry: Registry) {
    let Sources { pods, nodes, services } = sources;
    let inbox = Arc::new(Inbox::default());
    pods.add_event_handler(inbox.clone());
    let config = &context.config;
    let folder = config.static_pod_directory.clone();
    let statics = static_pods::spawn(tasks, &context.world, folder, config.node_name.clone());
    // Before anything is listed, so that no change is missed.
    let events = context.parts.sandboxes.events();
    let parent = tasks.clone();
    let burstable = weights::spawn(tasks, context.parts.cgroups.clone());
    tasks.spawn("pods", move |shutdown| async move {
        let (ended, ended_rx) = mpsc::channel(ENDED_MAX);
        let dispatcher = Dispatcher {
            context,
            tasks: parent,
            pods: pods.indexer(),
            nodes: nodes.indexer(),
            workers: BTreeMap::new(),
            by_key: BTreeMap::new(),
            finished: BTreeMap::new(),
            statics: StaticPods::new(),
            mirrors: FuturesUnordered::new(),
            mirroring: BTreeSet::new(),
            ended,
            registry,
            burstable,
            asking: BTreeMap::new(),
            is_complete: false,
        };
        let synced = async {
            nodes.wait_for_sync().await;
            services.wait_for_sync().await;
            pods.wait_for_sync().await;
        };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = synced => {}
        }
        dispatcher.run(Inputs { inbox, statics, events, ended: ended_rx }, shutdown).await;
    });
}

struct Inputs {
    inbox: Arc<Inbox>,
    statics: watch::Receiver<Option<StaticPods>>,
    events: node_api::Events,
    ended: mpsc::Receiver<PodUid>,
}

impl Dispatcher {
    async fn run(mut self, mut inputs: Inputs, shutdown: Shutdown) {
        if inputs.statics.wait_for(Option::is_some).await.is_err() {
            return;
        }
        let statics = inputs.statics.borrow_and_update().clone().unwrap_or_default();
        self.set_statics(statics);
        for pod in self.pods.list() {
            self.look(&key_of(&pod.metadata));
        }
        // Not before all that is here is known.
        self.is_complete = true;
        self.settle_resizes();
        self.clear_orphans();
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                Some(uid) = inputs.ended.recv() => self.forget(&uid),
                event = inputs.events.next() => match event {
                    Some(event) => self.tell(&event),
                    None => return,
                },
                keys = inputs.inbox.take() => keys.iter().for_each(|it| self.look(it)),
                Ok(()) = inputs.statics.changed() => {
                    let statics = inputs.statics.borrow_and_update().clone().unwrap_or_default();
                    self.set_statics(statics);
                }
                Some((key, result)) = self.mirrors.next() => self.mirrored(key, result),
            }
        }
    }

    fn clear_orphans(&self) {
        let known = self.workers.keys().cloned().collect();
        let finished = self.finished.values().filter_map(|it| uid_of(it)).collect();
        let context = self.context.clone();
        self.tasks.spawn("orphans", |shutdown| async move {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                () = orphans::clear(context, known, finished) => {}
            }
        });
    }

    fn tell(&self, event: &Event) {
        match event {
            Event::Container { pod, .. } => {
                if let Some(worker) = self.workers.get(&pod.uid) {
                    worker.containers_changed();
                }
            }
            Event::Sandbox { pod, .. } => {
                if let Some(worker) = self.workers.get(&pod.uid) {
                    worker.sandboxes_changed();
                }
            }
            Event::Silent { pod, .. } => {
                if let Some(worker) = self.workers.get(&pod.uid) {
                    let message = "The process that holds the pod lives but does not answer: its status is what was last known".to_owned();
                    let pod = worker.desired().pod;
                    self.context.event(&pod, EventType::Warning, "HolderNotResponding", message);
                }
            }
            Event::Missed => self.workers.values().for_each(Worker::sandboxes_changed),
        }
    }

    fn forget(&mut self, uid: &PodUid) {
        self.workers.remove(uid);
        self.registry.remove(uid);
        self.asking.remove(uid);
        self.weigh();
        self.by_key.retain(|_, it| it != uid);
        self.settle_resizes();
        // A new version of a static pod waits for the end of the old one.
        self.start_statics();
    }

    /// A pod of this name changed in the API.
    fn look(&mut self, key: &ObjectKey) {
        let pod = self.pods.get(key);
        let is_mirror = pod.as_deref().is_some_and(mirror::is_mirror);
        if is_mirror || self.statics.contains_key(key) {
            self.look_at_mirror(key, pod);
            return;
        }
        let uid = pod.as_deref().and_then(uid_of);
        if self.by_key.get(key).is_some_and(|it| Some(it) != uid.as_ref()) {
            let gone = self.by_key.remove(key);
            if let Some(worker) = gone.and_then(|it| self.workers.get(&it)) {
                worker.update(|it| it.is_removed = true);
            }
        }
        if self.finished.get(key).is_some_and(|it| uid_of(it) != uid)
            && let Some(gone) = self.finished.remove(key)
        {
            self.remove_logs(&gone);
        }
        if let (Some(pod), Some(uid)) = (pod, uid) {
            self.set(key, uid, pod);
        }
    }

    fn set(&mut self, key: &ObjectKey, uid: PodUid, pod: Arc<Pod>) {
        if let Some(worker) = self.workers.get(&uid) {
            self.registry.set(uid.clone(), Known { pod: pod.clone(), mirror: None });
            if worker.desired().allocation.is_of(&pod) {
                self.asking.remove(&uid);
                worker.update(|it| {
                    it.pod = pod;
                    it.pending = None;
                });
            } else {
                self.asking.insert(uid, pod);
            }
            // What it told of itself may be that it takes less.
            self.settle_resizes();
            return;
        }
        if api::core::pod::is_finished(&pod) && !self.is_here(&uid) {
            self.finished.insert(key.clone(), pod);
            return;
        }
        let allocation = self.allocation_of(&uid, &pod);
        let rejection = self.admit(&uid, &allocation.apply(&pod));
        self.by_key.insert(key.clone(), uid.clone());
        if rejection.is_none() && !allocation.is_of(&pod) {
            self.asking.insert(uid.clone(), pod.clone());
        }
        let desired = Desired {
            pending: Pending::shown(&pod),
            pod,
            allocation,
            mirror: None,
            is_static: false,
            is_removed: false,
            rejection,
        };
        self.start(uid, desired);
        self.settle_resizes();
    }

    /// What it was given before, or else what it asks for. Reads a small file.
    fn allocation_of(&self, uid: &PodUid, pod: &Pod) -> Arc<Allocation> {
        let written = allocation::read(&self.context.pod_directory(uid));
        Arc::new(written.map_or_else(|| Allocation::of(pod), |it| it.allocation))
    }

    fn start(&mut self, uid: PodUid, desired: Desired) {
        self.registry.set(uid.clone(), Known { pod: desired.pod.clone(), mirror: None });
        let (context, ended) = (self.context.clone(), self.ended.clone());
        let worker = Worker::spawn(&self.tasks, context, uid.clone(), desired, ended);
        self.workers.insert(uid, worker);
        self.weigh();
    }

    fn weigh(&self) {
        let specs = self.workers.values().filter(|it| !it.is_over());
        let specs = specs.map(|it| it.desired().allocated());
        let millis = specs.filter_map(|it| weights::of(it.spec.as_ref()?)).sum();
        self.burstable.send_if_modified(|it| std::mem::replace(it, millis) != millis);
    }

    fn is_here(&self, uid: &PodUid) -> bool {
        self.context.parts.sandboxes.list().iter().any(|it| it.config.pod.uid == *uid)
    }

    /// What already runs here was let in before.
    fn admit(&self, uid: &PodUid, pod: &Pod) -> Option<admission::Rejection> {
        let spec = pod.spec.as_ref()?;
        if pod.metadata.deletion_timestamp.is_some() || self.is_here(uid) {
            return None;
        }
        let used = self.used_by_others(uid);
        let node = self.nodes.get(&ObjectKey::cluster(&self.context.config.node_name));
        let allocatable = crate::node_status::allocatable(&self.context);
        let candidate = Candidate {
            pod,
            spec,
            machine: &self.context.parts.machine,
            allowed_unsafe_sysctls: &self.context.config.allowed_unsafe_sysctls,
            used: &used,
            allocatable: &allocatable,
            node: node.as_deref(),
        };
        let rejection = admission::admit(&candidate).err()?;
        let (reason, message) = &rejection;
        self.context.event(pod, EventType::Warning, reason, message.clone());
        Some(rejection)
    }

    fn remove_logs(&self, pod: &Pod) {
        let folder = self.context.config.log_directory.join(log_directory_name(pod));
        self.tasks.spawn("logs", |_| async move {
            if let Err(err) = disk::remove_folder(folder).await {
                tracing::warn!(error = %err, "logs of a pod that is gone not removed");
            }
        });
    }
}

/// Resizes.
impl Dispatcher {
    /// What the other pods here take.
    fn used_by_others(&self, uid: &PodUid) -> Used {
        let mut used = Used::default();
        let others = self.workers.iter().filter(|(it, worker)| *it != uid && !worker.is_over());
        for (_, worker) in others {
            used.add(&worker.desired().allocated());
        }
        used
    }

    /// Gives to those who ask what there is room for, in order, and tells the others why not. Called
    /// whenever somebody asks, and whenever there may be more room.
    fn settle_resizes(&mut self) {
        if !self.is_complete || self.asking.is_empty() {
            return;
        }
        let workers = &self.workers;
        self.asking.retain(|uid, _| workers.get(uid).is_some_and(|it| !it.is_over()));
        let mut asking: Vec<Asking> = self
            .asking
            .iter()
            .filter_map(|(uid, pod)| {
                let allocation = self.workers.get(uid)?.desired().allocation;
                let since = allocation::waits_since(pod);
                Some(Asking { pod: pod.clone(), allocation, since })
            })
            .collect();
        allocation::order(&mut asking);
        for it in asking {
            if let Some(uid) = uid_of(&it.pod) {
                self.settle(&uid, it.pod);
            }
        }
    }

    /// The worker hears of the pod and of what became of its wish at once.
    fn settle(&mut self, uid: &PodUid, pod: Arc<Pod>) {
        let used = self.used_by_others(uid);
        let allocatable = crate::node_status::allocatable(&self.context);
        let Some(worker) = self.workers.get(uid) else { return };
        match allocation::decide(&pod, &used.resources, &allocatable) {
            Decision::Granted => {
                self.asking.remove(uid);
                worker.update(|it| {
                    it.allocation = Arc::new(Allocation::of(&pod));
                    it.pending = None;
                    it.pod = pod;
                });
                self.weigh();
            }
            Decision::Pending(pending) => {
                let told = worker.desired().pending;
                let is_news = told.as_ref().is_none_or(|it| {
                    (it.reason, it.generation) != (pending.reason, pending.generation)
                });
                if is_news {
                    let reason = format!("Resize{}", pending.reason);
                    let message = allocation::pending(&pod, &pending);
                    self.context.event(&pod, EventType::Warning, &reason, message);
                }
                worker.update(|it| {
                    it.pending = Some(pending);
                    it.pod = pod;
                });
            }
        }
    }
}

/// Static pods and their mirrors.
impl Dispatcher {
    fn set_statics(&mut self, statics: StaticPods) {
        let old = std::mem::replace(&mut self.statics, statics);
        for (key, pod) in &old {
            if self.statics.get(key).and_then(|it| uid_of(it)) != uid_of(pod)
                && let Some(worker) = uid_of(pod).and_then(|it| self.workers.get(&it))
            {
                worker.update(|it| it.is_removed = true);
            }
        }
        self.start_statics();
        for key in old.into_keys().filter(|it| !self.statics.contains_key(it)).collect::<Vec<_>>() {
            self.look(&key);
        }
    }

    fn start_statics(&mut self) {
        for (key, pod) in self.statics.clone() {
            let Some(uid) = uid_of(&pod) else { continue };
            if self.workers.contains_key(&uid) || self.has_worker_named(&key) {
                continue;
            }
            let rejection = self.admit(&uid, &pod);
            let desired = Desired {
                allocation: Arc::new(Allocation::of(&pod)),
                pending: None,
                pod,
                mirror: None,
                is_static: true,
                is_removed: false,
                rejection,
            };
            self.start(uid, desired);
            self.look(&key);
        }
    }

    fn has_worker_named(&self, key: &ObjectKey) -> bool {
        let mut workers = self.workers.values();
        workers.any(|it| {
            let desired = it.desired();
            desired.is_static && key_of(&desired.pod.metadata) == *key
        })
    }

    /// Makes the API show each static pod, as it is, and no other.
    fn look_at_mirror(&mut self, key: &ObjectKey, mirror: Option<Arc<Pod>>) {
        let pod = self.statics.get(key).cloned();
        let right =
            mirror.clone().filter(|it| pod.as_ref().is_some_and(|pod| mirror::is_of(it, pod)));
        if let Some(worker) =
            pod.as_ref().and_then(|it| uid_of(it)).and_then(|it| self.workers.get(&it))
        {
            worker.update(|it| it.mirror.clone_from(&right));
            if let (Some(pod), Some(uid)) = (&pod, pod.as_deref().and_then(uid_of)) {
                self.registry.set(uid, Known { pod: pod.clone(), mirror: right.clone() });
            }
        }
        if right.is_some() || self.mirroring.contains(key) {
            return;
        }
        let client = self.context.parts.client.clone();
        let node = self.nodes.get(&ObjectKey::cluster(&self.context.config.node_name));
        let key = key.clone();
        self.mirroring.insert(key.clone());
        self.mirrors.push(Box::pin(async move {
            let result = match (pod, mirror, node) {
                (Some(pod), stale, Some(node)) => {
                    mirror::put(&client, mirror::of(&pod, &node), stale.as_deref()).await
                }
                (None, Some(stale), _) => mirror::remove(&client, &stale).await,
                // The Node is not registered yet.
                (Some(_), _, None) => Err(ApiError::internal("the Node is not known yet")),
                (None, None, _) => Ok(()),
            };
            if result.is_err() {
                tokio::time::sleep(MIRROR_RETRY).await;
            }
            (key, result)
        }));
    }

    fn mirrored(&mut self, key: ObjectKey, result: Result<(), ApiError>) {
        self.mirroring.remove(&key);
        if let Err(err) = result {
            tracing::debug!(pod = %key, error = %err, "mirror pod not written");
            self.look(&key);
        }
    }
}

fn uid_of(pod: &Pod) -> Option<PodUid> {
    pod.metadata.uid.as_deref().map(PodUid::new)
}
