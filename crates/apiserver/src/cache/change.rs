//! One change of one object, as watchers see it. Everything derived from it (the deleted form, the
//! object in another version, the wire frames) is made once, by whoever needs it first, and shared
//! by all watchers. No lock is held while it is made: the object in another version may have to be
//! waited for.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use api::{Kind, Meta, Stored, protobuf};
use apimachinery::ApiError;
use bytes::Bytes;
use client::WatchEventKind;
use tokio::sync::OnceCell;

use super::selection::Selection;
use crate::faults;
use crate::registry::Family;
use crate::stored_bytes::replace_version;

/// Of one change: each change of a definition makes its kinds anew, and nobody asks for old ones for
/// long.
const SERVED_MAX: usize = 16;

pub struct Change {
    /// `None`: the object was deleted.
    pub object: Option<Arc<Stored>>,
    /// `None`: the object is new.
    pub previous: Option<Arc<Stored>>,
    pub revision: u64,
    /// By what the change is to the watcher: added, modified, deleted.
    seen: [OnceLock<Arc<Seen>>; 3],
    /// By the kind that it is served as, where that is not how it is stored.
    served: Mutex<Vec<Served>>,
}

/// What watchers of one version of a kind are sent, or why it cannot be had.
type Slot = Arc<OnceCell<Result<Arc<Seen>, ApiError>>>;

struct Served {
    kind: Arc<dyn Kind>,
    event: WatchEventKind,
    slot: Slot,
}

/// A change as one watcher sees it: what it is depends on the selection.
#[derive(Clone)]
pub struct Event {
    pub kind: WatchEventKind,
    pub change: Arc<Change>,
}

/// What watchers are sent of a change: the same for all that see it as the same, in the same
/// version.
pub struct Seen {
    pub kind: WatchEventKind,
    object: Arc<Stored>,
    json: OnceLock<Bytes>,
    /// Most changes have no watcher that wants them.
    protobuf: OnceLock<Bytes>,
    /// In JSON and in protobuf.
    metadata: [OnceLock<Bytes>; 2],
}

impl Change {
    pub(crate) fn new(
        object: Option<Arc<Stored>>,
        previous: Option<Arc<Stored>>,
        revision: u64,
    ) -> Self {
        Self { object, previous, revision, seen: Default::default(), served: Mutex::default() }
    }

    fn served(&self) -> MutexGuard<'_, Vec<Served>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest state there is of the object.
    pub fn latest(&self) -> &Arc<Stored> {
        self.object.as_ref().or(self.previous.as_ref()).expect("a change has an object")
    }

    /// The state before, at the revision of this change: what a DELETED event carries.
    fn tombstone(&self) -> Arc<Stored> {
        let last = self.previous.as_ref().expect("only what was there can go");
        let meta = Meta { resource_version: self.revision, ..Meta::clone(&last.meta) };
        Arc::new(Stored::new(meta, replace_version(&last.bytes, self.revision)))
    }

    /// What the change is to somebody who watches `selection`; `None` if nothing.
    pub(crate) fn seen_by(self: &Arc<Self>, selection: &Selection) -> Option<Event> {
        let is = self.object.as_ref().is_some_and(|it| selection.matches(&it.meta));
        let was = self.previous.as_ref().is_some_and(|it| selection.matches(&it.meta));
        let kind = match (was, is) {
            (false, true) => WatchEventKind::Added,
            (true, true) => WatchEventKind::Modified,
            (true, false) => WatchEventKind::Deleted,
            (false, false) => return None,
        };
        Some(Event { kind, change: self.clone() })
    }
}

impl Event {
    /// As it is stored.
    pub fn seen(&self) -> &Arc<Seen> {
        let slot = match self.kind {
            WatchEventKind::Added => 0,
            WatchEventKind::Modified => 1,
            _ => 2,
        };
        self.change.seen[slot].get_or_init(|| {
            let object = match self.kind {
                WatchEventKind::Deleted => self.change.tombstone(),
                _ => self.change.object.clone().expect("only deletions have no object"),
            };
            Arc::new(Seen::new(self.kind, object))
        })
    }

    /// As `kind` is served; nothing if that has to be waited for.
    pub(crate) fn seen_now(
        &self,
        kind: &Arc<dyn Kind>,
        family: &Family,
    ) -> Option<Result<Arc<Seen>, ApiError>> {
        let slot = self.slot(kind);
        if let Some(known) = slot.get() {
            return Some(known.clone());
        }
        let seen = self.seen();
        let served = family.serve_now(kind.as_ref(), &seen.object)?;
        // Somebody else may have made the same meanwhile.
        let _ = slot.set(served.map(|it| self.seen_with(it)));
        slot.get().cloned()
    }

