//! One change of one object, as watchers see it. Everything derived from it (the deleted form, the wire
//! frames) is made once, by whoever needs it first, and shared by all watchers.

use std::sync::{Arc, OnceLock};

use api::{Meta, Stored, protobuf};
use apimachinery::ApiError;
use bytes::Bytes;
use client::WatchEventKind;

use super::selection::Selection;
use crate::stored_bytes::replace_version;

pub struct Change {
    /// `None`: the object was deleted.
    pub object: Option<Arc<Stored>>,
    /// `None`: the object is new.
    pub previous: Option<Arc<Stored>>,
    pub revision: u64,
    tombstone: OnceLock<Arc<Stored>>,
    frames: Frames,
    /// Most changes have no watcher that wants them.
    protobuf_frames: OnceLock<Box<Frames>>,
}

/// By what the change is to the watcher: added, modified, deleted.
type Frames = [OnceLock<Bytes>; 3];

/// A change as one watcher sees it: what it is depends on the selection.
#[derive(Clone)]
pub struct Event {
    pub kind: WatchEventKind,
    pub change: Arc<Change>,
}

impl Change {
    pub(crate) fn new(
        object: Option<Arc<Stored>>,
        previous: Option<Arc<Stored>>,
        revision: u64,
    ) -> Self {
        Self {
            object,
            previous,
            revision,
            tombstone: OnceLock::new(),
            frames: Frames::default(),
            protobuf_frames: OnceLock::new(),
        }
    }

    /// The newest state there is of the object.
    pub fn latest(&self) -> &Arc<Stored> {
        self.object.as_ref().or(self.previous.as_ref()).expect("a change has an object")
    }

    /// The state before, at the revision of this change: what a DELETED event carries.
    fn tombstone(&self) -> &Arc<Stored> {
        self.tombstone.get_or_init(|| {
            let last = self.previous.as_ref().expect("only what was there can go");
            let meta = Meta { resource_version: self.revision, ..last.meta.clone() };
            Arc::new(Stored::new(meta, replace_version(&last.bytes, self.revision)))
        })
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
    pub fn object(&self) -> &Arc<Stored> {
        match self.kind {
            WatchEventKind::Deleted => self.change.tombstone(),
            _ => self.change.object.as_ref().expect("only deletions have no object"),
        }
    }

    /// The JSON line of a watch response.
    pub fn frame(&self) -> Bytes {
        let slot = &self.change.frames[self.slot()];
        slot.get_or_init(|| frame(self.kind, &self.object().bytes)).clone()
    }

    /// The frame of a watch response in protobuf.
    pub fn protobuf_frame(&self) -> Bytes {
        let slot = &self.change.protobuf_frames.get_or_init(Box::default)[self.slot()];
        slot.get_or_init(|| protobuf_frame(self.kind, &self.object().bytes)).clone()
    }

    fn slot(&self) -> usize {
        match self.kind {
            WatchEventKind::Added => 0,
            WatchEventKind::Modified => 1,
            _ => 2,
        }
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
    match protobuf::encode_object(object) {
        Ok(object) => protobuf::encode_event(kind_name(kind), &object),
        Err(err) => {
            let status = serde_json::to_vec(&ApiError::internal(err).to_status());
            let message = protobuf::message(protobuf::STATUS).expect("the table has Status");
            let status = status.and_then(|it| protobuf::encode(message, ("v1", "Status"), &it));
            protobuf::encode_event("ERROR", &status.unwrap_or_default())
        }
    }
    .into()
}

pub fn kind_name(kind: WatchEventKind) -> &'static str {
    match kind {
        WatchEventKind::Added => "ADDED",
        WatchEventKind::Modified => "MODIFIED",
        WatchEventKind::Deleted => "DELETED",
        WatchEventKind::Bookmark => "BOOKMARK",
    }
}
