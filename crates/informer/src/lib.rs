//! Caches that follow the API: Reflector, DeltaFifo, Indexer, Lister, shared informers and their factory.
//!
//! Contract: see `SharedInformer`. Reads come from memory and may be behind the server; they never go back.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use api::{Meta, Resource, Stored};
use apimachinery::{GroupVersionResource, ObjectKey};
use client::Client;
use lifecycle::Tasks;

/// Handlers run in order of registration, one event at a time, and must not wait: they put a key in a queue.
pub trait EventHandler<T>: Send + Sync {
    fn on_add(&self, object: &Arc<T>, is_initial: bool);
    fn on_update(&self, old: &Arc<T>, new: &Arc<T>);
    /// `last` is the last known state.
    fn on_delete(&self, last: &Arc<T>);
}

/// One kind, watched once per factory, shared by everybody. Objects have no managedFields.
pub struct SharedInformer<T> {
    _kind: PhantomData<fn() -> T>,
}

/// The cache, with named indexes. Cheap to clone.
pub struct Indexer<T> {
    _kind: PhantomData<fn() -> T>,
}

/// The same as `Indexer`, for reading alone, under the name that client-go users look for.
pub type Lister<T> = Indexer<T>;

/// Makes each kind's informer once. Informers made before `start` are started by it; later ones start at once.
pub struct Factory {
    _private: (),
}

/// A metadata-only informer over any resource, for the garbage collector and the namespace controller.
pub struct MetadataInformer {
    _private: (),
}

pub type IndexFn<T> = fn(&T) -> Vec<String>;

#[expect(unused_variables, reason = "contract only")]
impl Factory {
    pub fn new(client: Client, tasks: &Tasks) -> Arc<Self> {
        todo!()
    }
    pub fn informer<T: Resource>(&self) -> Arc<SharedInformer<T>> {
        todo!()
    }
    pub fn metadata(&self, resource: &GroupVersionResource) -> Arc<MetadataInformer> {
        todo!()
    }
    /// Stops and forgets the metadata informer of a resource that is no longer served.
    pub fn forget_metadata(&self, resource: &GroupVersionResource) {
        todo!()
    }
    pub fn start(&self) {
        todo!()
    }
    /// Returns when every informer made so far has its first list delivered to all handlers.
    pub async fn wait_for_sync(&self) {
        todo!()
    }
}

#[expect(unused_variables, reason = "contract only")]
impl<T: Resource> SharedInformer<T> {
    pub fn indexer(&self) -> Indexer<T> {
        todo!()
    }
    /// Adding the same name twice keeps the first; existing objects are indexed.
    pub fn add_index(&self, name: &'static str, index: IndexFn<T>) {
        todo!()
    }
    /// The handler first gets an `on_add` for everything that is already there.
    pub fn add_event_handler(&self, handler: Arc<dyn EventHandler<T>>) {
        todo!()
    }
    /// As `add_event_handler`, and every `period` each object again as an update of itself.
    pub fn add_event_handler_with_resync(
        &self,
        handler: Arc<dyn EventHandler<T>>,
        period: std::time::Duration,
    ) {
        todo!()
    }
    pub fn has_synced(&self) -> bool {
        todo!()
    }
}

#[expect(unused_variables, reason = "contract only")]
impl<T: Resource> Indexer<T> {
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<T>> {
        todo!()
    }
    /// Sorted by key.
    pub fn list(&self) -> Vec<Arc<T>> {
        todo!()
    }
    pub fn list_namespace(&self, namespace: &str) -> Vec<Arc<T>> {
        todo!()
    }
    /// Objects whose index function gave `value`, sorted by key.
    pub fn by_index(&self, index: &'static str, value: &str) -> Vec<Arc<T>> {
        todo!()
    }
    pub fn len(&self) -> usize {
        todo!()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Clone for Indexer<T> {
    fn clone(&self) -> Self {
        todo!()
    }
}

#[expect(unused_variables, reason = "contract only")]
impl MetadataInformer {
    pub fn add_event_handler(&self, handler: Arc<dyn EventHandler<Meta>>) {
        todo!()
    }
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Meta>> {
        todo!()
    }
    pub fn list(&self) -> Vec<Arc<Meta>> {
        todo!()
    }
    pub fn has_synced(&self) -> bool {
        todo!()
    }
}

#[expect(dead_code, reason = "contract only")]
struct Uses(BTreeMap<String, Arc<Stored>>);
