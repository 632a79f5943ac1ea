//! Every object in memory, fed by one watch of the store, event by event, in order.
//!
//! Promises: a read that waited for revision N sees every write up to N; observers (RBAC rules, served kinds,
//! allocators) have seen a change before any reader can wait for it; a slow watcher is cut off and never
//! holds up the feed. The store puts the resourceVersion into its values, so that it and this cache share one copy of
//! each object, which is what clients are sent: see ADR 6.

mod bytes;
mod change;
mod reached;
mod resource;
mod selection;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use ::bytes::Bytes;
use api::{ApiObject, Kind, Meta, Stored};
use apimachinery::{ApiError, GroupResource, ObjectKey, Reason};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kvstore::{KeyRange, KeyValue, RangeRequest, Revision, Store, Watch, Write};
use lifecycle::Shutdown;

pub use change::{Change, Event, frame, kind_name, protobuf_frame};
pub use resource::{Subscription, TooOld};
pub use selection::Selection;

pub(crate) use bytes::{with_api_version, with_version};

use bytes::{Unstamped, served};

use crate::registry::{Kinds, Registry};
use reached::Reached;
use resource::Resource;

pub(crate) const ROOT: &str = "/registry/";
/// How long a read waits for a revision that this server has not seen yet.
const WAIT_MAX: Duration = Duration::from_secs(3);
/// How many revisions before the last one are read back at start.
const RECALL_MAX: u64 = 2_048;

/// Told of every change, in order, before readers may rely on it. Must not wait.
pub(crate) trait Observer: Send + Sync {
    fn observe(&self, resource: &GroupResource, change: &Change);
}

pub struct Cache {
    store: Arc<dyn Store>,
    registry: Arc<Registry>,
    state: Mutex<State>,
    /// Everything up to this revision has been applied, observers included.
    reached: Reached,
    /// Writes on their way, by key: the writer already knows what lists and watches filter by, so that the feed need not
    /// decode the object again.
    prepared: Mutex<HashMap<Bytes, Vec<Arc<Prepared>>>>,
    observers: OnceLock<Vec<Arc<dyn Observer>>>,
}

#[derive(Default)]
struct State {
    revision: u64,
    /// Changes up to here were never seen: a resource that is first met later has forgotten them.
    horizon: u64,
    /// The feed ended: there is nothing more to watch.
    is_over: bool,
    resources: BTreeMap<String, Resource>,
}

/// One write on its way to the store and back through the feed.
pub(crate) struct Prepared {
    key: Bytes,
    unstamped: Unstamped,
    meta: Meta,
    result: OnceLock<Arc<Stored>>,
}

impl Prepared {
    pub(crate) fn result(&self) -> Option<Arc<Stored>> {
        self.result.get().cloned()
    }

    /// The object as it would be stored at `revision`.
    pub(crate) fn at(&self, revision: u64) -> Arc<Stored> {
        self.with_bytes(self.unstamped.stamped(revision), revision)
    }

    fn with_bytes(&self, bytes: Bytes, revision: u64) -> Arc<Stored> {
        let meta = Meta { resource_version: revision, ..self.meta.clone() };
        Arc::new(Stored::new(meta, bytes))
    }

    pub(crate) fn write(&self) -> Write {
        let Unstamped { value, at } = &self.unstamped;
        Write::PutStamped { key: self.key.clone(), value: value.clone(), at: *at }
    }
}

impl Cache {
    pub(crate) fn new(store: Arc<dyn Store>, registry: Arc<Registry>) -> Self {
        Self {
            store,
            registry,
            state: Mutex::default(),
            reached: Reached::default(),
            prepared: Mutex::default(),
            observers: OnceLock::new(),
        }
    }

