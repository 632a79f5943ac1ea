//! Follows policies, pods, namespaces, nodes and name servers: handlers note what changed, one task
//! tells the kernel. A pod that is attached is told to the kernel by whoever attaches it, before
//! its link is up.
//!
//! Nothing is applied before all caches are whole, so that a restart opens nothing; and no pod is
//! attached before that.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::Identified as _;
use api::core::node::NodeView;
use api::discovery::EndpointSlice;
use apimachinery::ObjectKey;
use informer::{EventHandler, Factory, Indexer, Selection, SharedInformer};
use lifecycle::Tasks;
use node_api::{ClusterId, PodRef, SandboxId};
use stdx::{Backoff, Family, error_chain};
use tokio::sync::Notify;

use super::cluster::ClusterPolicyView;
use super::clusterwide::{Clusterwide, DefinitionView};
use super::enforcer::{self, Enforcer, Error};
use super::state::State;
use super::strangers::Strangers;
use super::views::{DNS_NAMESPACE, NamespaceView, PodView, PolicyView, addresses_of, name_servers};
use crate::gate::Gate;

const BACKOFF_FIRST: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// For how long a pod waits at the start for what policies say.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub struct Config {
    /// Whose policies they are: the tables have its name.
    pub cluster: ClusterId,
    pub node_name: String,
    /// Of pods' addresses.
    pub families: Vec<Family>,
}

/// What changed since the task last looked: at most as much as there is.
#[derive(Debug, Default)]
struct Dirty {
    what: Mutex<What>,
    is_some: Notify,
}

#[derive(Debug, Default)]
struct What {
    pods: BTreeSet<ObjectKey>,
    policies: BTreeSet<ObjectKey>,
    cluster_policies: BTreeSet<String>,
    /// Of cluster policies.
    definition: bool,
    namespaces: BTreeSet<ObjectKey>,
    nodes: BTreeSet<ObjectKey>,
    name_servers: bool,
}

impl Dirty {
    fn note(&self, note: impl FnOnce(&mut What)) {
        note(&mut self.what.lock().unwrap_or_else(PoisonError::into_inner));
        self.is_some.notify_one();
    }

