//! Every object in memory, fed by one watch of the store, event by event, in order.
//!
//! Promises: a read that waited for revision N sees every write up to N; observers (RBAC rules,
//! served kinds, allocators) have seen a change before any watcher, and before any reader can wait
//! for it; a slow watcher is let go and never holds up the feed, nor does a long list. What is read
//! of a resource is its state at one revision; there is a lock for each (ADR 16). The store puts
//! the resourceVersion into its values, so that it and this cache share one copy of each object,
//! which is what clients are sent: see ADR 6. (An engine that cannot do so gives them without, and
//! values of another encoding have none: then the copy here is the only one.)

mod change;
mod collection;
mod feed;
mod history;
mod past;
mod path;
mod reached;
mod selection;
mod tree;
mod watchers;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use api::{ApiObject, Kind, Meta, Pairs, Stored};
use apimachinery::schema::Absent;
use apimachinery::{ApiError, GroupResource, ObjectKey, Reason};
use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kvstore::{KeyRange, KeyValue, Op, RangeRequest, Revision, Store};
use tokio::sync::Notify;

pub use change::{Change, Event, Seen, frame, kind_name, protobuf_frame};
pub(crate) use change::{inexpressible, protobuf_frame_of};
pub use collection::Subscription;
pub use history::TooOld;
pub use selection::Selection;

pub(crate) use past::Past;
pub(crate) use path::{ObjectPath, store_key, validate_segment};

use crate::encoding::{self, Encoding, Incoming, Outgoing};
use crate::registry::{Kinds, Registry};
use crate::stored_bytes::{served, with_version};
use collection::{Collection, State};
use reached::Reached;

pub(crate) const ROOT: &str = "/registry/";
/// Below the root: how API servers over one etcd know of each other. Nothing that is served.
pub(crate) const MASTER_LEASES: &str = "masterleases/";
/// Below the root: what upstream's servers have given out of ranges. Nothing that is served.
pub(crate) const RANGES: &str = "ranges/";
/// Below the root: which Nodes were deleted, by name. Nothing that is served.
pub(crate) const DELETED_NODES: &str = "deletednodes/";
/// How long a read waits for a revision that this server has not seen yet.
const WAIT_MAX: Duration = Duration::from_secs(3);
/// As upstream's health check of etcd.
const STATUS_MAX: Duration = Duration::from_secs(2);

/// Told of every change, in order, before readers may rely on it. Must not wait.
///
/// Custom resources are told of apart, so that nobody believes them who does not mean them:
/// whatever they are called, and whatever they say, they are no roles, services or definitions.
pub(crate) trait Observer: Send + Sync {
    /// A change of an object of a built-in kind.
    fn observe(&self, resource: &GroupResource, change: &Change);

    /// A change of a custom resource.
    fn observe_custom(&self, _resource: &GroupResource, _change: &Change) {}

    /// What is no object, and followed all the same: what is taken of a range, as upstream's servers
    /// keep it, and Nodes that were deleted. Its key below the root, and its value with the revision
    /// that it was written at.
    fn observe_other(&self, _key: &str, _value: Option<(&Bytes, u64)>) {}
}

pub struct Cache {
    store: Arc<dyn Store>,
    registry: Arc<Registry>,
    encoding: Encoding,
    /// By prefix. Resources come, and never go.
    resources: RwLock<BTreeMap<String, Arc<Collection>>>,
    /// Changes up to here were never seen: a resource that is first met later has forgotten them.
    horizon: AtomicU64,
    /// The feed ended: there is nothing more to watch.
    is_over: AtomicBool,
    /// Everything up to this revision has been applied, observers included.
    reached: Reached,
    /// Writes on their way, by key: the writer already knows what lists and watches filter by, so
    /// that the feed need not decode the object again.
    prepared: Mutex<HashMap<Bytes, Vec<Arc<Prepared>>>>,
    observers: OnceLock<Vec<Arc<dyn Observer>>>,
    /// Somebody waits for a revision that the feed has not told of.
    progress_wanted: Notify,
    /// Whether the feed is open.
    is_following: AtomicBool,
    /// Exact reads of this revision and older ones are refused, whatever the store still has.
    expired: AtomicU64,
}