    /// Called once, before `load`.
    pub(crate) fn set_observers(&self, observers: Vec<Arc<dyn Observer>>) {
        let _ = self.observers.set(observers);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads everything; returns the watch that goes on from there.
    pub(crate) async fn load(&self) -> Result<Box<dyn Watch>, kvstore::Error> {
        let range = KeyRange::prefix(ROOT.as_bytes());
        let all =
            self.store.range(RangeRequest { range: range.clone(), at: None, limit: 0 }).await?;
        let definitions = format!("{ROOT}apiextensions.k8s.io/customresourcedefinitions/");
        // Definitions first: they say what the other keys mean.
        let (first, rest): (Vec<_>, Vec<_>) =
            all.entries.into_iter().partition(|it| it.key.starts_with(definitions.as_bytes()));
        for entry in first.into_iter().chain(rest) {
            self.load_entry(&entry, all.revision.0);
        }
        let horizon = self.recall(&range, all.revision).await?;
        self.start_at(all.revision.0, horizon);
        self.reached.advance(all.revision.0);
        self.store.watch(range, Some(all.revision)).await
    }

    fn start_at(&self, revision: u64, horizon: u64) {
        let mut state = self.state();
        state.revision = revision;
        state.horizon = horizon;
    }

    /// Reads the last changes back from the store, so that watches from before a restart go on without a relist. Returns
    /// the revision after which every change is known.
    async fn recall(&self, range: &KeyRange, now: Revision) -> Result<u64, kvstore::Error> {
        let since = Revision(now.0.saturating_sub(RECALL_MAX)).max(self.store.oldest());
        for resource in self.state().resources.values_mut() {
            resource.forget_through(since.0);
        }
        let mut reached = since;
        let mut feed = self.store.watch(range.clone(), Some(since)).await?;
        while reached < now {
            let batch = feed.next().await?;
            for event in batch.events.iter().filter(|it| it.revision <= now) {
                self.recall_event(event, since.0);
            }
            reached = batch.revision;
        }
        Ok(since.0)
    }

    fn recall_event(&self, event: &kvstore::Event, since: u64) {
        let kinds = self.registry.kinds();
        let Some((prefix, kind, path)) = locate(&kinds, &event.key) else { return };
        let read = |entry: &Option<KeyValue>| {
            entry.as_ref().and_then(|it| decode(kind.as_ref(), path, it))
        };
        let change = Change::new(read(&event.value), read(&event.previous), event.revision.0);
        let mut state = self.state();
        let resource =
            state.resources.entry(prefix.to_owned()).or_insert_with(|| Resource::new(since));
        resource.remember(Arc::new(change));
    }

    fn load_entry(&self, entry: &KeyValue, revision: u64) {
        let kinds = self.registry.kinds();
        let Some((prefix, kind, path)) = locate(&kinds, &entry.key) else {
            tracing::warn!(key = %String::from_utf8_lossy(&entry.key), "no kind is stored under this key");
            return;
        };
        let Some(object) = decode(kind.as_ref(), path, entry) else { return };
        let resource = kind.names().group_resource();
        let change = Change::new(Some(object.clone()), None, entry.mod_revision.0);
        self.state()
            .resources
            .entry(prefix.to_owned())
            .or_insert_with(|| Resource::new(revision))
            .load(path.to_owned(), object);
        self.tell(&resource, &change);
    }

    fn tell(&self, resource: &GroupResource, change: &Change) {
        for observer in self.observers.get().into_iter().flatten() {
            observer.observe(resource, change);
        }
    }

    /// Follows the store until shutdown.
    pub(crate) async fn run(self: Arc<Self>, mut feed: Box<dyn Watch>, shutdown: Shutdown) {
        loop {
            let batch = tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                batch = feed.next() => batch,
            };
            match batch {
                Ok(batch) => {
                    for event in &batch.events {
                        self.apply(event);
                    }
                    self.state().revision = batch.revision.0;
                    self.reached.advance(batch.revision.0);
                }
                Err(err) => {
                    tracing::error!(error = %stdx::error_chain(&err), "the store's watch ended");
                    break;
                }
            }
        }
        self.end_watches();
    }

