//! The ConfigMaps and Secrets that pods of this node refer to, each followed once for as long as a
//! pod needs it; and all ClusterTrustBundles, and the node's PodCertificateRequests, while a pod
//! needs any.
//!
//! A node may read single ConfigMaps and Secrets only, and only those: hence one narrow informer for
//! each, not one for the kind.

mod references;

use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::Resource;
use api::certificates::{ClusterTrustBundle, PodCertificateRequest};
use apimachinery::ObjectKey;
use client::{Client, ListOptions};
use informer::{EventHandler, Factory, Selection, SharedInformer};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use tokio::sync::watch;

use crate::Config;
use crate::pod_facts::Lookups;
pub(crate) use references::Kind;
use references::references;

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Objects {
    factory: Arc<Factory>,
    client: Client,
    node_name: String,
    has_trust_bundles: bool,
    has_pod_certificates: bool,
    entries: Arc<Mutex<Entries>>,
}

type Id = (Kind, ObjectKey);

#[derive(Default)]
struct Entries {
    /// Invariant: an entry has at least one follower.
    live: BTreeMap<Id, Entry>,
    next: u64,
}

struct Entry {
    object: Object,
    followers: Arc<Followers>,
}

#[derive(Clone)]
enum Object {
    ClusterTrustBundles(Arc<SharedInformer<ClusterTrustBundle>>),
    ConfigMap(Arc<SharedInformer<ConfigMap>>),
    PodCertificateRequests(Arc<SharedInformer<PodCertificateRequest>>),
    Secret(Arc<SharedInformer<Secret>>),
}

/// Who is told of a change of one object.
#[derive(Default)]
struct Followers(Mutex<BTreeMap<u64, Arc<watch::Sender<u64>>>>);

impl Followers {
    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<watch::Sender<u64>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        self.all().values().for_each(|it| it.send_modify(|it| *it += 1));
    }
}

impl<T> EventHandler<T> for Followers {
    fn on_add(&self, _object: &Arc<T>, _is_initial: bool) {
        self.tell();
    }

    fn on_update(&self, _old: &Arc<T>, _new: &Arc<T>) {
        self.tell();
    }

    fn on_delete(&self, _last: &Arc<T>) {
        self.tell();
    }
}

/// What one pod refers to. Dropping it ends the watches that nobody else needs.
pub(crate) struct Followed {
    objects: Objects,
    number: u64,
    held: Vec<(Id, Object)>,
    changes: watch::Receiver<u64>,
}

impl Objects {
    pub(crate) fn new(factory: Arc<Factory>, client: Client, config: &Config) -> Self {
        let Config { has_trust_bundles, has_pod_certificates, .. } = *config;
        let (node_name, entries) = (config.node_name.clone(), Arc::default());
        Self { factory, client, node_name, has_trust_bundles, has_pod_certificates, entries }
    }

    fn is_followed(&self, kind: Kind) -> bool {
        match kind {
            Kind::ClusterTrustBundles => self.has_trust_bundles,
            Kind::PodCertificateRequests => self.has_pod_certificates,
            Kind::ConfigMap | Kind::Secret => true,
        }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn follow(&self, pod: &Pod) -> Followed {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let (tx, changes) = watch::channel(0);
        let tx = Arc::new(tx);
        let mut entries = self.entries();
        let number = entries.next;
        entries.next += 1;
        let followed = references(pod).into_iter().filter(|it| self.is_followed(it.0));
        let held = followed.map(|(kind, name)| {
            let id = match kind {
                Kind::ClusterTrustBundles | Kind::PodCertificateRequests => {
                    (kind, ObjectKey::cluster(""))
                }
                Kind::ConfigMap | Kind::Secret => (kind, ObjectKey::new(namespace, name.as_str())),
            };
            let entry = entries.live.entry(id.clone()).or_insert_with(|| self.open(&id));
            entry.followers.all().insert(number, tx.clone());
            (id, entry.object.clone())
        });
        let held = held.collect();
        drop(entries);
        Followed { objects: self.clone(), number, held, changes }
    }

    fn open(&self, id: &Id) -> Entry {
        let followers = Arc::new(Followers::default());
        let object = match id.0 {
            Kind::ClusterTrustBundles => {
                Object::ClusterTrustBundles(self.informer(&id.1, &followers))
            }
            Kind::ConfigMap => Object::ConfigMap(self.informer(&id.1, &followers)),
            Kind::PodCertificateRequests => {
                Object::PodCertificateRequests(self.informer(&id.1, &followers))
            }
            Kind::Secret => Object::Secret(self.informer(&id.1, &followers)),
        };
        Entry { object, followers }
    }

    fn informer<T: Resource>(
        &self,
        key: &ObjectKey,
        followers: &Arc<Followers>,
    ) -> Arc<SharedInformer<T>> {
        let informer = self.factory.informer_of::<T>(self.selection::<T>(key));
        informer.add_event_handler(followers.clone());
        informer
    }

    /// The one of that name; without a name, all that the node may see.
    fn selection<T: Resource>(&self, key: &ObjectKey) -> Selection {
        let field_selector = match key.name.as_str() {
            "" if TypeId::of::<T>() == TypeId::of::<PodCertificateRequest>() => {
                format!("spec.nodeName={}", self.node_name)
            }
            "" => String::new(),
            name => format!("metadata.name={name}"),
        };
        Selection { namespace: key.namespace.clone(), field_selector }
    }
}

impl Followed {
    /// Returns when it is known of each ConfigMap and Secret whether it exists.
    pub(crate) async fn known(&self) {
        for (_, object) in &self.held {
            match object {
                Object::ClusterTrustBundles(_) | Object::PodCertificateRequests(_) => {}
                Object::ConfigMap(it) => it.wait_for_sync().await,
                Object::Secret(it) => it.wait_for_sync().await,
            }
        }
    }

