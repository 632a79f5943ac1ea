//! Makes each kind's informer once and starts it.

use std::any::{Any, TypeId};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::{Meta, Stored, View};
use apimachinery::{GroupVersionResource, ObjectKey};
use client::Client;
use lifecycle::Tasks;
use stdx::World;

use crate::indexer::{IndexFn, Indexer};
use crate::reflector::{OnMissing, Reflector};
use crate::shared::{EventHandler, Shared, Sink};

/// One kind, or one view of it, watched once per factory, shared by everybody.
///
/// Promises:
/// - What the cache and the handlers see of one object never goes back in time.
/// - The cache has a change before any handler hears of it.
/// - Every handler gets `on_add` first, `on_delete` last, and updates in between, for each object.
/// - A handler that is added late starts with an `on_add` for everything that is there.
/// - An object that vanished while the watch was broken is delivered as a deletion with its last
///   known state.
///
/// Does not promise:
/// - that the cache is as new as the server, or as new as another kind's cache;
/// - that every version of an object is seen: a broken watch skips to the newest one;
/// - any order between objects.
///
/// Objects are what the view keeps of them; kinds are views of themselves, without managedFields.
/// They are shared: clone before you change one. In the process of the server, everybody who
/// follows a kind by the same view holds the same objects.
pub struct SharedInformer<T> {
    shared: Arc<Shared<T>>,
    tasks: Tasks,
}

/// A metadata-only informer over any resource, for the garbage collector and the namespace
/// controller. Its contract is that of `SharedInformer`.
pub struct MetadataInformer {
    shared: Arc<Shared<Meta>>,
    tasks: Tasks,
}

/// Makes each kind's informer once. Informers made before `start` are started by it; later ones
/// start at once.
pub struct Factory {
    client: Client,
    world: World,
    tasks: Tasks,
    state: Mutex<State>,
}

/// Which objects of a kind an informer follows: by default all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Empty: all namespaces.
    pub namespace: String,
    /// `spec.nodeName=n1`; empty: all.
    pub field_selector: String,
}

#[derive(Default)]
struct State {
    has_started: bool,
    /// In order of creation, which is the order of starting.
    informers: Vec<Made>,
}

struct Made {
    id: Id,
    informer: Arc<dyn Any + Send + Sync>,
    sink: Arc<dyn Sink>,
    resource: GroupVersionResource,
    selection: Selection,
    on_missing: Option<OnMissing>,
    tasks: Tasks,
}

#[derive(Clone, PartialEq, Eq)]
enum Id {
    Kind(TypeId, Selection),
    Metadata(GroupVersionResource),
}

