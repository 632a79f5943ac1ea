//! The ConfigMaps and Secrets that pods of this node refer to, each followed once for as long as a
//! pod needs it.
//!
//! A node may read single objects only, and only those: hence one narrow informer for each, not one
//! for the kind.

mod references;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::Resource;
use apimachinery::ObjectKey;
use informer::{EventHandler, Factory, Selection, SharedInformer};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use tokio::sync::watch;

use crate::pod_facts::Lookups;
pub(crate) use references::Kind;
use references::references;

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Objects {
    factory: Arc<Factory>,
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
    ConfigMap(Arc<SharedInformer<ConfigMap>>),
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
    pub(crate) fn new(factory: Arc<Factory>) -> Self {
        Self { factory, entries: Arc::default() }
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
        let held = references(pod).into_iter().map(|(kind, name)| {
            let id = (kind, ObjectKey::new(namespace, name.as_str()));
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
            Kind::ConfigMap => Object::ConfigMap(self.informer(&id.1, &followers)),
            Kind::Secret => Object::Secret(self.informer(&id.1, &followers)),
        };
        Entry { object, followers }
    }

    fn informer<T: Resource>(
        &self,
        key: &ObjectKey,
        followers: &Arc<Followers>,
    ) -> Arc<SharedInformer<T>> {
        let informer = self.factory.informer_of::<T>(selection(key));
        informer.add_event_handler(followers.clone());
        informer
    }
}

fn selection(key: &ObjectKey) -> Selection {
    Selection {
        namespace: key.namespace.clone(),
        field_selector: format!("metadata.name={}", key.name),
    }
}

impl Followed {
    /// Returns when it is known of each object whether it exists.
    pub(crate) async fn known(&self) {
        for (_, object) in &self.held {
            match object {
                Object::ConfigMap(it) => it.wait_for_sync().await,
                Object::Secret(it) => it.wait_for_sync().await,
            }
        }
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    /// As they are now; without tokens.
    pub(crate) fn lookups(&self) -> Lookups {
        let mut lookups = Lookups::default();
        for ((_, key), object) in &self.held {
            match object {
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
                    Kind::ConfigMap => self.objects.factory.forget::<ConfigMap>(&selection(&id.1)),
                    Kind::Secret => self.objects.factory.forget::<Secret>(&selection(&id.1)),
                }
            }
        }
    }
}