/// One write on its way to the store and back through the feed.
pub(crate) struct Prepared {
    key: Bytes,
    object: Outgoing,
    meta: Meta,
    result: OnceLock<Arc<Stored>>,
}

impl Prepared {
    pub(crate) fn result(&self) -> Option<Arc<Stored>> {
        self.result.get().cloned()
    }

    /// The object as it would be stored at `revision`.
    pub(crate) fn at(&self, revision: u64) -> Arc<Stored> {
        self.with_bytes(self.object.at(revision), revision)
    }

    fn with_bytes(&self, bytes: Bytes, revision: u64) -> Arc<Stored> {
        let meta = Meta { resource_version: revision, ..self.meta.clone() };
        Arc::new(Stored::new(meta, bytes))
    }

    pub(crate) fn write(&self) -> Op {
        self.object.put(self.key.clone())
    }

    pub(crate) fn is_too_large(&self, kind: &dyn Kind) -> bool {
        self.object.is_too_large(kind)
    }
}

/// A write that the cache waits for, until this is dropped: also when whoever asked for it has gone
/// away meanwhile.
pub(crate) struct Announced<'a> {
    cache: &'a Cache,
    prepared: Arc<Prepared>,
}

impl std::ops::Deref for Announced<'_> {
    type Target = Prepared;

    fn deref(&self) -> &Prepared {
        &self.prepared
    }
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        self.cache.forget(&self.prepared);
    }
}

impl Cache {
    pub(crate) fn new(store: Arc<dyn Store>, registry: Arc<Registry>, encoding: Encoding) -> Self {
        Self {
            store,
            registry,
            encoding,
            resources: RwLock::default(),
            horizon: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            reached: Reached::default(),
            prepared: Mutex::default(),
            observers: OnceLock::new(),
            progress_wanted: Notify::new(),
            is_following: AtomicBool::new(false),
            expired: AtomicU64::new(0),
        }
    }

    /// Called once, before `load`.
    pub(crate) fn set_observers(&self, observers: Vec<Arc<dyn Observer>>) {
        let _ = self.observers.set(observers);
    }

    fn known(&self, prefix: &str) -> Option<Arc<Collection>> {
        let resources = self.resources.read().unwrap_or_else(PoisonError::into_inner);
        resources.get(prefix).cloned()
    }

    fn resource(&self, prefix: &str) -> Arc<Collection> {
        self.known(prefix).unwrap_or_else(|| {
            let mut resources = self.resources.write().unwrap_or_else(PoisonError::into_inner);
            let new = || Arc::new(Collection::new(self.horizon.load(Ordering::Relaxed)));
            resources.entry(prefix.to_owned()).or_insert_with(new).clone()
        })
    }

    /// By prefix.
    fn all_resources(&self) -> Vec<(String, Arc<Collection>)> {
        let resources = self.resources.read().unwrap_or_else(PoisonError::into_inner);
        resources.iter().map(|(prefix, it)| (prefix.clone(), it.clone())).collect()
    }

    fn tell(&self, kind: &dyn Kind, change: &Change) {
        let resource = kind.names().group_resource();
        for observer in self.observers.get().into_iter().flatten() {
            if kind.is_custom() {
                observer.observe_custom(&resource, change);
            } else {
                observer.observe(&resource, change);
            }
        }
    }

    fn tell_other(&self, key: &str, entry: Option<&KeyValue>) {
        let value = entry.map(|it| (&it.value, it.mod_revision.0));
        for observer in self.observers.get().into_iter().flatten() {
            observer.observe_other(key, value);
        }
    }

    pub(crate) fn end_watches(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        for (_, resource) in self.all_resources() {
            resource.end_watches();
        }
    }