impl Factory {
    pub fn new(client: Client, world: World, tasks: &Tasks) -> Arc<Self> {
        let tasks = tasks.child("informer");
        Arc::new(Self { client, world, tasks, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `T` is a kind, or a view of one: what is kept of each object.
    pub fn informer<T: View>(&self) -> Arc<SharedInformer<T>> {
        self.informer_of(Selection::default())
    }

    /// Follows a part of a kind only, for those who may not see, or do not need, all of it.
    pub fn informer_of<T: View>(&self, selection: Selection) -> Arc<SharedInformer<T>> {
        self.find_or_make(Id::Kind(TypeId::of::<T>(), selection), T::resource(), None, |tasks| {
            let shared = Arc::new(Shared::new(|stored: &Arc<Stored>| stored.view::<T>()));
            (Arc::new(SharedInformer { shared: shared.clone(), tasks }), shared)
        })
    }

    /// `on_missing` is called whenever the server says that it has no such resource; who has it
    /// confirmed forgets the informer.
    pub fn metadata(
        &self,
        resource: &GroupVersionResource,
        on_missing: impl Fn() + Send + Sync + 'static,
    ) -> Arc<MetadataInformer> {
        let missing: Option<OnMissing> = Some(Arc::new(on_missing));
        let id = Id::Metadata(resource.clone());
        self.find_or_make(id, resource.clone(), missing, |tasks| {
            let shared = Arc::new(Shared::new(|stored: &Arc<Stored>| Ok(stored.meta.clone())));
            (Arc::new(MetadataInformer { shared: shared.clone(), tasks }), shared)
        })
    }

    fn find_or_make<I: Any + Send + Sync>(
        &self,
        id: Id,
        resource: GroupVersionResource,
        on_missing: Option<OnMissing>,
        make: impl FnOnce(Tasks) -> (Arc<I>, Arc<dyn Sink>),
    ) -> Arc<I> {
        let mut state = self.state();
        let found = state.informers.iter().find(|it| it.id == id);
        if let Some(made) = found.and_then(|it| it.informer.clone().downcast().ok()) {
            return made;
        }
        let (name, selection) = match &id {
            Id::Kind(_, selection) => (resource.group_resource().to_string(), selection.clone()),
            Id::Metadata(_) => {
                (format!("metadata/{}", resource.group_resource()), Selection::default())
            }
        };
        let tasks = self.tasks.child(&name);
        let (informer, sink) = make(tasks.clone());
        let made =
            Made { id, informer: informer.clone(), sink, resource, selection, on_missing, tasks };
        if state.has_started {
            self.spawn(&made);
        }
        state.informers.push(made);
        informer
    }

    /// Stops and forgets the metadata informer of a resource that is no longer served.
    pub fn forget_metadata(&self, resource: &GroupVersionResource) {
        self.forget_id(&Id::Metadata(resource.clone()));
    }

    /// Stops and forgets an informer that nobody needs any more. Who still holds it sees no
    /// changes.
    pub fn forget<T: View>(&self, selection: &Selection) {
        self.forget_id(&Id::Kind(TypeId::of::<T>(), selection.clone()));
    }

    fn forget_id(&self, id: &Id) {
        self.state().informers.retain(|it| {
            let is_kept = it.id != *id;
            if !is_kept {
                it.tasks.cancel();
            }
            is_kept
        });
    }

    pub fn start(&self) {
        let mut state = self.state();
        if !std::mem::replace(&mut state.has_started, true) {
            state.informers.iter().for_each(|it| self.spawn(it));
        }
    }

    fn spawn(&self, made: &Made) {
        let (client, random) = (self.client.clone(), self.world.random.clone());
        let (resource, sink) = (made.resource.clone(), made.sink.clone());
        let (selection, on_missing) = (made.selection.clone(), made.on_missing.clone());
        // A handler that panics ends this task; the new one lists again and delivers what differs.
        made.tasks.spawn_restarting("reflector", move |shutdown| {
            let api = client.dynamic(resource.clone());
            let (selection, on_missing) = (selection.clone(), on_missing.clone());
            Reflector::new(api, selection, random.clone(), sink.clone(), on_missing).run(shutdown)
        });
    }

    /// Returns when every informer made so far has its first list delivered to all handlers.
    pub async fn wait_for_sync(&self) {
        let waits: Vec<_> = self.state().informers.iter().map(|it| it.sink.synced()).collect();
        for synced in waits {
            synced.wait().await;
        }
    }
}

/// Every `period` each object again to this handler, from the first list on.
fn spawn_resync<T: Send + Sync + 'static>(
    tasks: &Tasks,
    shared: &Arc<Shared<T>>,
    handler: Arc<dyn EventHandler<T>>,
    period: Duration,
) {
    let shared = shared.clone();
    tasks.spawn("resync", move |shutdown| async move {
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(period) => shared.resync(&handler),
            }
        }
    });
}

impl<T: View> SharedInformer<T> {
    pub fn indexer(&self) -> Indexer<T> {
        self.shared.indexer.clone()
    }

    /// Adding the same name twice keeps the first; existing objects are indexed.
    pub fn add_index(&self, name: &'static str, index: IndexFn<T>) {
        self.shared.indexer.add_index(name, index);
    }

    /// The handler first gets an `on_add` for everything that is already there.
    pub fn add_event_handler(&self, handler: Arc<dyn EventHandler<T>>) {
        self.shared.add_handler(handler);
    }

    /// As `add_event_handler`, and every `period` each object again as an update of itself.
    pub fn add_event_handler_with_resync(
        &self,
        handler: Arc<dyn EventHandler<T>>,
        period: Duration,
    ) {
        self.shared.add_handler(handler.clone());
        spawn_resync(&self.tasks, &self.shared, handler, period);
    }

    /// Whether the first list is delivered to all handlers that were there at the time.
    pub fn has_synced(&self) -> bool {
        self.shared.has_synced()
    }

    pub async fn wait_for_sync(&self) {
        self.shared.synced().wait().await;
    }
}

impl MetadataInformer {
    pub fn add_event_handler(&self, handler: Arc<dyn EventHandler<Meta>>) {
        self.shared.add_handler(handler);
    }

    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Meta>> {
        self.shared.indexer.get(key)
    }

    /// Sorted by key.
    pub fn list(&self) -> Vec<Arc<Meta>> {
        self.shared.indexer.list()
    }

    pub fn list_namespace(&self, namespace: &str) -> Vec<Arc<Meta>> {
        self.shared.indexer.list_namespace(namespace)
    }

    /// Whether the namespace has any object, without making the list.
    pub fn has_namespace(&self, namespace: &str) -> bool {
        self.shared.indexer.has_namespace(namespace)
    }

    pub fn has_synced(&self) -> bool {
        self.shared.has_synced()
    }

    /// Returns when the first list is delivered, or when the informer is forgotten.
    pub async fn wait_for_sync(&self) {
        let shutdown = self.tasks.shutdown_signal();
        let synced = self.shared.synced();
        tokio::select! {
            biased;
            () = synced.wait() => {}
            () = shutdown.cancelled() => {}
        }
    }
}