    pub(crate) fn end_watches(&self) {
        let mut state = self.state();
        state.is_over = true;
        for resource in state.resources.values_mut() {
            resource.end_watches();
        }
    }

    fn apply(&self, event: &kvstore::Event) {
        let kinds = self.registry.kinds();
        let Some((prefix, kind, path)) = locate(&kinds, &event.key) else { return };
        let object = event.value.as_ref().and_then(|it| self.admit(kind.as_ref(), path, it));
        let change = {
            let mut state = self.state();
            let horizon = state.horizon;
            let resource =
                state.resources.entry(prefix.to_owned()).or_insert_with(|| Resource::new(horizon));
            resource.apply(path, object, event.revision.0)
        };
        if let Some(change) = change {
            self.tell(&kind.names().group_resource(), &change);
        }
    }

    /// The stored form of a new value: made by the writer, or decoded.
    fn admit(&self, kind: &dyn Kind, path: &str, entry: &KeyValue) -> Option<Arc<Stored>> {
        let revision = entry.mod_revision.0;
        let writers = self.prepared().get(&entry.key).cloned().unwrap_or_default();
        match writers.into_iter().find(|it| it.unstamped.is(&entry.value, revision)) {
            Some(prepared) => {
                let object = prepared.with_bytes(entry.value.clone(), revision);
                let _ = prepared.result.set(object.clone());
                Some(object)
            }
            None => decode(kind, path, entry),
        }
    }

    fn prepared(&self) -> MutexGuard<'_, HashMap<Bytes, Vec<Arc<Prepared>>>> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Announces a write, so that the feed need not decode it. `forget` must follow.
    pub(crate) fn prepare(
        &self,
        kind: &dyn Kind,
        key: Bytes,
        object: &dyn ApiObject,
    ) -> Arc<Prepared> {
        let prepared = Arc::new(Prepared {
            key: key.clone(),
            meta: meta_of(kind, object),
            unstamped: unstamped(&stored_form(kind, object)),
            result: OnceLock::new(),
        });
        self.prepared().entry(key).or_default().push(prepared.clone());
        prepared
    }

    pub(crate) fn forget(&self, prepared: &Arc<Prepared>) {
        let mut all = self.prepared();
        let Some(writers) = all.get_mut(&prepared.key) else { return };
        writers.retain(|it| !Arc::ptr_eq(it, prepared));
        if writers.is_empty() {
            all.remove(&prepared.key);
        }
    }