    /// Everything that one revision changed: each resource at once.
    fn apply(&self, transaction: &[kvstore::Event]) {
        let kinds = self.registry.kinds();
        let mut touched: Vec<Touched<'_>> = Vec::with_capacity(1);
        for event in transaction {
            let Some((prefix, kind, path)) = locate(&kinds, &event.key) else {
                if let Some(key) = other_of(&event.key) {
                    self.tell_other(key, event.value.as_ref());
                }
                continue;
            };
            let object = event.value.as_ref().and_then(|it| self.admit(kind.as_ref(), path, it));
            match touched.iter_mut().find(|it| it.prefix == prefix) {
                Some(resource) => resource.objects.push((path, object)),
                None => touched.push(Touched { prefix, kind, objects: vec![(path, object)] }),
            }
        }
        let revision = transaction.first().map_or(0, |it| it.revision.0);
        for Touched { prefix, kind, objects } in touched {
            let resource = self.resource(prefix);
            let changes = resource.apply(objects, revision);
            for change in &changes {
                self.tell(kind.as_ref(), change);
            }
            resource.offer(&changes);
        }
    }

    /// The stored form of a new value: made by the writer, or decoded.
    fn admit(&self, kind: &dyn Kind, path: &str, entry: &KeyValue) -> Option<Arc<Stored>> {
        let writers = self.prepared().get(&entry.key).cloned().unwrap_or_default();
        let written = writers.iter().find_map(|it| Some((it, it.object.served_at(entry)?)));
        match written {
            Some((prepared, bytes)) => {
                let object = prepared.with_bytes(bytes, entry.mod_revision.0);
                let _ = prepared.result.set(object.clone());
                Some(object)
            }
            None => self.decode(kind, path, entry),
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
        (object, json): (&dyn ApiObject, &Bytes),
    ) -> Announced<'_> {
        let prepared = Arc::new(Prepared {
            meta: Meta { key: key_in(kind, &key), ..meta_of(kind, object) },
            key: key.clone(),
            object: self.encoding.write(kind, json.clone()),
            result: OnceLock::new(),
        });
        self.prepared().entry(key).or_default().push(prepared.clone());
        Announced { cache: self, prepared }
    }

    fn forget(&self, prepared: &Arc<Prepared>) {
        let mut all = self.prepared();
        let Some(writers) = all.get_mut(&prepared.key) else { return };
        writers.retain(|it| !Arc::ptr_eq(it, prepared));
        if writers.is_empty() {
            all.remove(&prepared.key);
        }
    }

    /// Writes an object, which must have no resourceVersion, without announcing it.
    pub(crate) fn put(&self, kind: &dyn Kind, key: Bytes, object: &dyn ApiObject) -> Op {
        self.encoding.write(kind, object.encode().into()).put(key)
    }

    /// The object as it will be read back from the store, where that is not as it is.
    pub(crate) fn settle(
        &self,
        kind: &dyn Kind,
        object: &dyn ApiObject,
    ) -> Option<Box<dyn ApiObject>> {
        self.encoding.settle(kind, object)
    }

