//! Follows Services, EndpointSlices and the zone of this node: handlers note which Services changed,
//! one task tells the kernel.
//!
//! A change is applied at once; what comes while one is being applied goes into the next
//! transaction together. Nothing is applied before both caches are whole, so that a restart takes
//! nothing away that is still wanted.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::core::node::NodeView;
use api::core::service::Service;
use api::discovery::EndpointSlice;
use api::object::key_of;
use apimachinery::ObjectKey;
use informer::{EventHandler, Factory, Indexer, Selection, SharedInformer};
use lifecycle::Tasks;
use stdx::{Backoff, error_chain};
use tokio::sync::Notify;

use crate::Config;
use crate::backends::{self, Backend, Error, userspace};
use crate::health_check::HealthChecks;
use crate::service_port::{Place, ServicePort, service_ports};

const BY_SERVICE: &str = "service-proxy/service-name";
const SERVICE_NAME: &str = "kubernetes.io/service-name";
const ZONE: &str = "topology.kubernetes.io/zone";
const ZONE_PATIENCE: Duration = Duration::from_secs(5);

const BACKOFF_FIRST: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// Services that changed since the task last looked: at most as many as there are.
#[derive(Default)]
struct Dirty {
    services: Mutex<BTreeSet<ObjectKey>>,
    is_some: Notify,
}

impl Dirty {
    fn add(&self, service: ObjectKey) {
        self.services.lock().unwrap_or_else(PoisonError::into_inner).insert(service);
        self.is_some.notify_one();
    }