    /// The newest revision applied here.
    pub fn revision(&self) -> u64 {
        self.reached.revision()
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Waits until everything committed before this call is visible.
    pub async fn wait_current(&self) -> Result<u64, ApiError> {
        let current = self.store.revision().0;
        self.wait_for(current).await?;
        Ok(current)
    }

    /// Waits until revision `wanted` is visible; 504 after three seconds.
    pub async fn wait_for(&self, wanted: u64) -> Result<(), ApiError> {
        if self.reached.revision() >= wanted {
            return Ok(());
        }
        match tokio::time::timeout(WAIT_MAX, self.reached.wait(wanted)).await {
            Ok(()) => Ok(()),
            Err(_) => Err(too_large(wanted, self.revision())),
        }
    }

    pub fn get(&self, kind: &dyn Kind, path: &str) -> Option<Arc<Stored>> {
        self.state().resources.get(&kind.registry_prefix())?.get(path).cloned()
    }

    /// Objects from `from` on, in order, and the revision of the state they are from. `changed` is the revision of
    /// the resource's last change: between the two, the state is the same.
    pub fn snapshot(&self, kind: &dyn Kind, namespace: Option<&str>, from: &str) -> Snapshot {
        let state = self.state();
        let resource = state.resources.get(&kind.registry_prefix());
        Snapshot {
            objects: resource
                .into_iter()
                .flat_map(|it| it.range(namespace, from))
                .map(|(_, object)| object.clone())
                .collect(),
            changed: resource.map_or(0, Resource::changed),
            revision: state.revision,
        }
    }

    /// Events after `since`.
    pub fn subscribe(
        &self,
        kind: &dyn Kind,
        selection: Selection,
        since: u64,
    ) -> Result<Subscription, TooOld> {
        let mut state = self.state();
        let subscription = state.resource(kind).subscribe(selection, since)?;
        state.end_if_over(kind);
        Ok(subscription)
    }

    /// The selected objects now, the revision of that state, and everything after it.
    pub fn snapshot_and_subscribe(
        &self,
        kind: &dyn Kind,
        selection: Selection,
    ) -> (Vec<Arc<Stored>>, u64, Subscription) {
        let mut state = self.state();
        // A batch is applied event by event: what is newer than the last whole batch counts as well.
        let revision = state.revision.max(state.resource(kind).changed());
        let resource = state.resource(kind);
        let objects = resource
            .range(selection.namespace.as_deref(), "")
            .filter(|(_, it)| selection.matches(&it.meta))
            .map(|(_, it)| it.clone())
            .collect();
        let subscription =
            resource.subscribe(selection, revision).expect("the present is never forgotten");
        state.end_if_over(kind);
        (objects, revision, subscription)
    }

    /// Ends the watches of a kind that is no longer served.
    pub(crate) fn end_watches_of(&self, kind: &dyn Kind) {
        if let Some(resource) = self.state().resources.get_mut(&kind.registry_prefix()) {
            resource.end_watches();
        }
    }

    /// The objects of a kind as they were at `revision`, read from the store.
    pub(crate) async fn history(
        &self,
        kind: &dyn Kind,
        range: KeyRange,
        revision: u64,
    ) -> Result<Vec<Arc<Stored>>, kvstore::Error> {
        let request = RangeRequest { range, at: Some(Revision(revision)), limit: 0 };
        let kinds = self.registry.kinds();
        let entries = self.store.range(request).await?.entries;
        let decode_entry = |entry: &KeyValue| {
            let (_, _, path) = locate(&kinds, &entry.key)?;
            decode(kind, path, entry)
        };
        Ok(entries.iter().filter_map(decode_entry).collect())
    }
}

/// What `snapshot` found.
pub struct Snapshot {
    pub objects: Vec<Arc<Stored>>,
    pub changed: u64,
    pub revision: u64,
}

impl State {
    /// A watch that opens while the server stops has a start and an end.
    fn end_if_over(&mut self, kind: &dyn Kind) {
        if self.is_over {
            self.resource(kind).end_watches();
        }
    }

    fn resource(&mut self, kind: &dyn Kind) -> &mut Resource {
        let horizon = self.horizon;
        self.resources.entry(kind.registry_prefix()).or_insert_with(|| Resource::new(horizon))
    }
}

impl api::Lookup for Cache {
    fn find(&self, resource: &GroupResource, key: &ObjectKey) -> Option<Arc<Stored>> {
        let kinds = self.registry.kinds();
        let prefix = kinds.prefix_of(resource)?;
        self.state().resources.get(prefix)?.get(&path_of(&key.namespace, &key.name)).cloned()
    }