    /// The ClusterTrustBundles, or why they are not known. `None`: the pod needs none, or this
    /// kubelet does not look at them.
    pub(crate) async fn trust_bundles(
        &self,
    ) -> Option<Result<Vec<Arc<ClusterTrustBundle>>, String>> {
        let informer = self.held.iter().find_map(|(_, object)| match object {
            Object::ClusterTrustBundles(it) => Some(it),
            _ => None,
        })?;
        Some(self.list(informer).await)
    }

    /// The same for the PodCertificateRequests of this node.
    pub(crate) async fn certificate_requests(
        &self,
    ) -> Option<Result<Vec<Arc<PodCertificateRequest>>, String>> {
        let informer = self.held.iter().find_map(|(_, object)| match object {
            Object::PodCertificateRequests(it) => Some(it),
            _ => None,
        })?;
        Some(self.list(informer).await)
    }

    /// All that it follows. The API server may not serve them, which an informer would wait out:
    /// hence it is asked first.
    async fn list<T: Resource>(&self, informer: &SharedInformer<T>) -> Result<Vec<Arc<T>>, String> {
        if !informer.has_synced() {
            let field_selector =
                self.objects.selection::<T>(&ObjectKey::cluster("")).field_selector;
            let options = ListOptions {
                limit: Some(1),
                field_selector: Some(field_selector).filter(|it| !it.is_empty()),
                ..ListOptions::default()
            };
            let listed = self.objects.client.api::<T>().list("", options).await;
            listed.map_err(|err| err.message().to_owned())?;
            informer.wait_for_sync().await;
        }
        Ok(informer.indexer().list())
    }

    fn forget<T: Resource>(&self, key: &ObjectKey) {
        self.objects.factory.forget::<T>(&self.objects.selection::<T>(key));
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    /// As they are now; without what has to be asked for.
    pub(crate) fn lookups(&self) -> Lookups {
        let mut lookups = Lookups::default();
        for ((_, key), object) in &self.held {
            match object {
                Object::ClusterTrustBundles(_) | Object::PodCertificateRequests(_) => {}
                Object::ConfigMap(it) => {
                    if let Some(object) = it.indexer().get(key) {
                        lookups.config_maps.insert(key.name.clone(), object);
                    }
                }
                Object::Secret(it) => {
                    if let Some(object) = it.indexer().get(key) {
                        lookups.secrets.insert(key.name.clone(), object);
                    }
                }
            }
        }
        lookups
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        let mut entries = self.objects.entries();
        for (id, _) in &self.held {
            let Some(entry) = entries.live.get(id) else { continue };
            let is_unused = {
                let mut followers = entry.followers.all();
                followers.remove(&self.number);
                followers.is_empty()
            };
            if is_unused {
                entries.live.remove(id);
                match id.0 {
                    Kind::ClusterTrustBundles => self.forget::<ClusterTrustBundle>(&id.1),
                    Kind::ConfigMap => self.forget::<ConfigMap>(&id.1),
                    Kind::PodCertificateRequests => self.forget::<PodCertificateRequest>(&id.1),
                    Kind::Secret => self.forget::<Secret>(&id.1),
                }
            }
        }
    }
}