    /// The newest revision applied here.
    pub fn revision(&self) -> u64 {
        self.reached.revision()
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Waits until everything committed before this call, by whichever server, is visible.
    pub async fn wait_current(&self) -> Result<u64, ApiError> {
        let seen = self.reached.revision();
        let current = match tokio::time::timeout(WAIT_MAX, self.store.current()).await {
            Ok(current) => current.map_err(|err| refusal(&err))?.0,
            Err(_) => return Err(no_answer()),
        };
        if current < seen {
            let why =
                format!("it was at revision {seen}, and is at {current}: restart this server");
            return Err(ApiError::internal("the store has gone back").with_source(why));
        }
        if self.reached.revision() < current {
            // The last write may have been to keys that the feed does not watch.
            self.progress_wanted.notify_one();
        }
        self.wait_for(current).await?;
        Ok(current)
    }

    /// Why the store cannot be relied on now, if it cannot.
    pub(crate) async fn trouble(&self) -> Option<String> {
        if !self.is_following.load(Ordering::Relaxed) {
            return Some("the store's changes cannot be followed".to_owned());
        }
        match tokio::time::timeout(STATUS_MAX, self.store.status()).await {
            Ok(Ok(status)) => status.read_only.map(|it| format!("the store is read-only: {it}")),
            Ok(Err(err)) => Some(stdx::error_chain(&err).to_string()),
            Err(_) => Some("the store does not answer".to_owned()),
        }
    }

    pub(crate) fn is_expired(&self, revision: u64) -> bool {
        revision <= self.expired.load(Ordering::Relaxed)
    }

    pub(crate) fn expire_through(&self, revision: u64) {
        self.expired.fetch_max(revision, Ordering::Relaxed);
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

    /// How many objects of a kind there are.
    pub(crate) fn count(&self, kind: &dyn Kind) -> usize {
        self.known(&kind.registry_prefix()).map_or(0, |it| it.len())
    }

    /// What is served now.
    pub(crate) fn kinds(&self) -> Arc<Kinds> {
        self.registry.kinds()
    }

    pub(crate) fn get(&self, kind: &dyn Kind, path: &ObjectPath) -> Option<Arc<Stored>> {
        self.known(&kind.registry_prefix())?.get(path.as_str())
    }

    /// The state of a resource and the revision that it is the state of. Nobody waits while it is
    /// read.
    fn state_of(&self, prefix: &str) -> (State, u64) {
        // Read first: everything up to it is in the state. What of the next batch is there already
        // counts as well.
        let revision = self.revision();
        let state = self.resource(prefix).state();
        let revision = revision.max(state.changed);
        (state, revision)
    }

    /// Objects from `from` on, in order, and the revision of the state they are from. `changed` is
    /// the revision of the resource's last change: between the two, the state is the same.
    pub fn snapshot(&self, kind: &dyn Kind, namespace: Option<&str>, from: &str) -> Snapshot {
        let (state, revision) = self.state_of(&kind.registry_prefix());
        let objects = state.objects.range(namespace, from).cloned().collect();
        Snapshot { objects, changed: state.changed, revision }
    }

    /// Events after `since`.
    pub fn subscribe(
        &self,
        kind: &dyn Kind,
        selection: Selection,
        since: u64,
    ) -> Result<Subscription, TooOld> {
        self.subscribe_unless_ended(kind, selection, since, None)
    }

    fn subscribe_unless_ended(
        &self,
        kind: &dyn Kind,
        selection: Selection,
        since: u64,
        n_ends: Option<u64>,
    ) -> Result<Subscription, TooOld> {
        let resource = self.resource(&kind.registry_prefix());
        let subscription = resource.subscribe(selection, since, n_ends)?;
        // A watch that opens while the server stops has a start and an end.
        if self.is_over.load(Ordering::SeqCst) {
            resource.end_watches();
        }
        Ok(subscription)
    }

    /// The selected objects now, from which a watch can go on.
    pub fn select(&self, kind: &dyn Kind, selection: &Selection) -> Selected {
        let (state, revision) = self.state_of(&kind.registry_prefix());
        let is_selected = |it: &&Arc<Stored>| selection.matches(&it.meta);
        // Many watch one object, by its name.
        let objects = match selection.only_path(kind) {
            Some(path) => {
                state.objects.get(&path).filter(is_selected).into_iter().cloned().collect()
            }
            None => {
                let range = state.objects.range(selection.namespace.as_deref(), "");
                range.filter(is_selected).cloned().collect()
            }
        };
        Selected { objects, revision, n_ends: state.n_ends }
    }

    /// Events after what `select` found. Its objects can have been sent meanwhile, so that a slow
    /// client is not behind before it has begun.
    pub fn go_on(
        &self,
        kind: &dyn Kind,
        selection: Selection,
        from: &Selected,
    ) -> Result<Subscription, TooOld> {
        self.subscribe_unless_ended(kind, selection, from.revision, Some(from.n_ends))
    }

    /// Ends the watches of a kind that is no longer served.
    pub(crate) fn end_watches_of(&self, kind: &dyn Kind) {
        if let Some(resource) = self.known(&kind.registry_prefix()) {
            resource.end_watches();
        }
    }

    /// Reads anew what objects of a kind are selected by: its definition has changed.
    pub(crate) fn reread(&self, kind: &dyn Kind) {
        let Some(resource) = self.known(&kind.registry_prefix()) else { return };
        if !kind.has_fields() {
            return;
        }
        resource.reread(|object| {
            let fields = fields_of(kind, &object.bytes).ok();
            let fields = fields.filter(|now| *now != object.meta.fields)?;
            let meta = Meta { fields, ..Meta::clone(&object.meta) };
            Some(Arc::new(Stored::new(meta, object.bytes.clone())))
        });
    }

    /// The objects of a kind as they were at `revision`, read from the store.
    pub(crate) async fn history(
        &self,
        kind: &dyn Kind,
        range: KeyRange,
        revision: u64,
    ) -> Result<Vec<Arc<Stored>>, kvstore::Error> {
        let request = RangeRequest::latest(range).at(Revision(revision));
        let kinds = self.registry.kinds();
        let entries = self.store.range(request).await?.entries;
        let decode_entry = |entry: &KeyValue| {
            let (_, _, path) = locate(&kinds, &entry.key)?;
            self.decode(kind, path, entry)
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

/// What `select` found.
pub struct Selected {
    pub objects: Vec<Arc<Stored>>,
    pub revision: u64,
    /// How often all watches of the resource had been ended.
    n_ends: u64,
}

/// What one revision changed of one resource: paths, and the objects that are there now.
struct Touched<'a> {
    prefix: &'a str,
    kind: &'a Arc<dyn Kind>,
    objects: Vec<(&'a str, Option<Arc<Stored>>)>,
}

impl api::Lookup for Cache {
    fn find(&self, resource: &GroupResource, key: &ObjectKey) -> Option<Arc<Stored>> {
        let kinds = self.registry.kinds();
        let kind = kinds.stored_at(kinds.prefix_of(resource)?)?;
        let path = ObjectPath::of(kind.as_ref(), &key.namespace, &key.name).ok()?;
        self.get(kind.as_ref(), &path)
    }

    fn list(&self, resource: &GroupResource, namespace: Option<&str>) -> Vec<Arc<Stored>> {
        let kinds = self.registry.kinds();
        let Some(prefix) = kinds.prefix_of(resource) else { return Vec::new() };
        let (state, _) = self.state_of(prefix);
        state.objects.range(namespace, "").cloned().collect()
    }
}

fn locate<'a, 'b>(
    kinds: &'a Kinds,
    key: &'b [u8],
) -> Option<(&'a str, &'a Arc<dyn Kind>, &'b str)> {
    kinds.locate(std::str::from_utf8(key).ok()?.strip_prefix(ROOT)?)
}

/// The key of what is no object and followed all the same, below the root.
fn other_of(key: &[u8]) -> Option<&str> {
    let key = std::str::from_utf8(key).ok()?.strip_prefix(ROOT)?;
    [RANGES, DELETED_NODES].iter().any(|it| key.starts_with(it)).then_some(key)
}

fn no_answer() -> ApiError {
    ApiError::new(Reason::Timeout, "Timeout: the store does not answer").with_retry_after(1)
}

/// What a client can be told of a disk: words of the kernel's that somebody can act on, and that tell
/// of no place.
const DISK_ERRORS: &[&str] = &[
    "No space left on device",
    "Disk quota exceeded",
    "Read-only file system",
    "Input/output error",
];

/// What a client is told, by what it can do about it.
pub(crate) fn refusal(err: &kvstore::Error) -> ApiError {
    use kvstore::Error;
    let error = match err {
        Error::Compacted { .. } => return ApiError::expired(err.to_string()),
        Error::TooLarge { .. } => {
            return ApiError::new(Reason::RequestEntityTooLarge, err.to_string());
        }
        // Nothing was written, and it may take long: without a time to retry, clients show it at
        // once.
        Error::ReadOnly { why } => {
            let known = DISK_ERRORS.iter().find(|it| why.contains(**it));
            let why = known.map(|it| format!(": {it}")).unwrap_or_default();
            ApiError::new(Reason::ServiceUnavailable, format!("the store is read-only{why}"))
        }
        Error::Unavailable { .. } | Error::Closed => {
            let what = "the store cannot be reached";
            ApiError::new(Reason::ServiceUnavailable, what).with_retry_after(1)
        }
        Error::Uncertain { .. } => {
            let what = "Timeout: it is not known whether the write happened";
            ApiError::new(Reason::Timeout, what)
        }
        _ => ApiError::internal("the store failed"),
    };
    error.with_source(err.clone())
}

fn too_large(wanted: u64, current: u64) -> ApiError {
    ApiError::new(
        Reason::Timeout,
        format!("Timeout: Too large resource version: {wanted}, current: {current}"),
    )
    .with_cause("ResourceVersionTooLarge", "Too large resource version", "")
    .with_retry_after(1)
}

/// What the object at a path is called, whatever it says itself: what is found by its key is what
/// was put there.
fn key_at(path: &str) -> ObjectKey {
    let (namespace, name) = path.split_once('/').unwrap_or(("", path));
    ObjectKey::new(namespace, name)
}

/// The same for a key of the store.
fn key_in(kind: &dyn Kind, key: &[u8]) -> ObjectKey {
    let key = std::str::from_utf8(key).unwrap_or_default();
    let path = key.strip_prefix(ROOT).and_then(|it| it.strip_prefix(&kind.registry_prefix()));
    key_at(path.and_then(|it| it.strip_prefix('/')).unwrap_or_default())
}

/// What everybody filters by, from the typed object.
fn meta_of(kind: &dyn Kind, object: &dyn ApiObject) -> Meta {
    let meta = object.meta();
    Meta {
        key: object.key(),
        uid: meta.uid.clone().unwrap_or_default(),
        resource_version: 0,
        labels: meta.labels.iter().flatten().collect(),
        owner_references: meta.owner_references.clone().unwrap_or_default(),
        finalizers: meta.finalizers.clone().unwrap_or_default(),
        is_deleting: meta.deletion_timestamp.is_some(),
        is_outdated: false,
        fields: kind.fields(object).into(),
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

impl Cache {
    /// The stored form of a value that another wrote, or that was there at the start.
    fn decode(&self, kind: &dyn Kind, path: &str, entry: &KeyValue) -> Option<Arc<Stored>> {
        match self.try_decode(kind, path, entry) {
            Ok(object) => Some(Arc::new(object)),
            Err(err) => {
                let (key, error) = (String::from_utf8_lossy(&entry.key), stdx::error_chain(&err));
                tracing::error!(%key, %error, "a stored object cannot be read");
                None
            }
        }
    }

    fn try_decode(
        &self,
        kind: &dyn Kind,
        path: &str,
        entry: &KeyValue,
    ) -> Result<Stored, encoding::Error> {
        let revision = entry.mod_revision.0;
        let (meta, bytes) = match self.encoding.read(kind, &entry.value)? {
            Incoming::Json(json) => {
                let meta = decode_meta(kind, path, &json).map_err(encoding::Error::Json)?;
                (meta, served(&json, revision))
            }
            Incoming::Object(mut object) => {
                object.meta_mut().resource_version = None;
                let meta = Meta { key: key_at(path), ..meta_of(kind, object.as_ref()) };
                (meta, with_version(&object.encode(), revision))
            }
        };
        let is_outdated = self.encoding.is_outdated(kind, &entry.value);
        Ok(Stored::new(Meta { resource_version: revision, is_outdated, ..meta }, bytes))
    }
}

fn fields_of(kind: &dyn Kind, value: &[u8]) -> Result<Pairs, serde_json::Error> {
    Ok(match kind.has_fields() {
        false => Pairs::default(),
        true => kind.fields(kind.decode_any(value, Absent::FilledIn)?.as_ref()).into(),
    })
}

/// What everybody filters by, from bytes; the whole object is decoded only if the kind has
/// selectable fields.
fn decode_meta(kind: &dyn Kind, path: &str, value: &[u8]) -> Result<Meta, serde_json::Error> {
    let metadata = serde_json::from_slice::<Envelope>(value)?.metadata;
    let fields = fields_of(kind, value)?;
    Ok(Meta {
        key: key_at(path),
        uid: metadata.uid,
        resource_version: 0,
        labels: metadata.labels.unwrap_or_default().into(),
        owner_references: metadata.owner_references.unwrap_or_default(),
        finalizers: metadata.finalizers.unwrap_or_default(),
        is_deleting: metadata.deletion_timestamp.is_some(),
        is_outdated: false,
        fields,
    })
}