    fn list(&self, resource: &GroupResource, namespace: Option<&str>) -> Vec<Arc<Stored>> {
        let kinds = self.registry.kinds();
        let Some(prefix) = kinds.prefix_of(resource) else { return Vec::new() };
        let state = self.state();
        let objects = state.resources.get(prefix).into_iter();
        objects.flat_map(|it| it.range(namespace, "")).map(|(_, it)| it.clone()).collect()
    }
}

/// The bytes to store: in the version that the kind is stored in.
pub(crate) fn stored_form(kind: &dyn Kind, object: &dyn ApiObject) -> Bytes {
    let bytes = Bytes::from(object.encode());
    if !kind.is_custom() {
        return bytes;
    }
    let version = format!("{}/{}", kind.names().group, kind.storage_version());
    with_api_version(&bytes, &version).unwrap_or(bytes)
}

fn unstamped(json: &[u8]) -> Unstamped {
    Unstamped::new(json).expect("objects on their way to the store have metadata without a version")
}

/// Writes an object's JSON, which must have no resourceVersion.
pub(crate) fn put(key: Bytes, json: &[u8]) -> Write {
    let Unstamped { value, at } = unstamped(json);
    Write::PutStamped { key, value, at }
}

/// `namespace/name`, or `name` alone.
pub(crate) fn path_of(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

pub(crate) fn store_key(kind: &dyn Kind, path: &str) -> Bytes {
    Bytes::from(format!("{ROOT}{}/{path}", kind.registry_prefix()))
}

fn locate<'a, 'b>(
    kinds: &'a Kinds,
    key: &'b [u8],
) -> Option<(&'a str, &'a Arc<dyn Kind>, &'b str)> {
    kinds.locate(std::str::from_utf8(key).ok()?.strip_prefix(ROOT)?)
}

fn too_large(wanted: u64, current: u64) -> ApiError {
    ApiError::new(
        Reason::Timeout,
        format!("Timeout: Too large resource version: {wanted}, current: {current}"),
    )
    .with_cause("ResourceVersionTooLarge", "Too large resource version", "")
    .with_retry_after(1)
}

/// What everybody filters by, from the typed object.
fn meta_of(kind: &dyn Kind, object: &dyn ApiObject) -> Meta {
    let meta = object.meta();
    Meta {
        key: object.key(),
        uid: meta.uid.clone().unwrap_or_default(),
        resource_version: 0,
        labels: meta.labels.clone().unwrap_or_default(),
        owner_references: meta.owner_references.clone().unwrap_or_default(),
        finalizers: meta.finalizers.clone().unwrap_or_default(),
        is_deleting: meta.deletion_timestamp.is_some(),
        fields: kind.fields(object),
    }
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct LightMeta {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    owner_references: Option<Vec<OwnerReference>>,
    #[serde(default)]
    finalizers: Option<Vec<String>>,
    deletion_timestamp: Option<serde::de::IgnoredAny>,
}

#[derive(serde::Deserialize)]
struct Envelope {
    metadata: LightMeta,
}

/// The same from bytes; the whole object is decoded only if the kind has selectable fields.
fn decode(kind: &dyn Kind, path: &str, entry: &KeyValue) -> Option<Arc<Stored>> {
    match decode_meta(kind, path, &entry.value) {
        Ok(meta) => {
            let meta = Meta { resource_version: entry.mod_revision.0, ..meta };
            Some(Arc::new(Stored::new(meta, served(&entry.value, entry.mod_revision.0))))
        }
        Err(err) => {
            tracing::error!(key = %String::from_utf8_lossy(&entry.key), error = %err, "a stored object cannot be read");
            None
        }
    }
}

fn decode_meta(kind: &dyn Kind, path: &str, value: &[u8]) -> Result<Meta, serde_json::Error> {
    let metadata = serde_json::from_slice::<Envelope>(value)?.metadata;
    let (namespace, name) = path.split_once('/').unwrap_or(("", path));
    let fields = if kind.field_names().is_empty() {
        Vec::new()
    } else {
        kind.fields(kind.decode(value)?.as_ref())
    };
    Ok(Meta {
        key: ObjectKey::new(namespace, name),
        uid: metadata.uid,
        resource_version: 0,
        labels: metadata.labels.unwrap_or_default(),
        owner_references: metadata.owner_references.unwrap_or_default(),
        finalizers: metadata.finalizers.unwrap_or_default(),
        is_deleting: metadata.deletion_timestamp.is_some(),
        fields,
    })
}