    fn take(&self) -> What {
        std::mem::take(&mut *self.what.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Notes the object.
struct Note<T> {
    dirty: Arc<Dirty>,
    note: fn(&mut What, &T),
}

impl<T> EventHandler<T> for Note<T> {
    fn on_add(&self, object: &Arc<T>, _is_initial: bool) {
        self.dirty.note(|it| (self.note)(it, object));
    }

    fn on_update(&self, _old: &Arc<T>, new: &Arc<T>) {
        self.dirty.note(|it| (self.note)(it, new));
    }

    fn on_delete(&self, last: &Arc<T>) {
        self.dirty.note(|it| (self.note)(it, last));
    }
}

/// The policies of this node, for those who attach pods.
#[derive(Debug)]
pub struct Policies {
    enforcer: Mutex<Enforcer>,
    dirty: Arc<Dirty>,
    is_ready: Mutex<bool>,
    became_ready: Condvar,
}

impl Policies {
    fn enforcer(&self) -> MutexGuard<'_, Enforcer> {
        // What a panic left half-told is put right by the next comparison.
        self.enforcer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_ready(&self) -> bool {
        *self.is_ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn become_ready(&self) {
        *self.is_ready.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.became_ready.notify_all();
    }

    fn tell(&self, enforcer: &mut Enforcer) -> Result<(), node_api::Error> {
        if !self.is_ready() {
            return Ok(());
        }
        // Somebody else may have changed the table: then all of it is put right.
        let told = enforcer.apply().or_else(|_| enforcer.resync());
        // Connections are looked at by the task.
        self.dirty.is_some.notify_one();
        told.map_err(|err| node_api::Error::node("tell the kernel what policies say of a pod", err))
    }
}

fn key_of(pod: &PodRef) -> ObjectKey {
    ObjectKey::new(pod.namespace.clone(), pod.name.clone())
}

impl Gate for Policies {
    fn wait(&self) -> Result<(), node_api::Error> {
        let is_ready = self.is_ready.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.became_ready.wait_timeout_while(is_ready, PATIENCE, |it| !*it);
        let (is_ready, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match *is_ready {
            true => Ok(()),
            false => Err(node_api::Error::Refused(
                "the network policies of the cluster are not known yet: the API was not heard of \
                 since the start"
                    .to_owned(),
            )),
        }
    }

    fn attach(
        &self,
        sandbox: &SandboxId,
        pod: &PodRef,
        addresses: &[IpAddr],
    ) -> Result<(), node_api::Error> {
        let mut enforcer = self.enforcer();
        enforcer.state.attach(sandbox, (&key_of(pod), &pod.uid), addresses);
        self.tell(&mut enforcer)
    }

    fn detach(&self, sandbox: &SandboxId, pod: &PodRef) -> Result<(), node_api::Error> {
        let mut enforcer = self.enforcer();
        enforcer.state.detach(sandbox, &key_of(pod));
        self.tell(&mut enforcer)
    }
}

/// What the task reads, and the only one to do so.
#[derive(Clone)]
struct Observer {
    pods: Indexer<PodView>,
    policies: Indexer<PolicyView>,
    clusterwide: Arc<Clusterwide>,
    namespaces: Indexer<NamespaceView>,
    nodes: Indexer<NodeView>,
    slices: Indexer<EndpointSlice>,
}

impl Observer {
    fn tell(&self, mut what: What, state: &mut State) {
        if what.definition {
            self.clusterwide.heed_definition();
            what.cluster_policies.extend(self.clusterwide.names());
            what.cluster_policies.extend(state.cluster_policy_names());
        }
        for key in &what.namespaces {
            let labels = self.namespaces.get(key).map(|it| it.meta.labels.clone());
            state.set_namespace(&key.name, labels);
        }
        for key in &what.nodes {
            state.set_node(&key.name, self.nodes.get(key).map(|it| addresses_of(&it)));
        }
        if what.name_servers {
            let slices = self.slices.list();
            state.set_name_servers(name_servers(slices.iter().map(|it| &**it)));
        }
        // Policies first: a pod that comes with its policy never is without.
        for key in &what.policies {
            state.set_policy(key, self.policies.get(key).map(|it| it.policy.clone()));
        }
        for name in &what.cluster_policies {
            let policy = self.clusterwide.get(name).map(|it| it.policy.clone());
            state.set_cluster_policy(name, policy);
        }
        for key in &what.pods {
            state.set_pod(key, self.pods.get(key).map(|it| it.pod.clone()));
        }
    }

    /// All that is there, and all that was.
    fn everything(&self, state: &State) -> What {
        let cluster = |it: String| ObjectKey::cluster(it);
        let pods = self.pods.list().into_iter().map(|it| it.key.clone());
        let policies = self.policies.list().into_iter().map(|it| it.key.clone());
        let namespaces = self.namespaces.list().into_iter().map(|it| it.meta.key.clone());
        let nodes = self.nodes.list().into_iter().map(|it| it.key());
        What {
            pods: pods.chain(state.pod_keys()).collect(),
            policies: policies.chain(state.policy_keys()).collect(),
            namespaces: namespaces
                .chain(state.namespace_names().into_iter().map(cluster))
                .collect(),
            nodes: nodes.chain(state.node_names().into_iter().map(cluster)).collect(),
            cluster_policies: BTreeSet::new(),
            definition: true,
            name_servers: true,
        }
    }
}

/// What is waited for before anything is applied.
#[derive(Clone)]
struct Caches {
    pods: Arc<SharedInformer<PodView>>,
    policies: Arc<SharedInformer<PolicyView>>,
    clusterwide: Arc<Clusterwide>,
    namespaces: Arc<SharedInformer<NamespaceView>>,
    nodes: Arc<SharedInformer<NodeView>>,
    slices: Arc<SharedInformer<EndpointSlice>>,
}

impl Caches {
    fn of(factory: &Arc<Factory>, dirty: &Arc<Dirty>) -> Self {
        let in_kube_system =
            Selection { namespace: DNS_NAMESPACE.to_owned(), ..Selection::default() };
        let clusterwide = Clusterwide::new(
            factory,
            note(dirty, |what, _: &DefinitionView| what.definition = true),
            note(dirty, |what, it: &ClusterPolicyView| {
                what.cluster_policies.insert(it.key.name.clone());
            }),
        );
        let caches = Self {
            pods: factory.informer(),
            policies: factory.informer(),
            clusterwide: Arc::new(clusterwide),
            namespaces: factory.informer(),
            nodes: factory.informer(),
            slices: factory.informer_of(in_kube_system),
        };
        caches.pods.add_event_handler(note(dirty, |what, it: &PodView| {
            what.pods.insert(it.key.clone());
        }));
        caches.policies.add_event_handler(note(dirty, |what, it: &PolicyView| {
            what.policies.insert(it.key.clone());
        }));
        caches.namespaces.add_event_handler(note(dirty, |what, it: &NamespaceView| {
            what.namespaces.insert(it.meta.key.clone());
        }));
        caches.nodes.add_event_handler(note(dirty, |what, it: &NodeView| {
            what.nodes.insert(it.key());
        }));
        caches.slices.add_event_handler(note(dirty, |what, _: &EndpointSlice| {
            what.name_servers = true;
        }));
        caches
    }

    fn observer(&self) -> Observer {
        Observer {
            pods: self.pods.indexer(),
            policies: self.policies.indexer(),
            clusterwide: self.clusterwide.clone(),
            namespaces: self.namespaces.indexer(),
            nodes: self.nodes.indexer(),
            slices: self.slices.indexer(),
        }
    }

    async fn are_whole(&self) {
        self.policies.wait_for_sync().await;
        self.clusterwide.is_whole().await;
        self.pods.wait_for_sync().await;
        self.namespaces.wait_for_sync().await;
        self.nodes.wait_for_sync().await;
        self.slices.wait_for_sync().await;
    }
}

fn note<T: Send + Sync + 'static>(
    dirty: &Arc<Dirty>,
    note: fn(&mut What, &T),
) -> Arc<dyn EventHandler<T>> {
    Arc::new(Note { dirty: dirty.clone(), note })
}

/// Starts following; returns at once. In the network namespace of the calling thread. The factory's
/// client is `xebec:network`. What is returned is for [`crate::Network::guard`].
pub fn start(
    config: Config,
    tasks: &Tasks,
    factory: &Arc<Factory>,
) -> Result<Arc<Policies>, Error> {
    let state = State::new(config.node_name, &config.families);
    let enforcer = Enforcer::open(config.cluster, state)?;
    let name = enforcer::table(config.cluster, Family::V4).name.into_owned();
    let strangers = Strangers::listen(name, enforcer.ports());
    let strangers = strangers.map_err(|source| Error::Listen { source })?;
    let dirty = Arc::new(Dirty::default());
    let policies = Arc::new(Policies {
        enforcer: Mutex::new(enforcer),
        dirty: dirty.clone(),
        is_ready: Mutex::new(false),
        became_ready: Condvar::new(),
    });
    let caches = Caches::of(factory, &dirty);
    let observer = caches.observer();
    let strangers = Arc::new(tokio::sync::Mutex::new(strangers));
    let followed = policies.clone();
    tasks.spawn_restarting("network-policies", move |shutdown| {
        let (caches, strangers) = (caches.clone(), strangers.clone());
        let follower = Follower { policies: followed.clone(), observer: observer.clone() };
        async move {
            let mut strangers = strangers.lock().await;
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                () = follower.run(&caches, &mut strangers) => {}
            }
        }
    });
    Ok(policies)
}

/// Brings what the caches say to the kernel.
struct Follower {
    policies: Arc<Policies>,
    observer: Observer,
}

impl Follower {
    /// Ends never.
    async fn run(&self, caches: &Caches, strangers: &mut Strangers) {
        caches.are_whole().await;
        let mut backoff = Backoff::new(BACKOFF_FIRST, BACKOFF_MAX);
        loop {
            let Err(err) = self.follow(strangers, &mut backoff).await;
            let delay = backoff.step();
            let error = error_chain(&err);
            tracing::error!(
                error,
                ?delay,
                "the kernel's rules of network policies could not be changed; comparing them all"
            );
            tokio::time::sleep(delay).await;
        }
    }

    async fn follow(
        &self,
        strangers: &mut Strangers,
        backoff: &mut Backoff,
    ) -> Result<Infallible, Error> {
        self.work(|policies, observer| {
            let mut enforcer = policies.enforcer();
            policies.dirty.take();
            let everything = observer.everything(&enforcer.state);
            observer.tell(everything, &mut enforcer.state);
            enforcer.resync()?;
            policies.become_ready();
            enforcer.end_forbidden()
        })
        .await?;
        tracing::info!("the kernel's rules follow the network policies");
        loop {
            backoff.reset();
            tokio::select! {
                biased;
                () = self.policies.dirty.is_some.notified() => {
                    self.work(|policies, observer| {
                        let mut enforcer = policies.enforcer();
                        observer.tell(policies.dirty.take(), &mut enforcer.state);
                        enforcer.apply()?;
                        enforcer.end_forbidden()
                    })
                    .await?;
                }
                changed = strangers.changed() => {
                    changed.map_err(|source| Error::Listen { source })?;
                    self.work(|policies, _| policies.enforcer().mend()).await?;
                }
            }
        }
    }

    /// On a thread that may block.
    async fn work(
        &self,
        work: impl FnOnce(&Policies, &Observer) -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Error> {
        let (policies, observer) = (self.policies.clone(), self.observer.clone());
        match tokio::task::spawn_blocking(move || work(&policies, &observer)).await {
            Ok(result) => result,
            // A panic, which is told where it happened: everything is compared.
            Err(_) => Err(Error::Panicked),
        }
    }
}