    /// The same, with the time that it takes. Whoever comes first asks, and all others wait for the
    /// answer; if the first goes away, the next one asks.
    pub(crate) async fn seen_as(
        &self,
        kind: &Arc<dyn Kind>,
        family: &Family,
    ) -> Result<Arc<Seen>, ApiError> {
        let slot = self.slot(kind);
        let ask = || async {
            let object = self.seen().object.clone();
            let served = family.serve(kind.as_ref(), vec![object.clone()]).await?;
            Ok(self.seen_with(served.into_iter().next().unwrap_or(object)))
        };
        let seen = slot.get_or_init(ask).await.clone();
        if seen.is_err() {
            // All who waited have heard of it. Who comes again may have more luck.
            self.change.served().retain(|it| !Arc::ptr_eq(&it.slot, &slot));
        }
        seen
    }

    fn slot(&self, kind: &Arc<dyn Kind>) -> Slot {
        let mut served = self.change.served();
        let is_same = |it: &&Served| Arc::ptr_eq(&it.kind, kind) && it.event == self.kind;
        if let Some(known) = served.iter().find(is_same) {
            return known.slot.clone();
        }
        let slot = Slot::default();
        if served.len() >= SERVED_MAX {
            served.remove(0);
        }
        served.push(Served { kind: kind.clone(), event: self.kind, slot: slot.clone() });
        slot
    }

    fn seen_with(&self, object: Arc<Stored>) -> Arc<Seen> {
        let seen = self.seen();
        match Arc::ptr_eq(&object, &seen.object) {
            true => seen.clone(),
            false => Arc::new(Seen::new(self.kind, object)),
        }
    }
}

impl Seen {
    fn new(kind: WatchEventKind, object: Arc<Stored>) -> Self {
        let (json, protobuf, metadata) = Default::default();
        Self { kind, object, json, protobuf, metadata }
    }

    pub fn object(&self) -> &Arc<Stored> {
        &self.object
    }

    /// The JSON line of a watch response.
    pub fn frame(&self) -> Bytes {
        self.json.get_or_init(|| frame(self.kind, &self.object.bytes)).clone()
    }

    /// The frame of a watch response in protobuf.
    pub fn protobuf_frame(&self) -> Bytes {
        self.protobuf.get_or_init(|| protobuf_frame(self.kind, &self.object.bytes)).clone()
    }

    /// The frame of a watch for metadata alone, which `make` makes of the object.
    pub(crate) fn metadata_frame(
        &self,
        is_protobuf: bool,
        make: impl FnOnce(&Stored) -> Bytes,
    ) -> Bytes {
        self.metadata[usize::from(is_protobuf)].get_or_init(|| make(&self.object)).clone()
    }
}

pub fn frame(kind: WatchEventKind, object: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(object.len() + 40);
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(kind_name(kind).as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    line.extend_from_slice(object);
    line.extend_from_slice(b"}\n");
    Bytes::from(line)
}

/// What the table cannot express is an error to the watcher, which can then ask for JSON.
pub fn protobuf_frame(kind: WatchEventKind, object: &[u8]) -> Bytes {
    protobuf_frame_of(kind, protobuf::encode_object(object))
}

/// The same with the object as protobuf already.
pub(crate) fn protobuf_frame_of(
    kind: WatchEventKind,
    encoded: serde_json::Result<Vec<u8>>,
) -> Bytes {
    match encoded {
        Ok(object) => protobuf::encode_event(kind_name(kind), &object),
        Err(err) => {
            let error = inexpressible(err);
            faults::log(&error);
            let status = serde_json::to_vec(&error.to_status());
            let message = protobuf::message(protobuf::STATUS).expect("the table has Status");
            let status = status.and_then(|it| protobuf::encode(message, ("v1", "Status"), &it));
            protobuf::encode_event("ERROR", &status.unwrap_or_default())
        }
    }
    .into()
}

/// A stored object that the table cannot express.
pub(crate) fn inexpressible(err: serde_json::Error) -> ApiError {
    ApiError::internal("the object cannot be written as protobuf").with_source(err)
}

pub fn kind_name(kind: WatchEventKind) -> &'static str {
    match kind {
        WatchEventKind::Added => "ADDED",
        WatchEventKind::Modified => "MODIFIED",
        WatchEventKind::Deleted => "DELETED",
        WatchEventKind::Bookmark => "BOOKMARK",
    }
}