    fn take(&self) -> BTreeSet<ObjectKey> {
        std::mem::take(&mut *self.services.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Notes the Service that an object is or belongs to.
struct Note<T> {
    dirty: Arc<Dirty>,
    service_of: fn(&T) -> Option<ObjectKey>,
}

impl<T> Note<T> {
    fn note(&self, object: &T) {
        if let Some(service) = (self.service_of)(object) {
            self.dirty.add(service);
        }
    }
}

impl<T> EventHandler<T> for Note<T> {
    fn on_add(&self, object: &Arc<T>, _is_initial: bool) {
        self.note(object);
    }

    fn on_update(&self, old: &Arc<T>, new: &Arc<T>) {
        self.note(old);
        self.note(new);
    }

    fn on_delete(&self, last: &Arc<T>) {
        self.note(last);
    }
}

fn service_of_slice(slice: &EndpointSlice) -> Option<ObjectKey> {
    let service = slice.metadata.labels.as_ref()?.get(SERVICE_NAME)?;
    Some(ObjectKey::new(slice.metadata.namespace.clone()?, service.clone()))
}

fn index_by_service(slice: &EndpointSlice) -> Vec<String> {
    service_of_slice(slice).map(|it| it.to_string()).into_iter().collect()
}

/// Notes all Services when this node has moved: which endpoints are near has changed.
struct Moved {
    dirty: Arc<Dirty>,
    services: Indexer<Service>,
}

impl Moved {
    fn note(&self) {
        self.services.list().iter().for_each(|it| self.dirty.add(key_of(&it.metadata)));
    }
}

impl EventHandler<NodeView> for Moved {
    fn on_add(&self, node: &Arc<NodeView>, _is_initial: bool) {
        if !zone_of(node).is_empty() {
            self.note();
        }
    }

    fn on_update(&self, old: &Arc<NodeView>, new: &Arc<NodeView>) {
        if zone_of(old) != zone_of(new) {
            self.note();
        }
    }

    fn on_delete(&self, last: &Arc<NodeView>) {
        if !zone_of(last).is_empty() {
            self.note();
        }
    }
}

fn zone_of(node: &NodeView) -> &str {
    node.meta.labels.get(ZONE).unwrap_or_default()
}

/// What the task reads, and the only one to do so.
#[derive(Clone)]
struct Observer {
    services: Indexer<Service>,
    slices: Indexer<EndpointSlice>,
    /// This one alone.
    nodes: Indexer<NodeView>,
    node_name: Arc<str>,
}

/// What is known of one Service.
struct Observed {
    service: Option<Arc<Service>>,
    slices: Vec<Arc<EndpointSlice>>,
}

impl Observer {
    fn observe(&self, key: &ObjectKey) -> Observed {
        let service = self.services.get(key);
        Observed { service, slices: self.slices.by_index(BY_SERVICE, &key.to_string()) }
    }

    fn ports(&self, observed: &Observed) -> Vec<ServicePort> {
        let node = self.nodes.get(&ObjectKey::cluster(&*self.node_name));
        let zone = node.map(|it| zone_of(&it).to_owned()).unwrap_or_default();
        let place = Place { node_name: self.node_name.to_string(), zone };
        let service = observed.service.as_deref();
        let ports = service.map(|it| service_ports(it, &observed.slices, &place));
        ports.unwrap_or_default()
    }
}

pub(crate) fn spawn(config: Config, tasks: &Tasks, factory: &Arc<Factory>) {
    let services = factory.informer::<Service>();
    let slices = factory.informer::<EndpointSlice>();
    slices.add_index(BY_SERVICE, index_by_service);
    let dirty = Arc::new(Dirty::default());
    services.add_event_handler(Arc::new(Note {
        dirty: dirty.clone(),
        service_of: |service: &Service| Some(key_of(&service.metadata)),
    }));
    slices.add_event_handler(Arc::new(Note { dirty: dirty.clone(), service_of: service_of_slice }));
    let nodes = factory.informer_of::<NodeView>(Selection {
        field_selector: format!("metadata.name={}", config.node_name),
        ..Selection::default()
    });
    let moved = Moved { dirty: dirty.clone(), services: services.indexer() };
    nodes.add_event_handler(Arc::new(moved));
    let observer = Observer {
        services: services.indexer(),
        slices: slices.indexer(),
        nodes: nodes.indexer(),
        node_name: config.node_name.as_str().into(),
    };
    let tasks = tasks.child("service-proxy");
    let children = tasks.clone();
    tasks.spawn_restarting(config.mode.name, move |shutdown| {
        let caches =
            Caches { services: services.clone(), slices: slices.clone(), nodes: nodes.clone() };
        let health_checks = HealthChecks::new(&children);
        let follower = Follower {
            config: config.clone(),
            observer: observer.clone(),
            dirty: dirty.clone(),
            health_checks,
        };
        async move {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                () = follower.run(caches) => {}
            }
        }
    });
}

/// What is waited for before anything is applied.
struct Caches {
    services: Arc<SharedInformer<Service>>,
    slices: Arc<SharedInformer<EndpointSlice>>,
    nodes: Arc<SharedInformer<NodeView>>,
}

impl Caches {
    /// The zone is waited for but a while: without it, traffic goes further than it must.
    async fn are_whole(&self) {
        self.services.wait_for_sync().await;
        self.slices.wait_for_sync().await;
        if tokio::time::timeout(ZONE_PATIENCE, self.nodes.wait_for_sync()).await.is_err() {
            tracing::warn!("this node cannot be read; endpoints of all zones are used");
        }
    }
}

/// Brings what the caches say to the kernel and to the health checks.
struct Follower {
    config: Config,
    observer: Observer,
    dirty: Arc<Dirty>,
    health_checks: HealthChecks,
}

impl Follower {
    /// Ends never.
    async fn run(mut self, caches: Caches) {
        caches.are_whole().await;
        let mut backoff = Backoff::new(BACKOFF_FIRST, BACKOFF_MAX);
        loop {
            let Err(err) = self.follow(&mut backoff).await;
            let delay = backoff.step();
            tracing::error!(
                error = %error_chain(&err), ?delay,
                "the kernel's rules for Services could not be changed; comparing them all"
            );
            tokio::time::sleep(delay).await;
        }
    }

    /// Brings the kernel to the state of the caches, whatever it holds, then follows changes until
    /// one fails.
    async fn follow(&mut self, backoff: &mut Backoff) -> Result<Infallible, Error> {
        let Config { cluster, mode, .. } = self.config;
        // From here on it hears of changes, before anything is compared, so that none is missed.
        let mut backend = (mode.open)(cluster, &self.config.networks())?;
        backend.set_pods_cgroup(&self.config.pods_cgroup);
        backend.adopt()?;
        // What is noted from here on is seen below or in the loop.
        self.dirty.take();
        let services = self.observer.services.list();
        let mut keys: BTreeSet<_> = services.iter().map(|it| key_of(&it.metadata)).collect();
        keys.extend(self.health_checks.services());
        for key in &keys {
            self.set(&mut *backend, key).await;
        }
        backend.resync()?;
        // Another mode may have been in use before: both were there for a moment, so that no packet
        // found neither.
        for other in backends::ALL.iter().filter(|it| it.name != mode.name) {
            if let Err(err) = (other.purge)(cluster) {
                let error = error_chain(&err);
                tracing::warn!(mode = other.name, %error, "rules of another mode may have stayed");
            }
        }
        if let (true, Some(place)) = (mode.name != userspace::MODE.name, &self.config.worker)
            && let Err(err) = userspace::retire(place)
        {
            let error = error_chain(&err);
            tracing::warn!(%error, "the worker may still take connections to Services");
        }
        tracing::info!(n_services = services.len(), "the kernel's rules follow the Services");
        loop {
            backoff.reset();
            tokio::select! {
                biased;
                () = self.dirty.is_some.notified() => {
                    for key in self.dirty.take() {
                        self.set(&mut *backend, &key).await;
                    }
                    backend.apply()?;
                }
                changed = backend.disturbed() => {
                    changed?;
                    tracing::warn!("somebody changed the rules for Services; comparing them all");
                    backend.resync()?;
                }
            }
        }
    }

    async fn set(&mut self, backend: &mut dyn Backend, key: &ObjectKey) {
        let observed = self.observer.observe(key);
        backend.set(key, self.observer.ports(&observed));
        let Observed { service, slices } = &observed;
        let node_name = &self.observer.node_name;
        self.health_checks.set(key, service.as_deref(), slices, node_name).await;
    }
}
