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
    /// As it is stored.
    stored: Frames,
    /// By the kind that it is served as, where that is not how it is stored.
    served: Mutex<Vec<Served>>,
}

/// What watchers are sent, by what the change is to them: added, modified, deleted.
type Frames = [OnceLock<Arc<Seen>>; 3];

fn frames_of(kind: WatchEventKind) -> usize {
    match kind {
        WatchEventKind::Added => 0,
        WatchEventKind::Modified => 1,
        _ => 2,
    }
}

/// Which state of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Now,
    Before,
}

impl Side {
    /// What an event carries: of what is gone, what it was.
    fn of(kind: WatchEventKind) -> Self {
        match kind {
            WatchEventKind::Deleted => Self::Before,
            _ => Self::Now,
        }
    }
}

/// One state of the object in one version, with what its watchers are sent of it, or why it cannot
/// be had.
type Slot = Arc<OnceCell<Result<Arc<State>, ApiError>>>;

struct Served {
    kind: Arc<dyn Kind>,
    side: Side,
    slot: Slot,
}

struct State {
    object: Arc<Stored>,
    frames: Frames,
}

/// What the object was, and what it is, in one version.
struct States {
    before: Option<Arc<State>>,
    now: Option<Arc<State>>,
}

impl State {
    fn new(object: Arc<Stored>) -> Arc<Self> {
        Arc::new(Self { object, frames: Frames::default() })
    }
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
        let (stored, served) = Default::default();
        Self { object, previous, revision, stored, served }
    }

    fn served(&self) -> MutexGuard<'_, Vec<Served>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest state there is of the object.
    pub fn latest(&self) -> &Arc<Stored> {
        self.object.as_ref().or(self.previous.as_ref()).expect("a change has an object")
    }

    fn state(&self, side: Side) -> Option<&Arc<Stored>> {
        match side {
            Side::Now => self.object.as_ref(),
            Side::Before => self.previous.as_ref(),
        }
    }

    /// What the change is to somebody who watches `selection`; `None` if nothing.
    pub(crate) fn seen_by(self: &Arc<Self>, selection: &Selection) -> Option<Event> {
        let is_selected =
            |side| self.state(side).is_some_and(|it: &Arc<Stored>| selection.matches(&it.meta));
        self.seen_if(is_selected(Side::Before), is_selected(Side::Now))
    }

    fn seen_if(self: &Arc<Self>, was: bool, is: bool) -> Option<Event> {
        let kind = match (was, is) {
            (false, true) => WatchEventKind::Added,
            (true, true) => WatchEventKind::Modified,
            (true, false) => WatchEventKind::Deleted,
            (false, false) => return None,
        };
        Some(Event { kind, change: self.clone() })
    }

    fn slot(&self, kind: &Arc<dyn Kind>, side: Side) -> Slot {
        let mut served = self.served();
        let is_same = |it: &&Served| Arc::ptr_eq(&it.kind, kind) && it.side == side;
        if let Some(known) = served.iter().find(is_same) {
            return known.slot.clone();
        }
        let slot = Slot::default();
        if served.len() >= SERVED_MAX {
            served.remove(0);
        }
        served.push(Served { kind: kind.clone(), side, slot: slot.clone() });
        slot
    }

    /// All who waited have heard of it. Who comes again may have more luck.
    fn forget(&self, slot: &Slot) {
        self.served().retain(|it| !Arc::ptr_eq(&it.slot, slot));
    }

    /// One state in the version of `kind`; nothing if that has to be waited for.
    fn state_now(
        &self,
        side: Side,
        (kind, family): (&Arc<dyn Kind>, &Family),
    ) -> Option<Result<Arc<State>, ApiError>> {
        let slot = self.slot(kind, side);
        if let Some(known) = slot.get() {
            return Some(known.clone());
        }
        let served = family.serve_now(kind.as_ref(), self.state(side)?)?;
        // Somebody else may have made the same meanwhile.
        let _ = slot.set(served.map(State::new));
        slot.get().cloned()
    }

    /// The same, with the time that it takes. Whoever comes first asks, and all others wait for the
    /// answer; if the first goes away, the next one asks.
    async fn state_as(
        &self,
        side: Side,
        (kind, family): (&Arc<dyn Kind>, &Family),
    ) -> Result<Arc<State>, ApiError> {
        let slot = self.slot(kind, side);
        let ask = || async {
            let object = self.state(side).expect("an event has the state that it tells of");
            let served = family.serve(kind.as_ref(), vec![object.clone()]).await?;
            Ok(State::new(served.into_iter().next().unwrap_or_else(|| object.clone())))
        };
        let state = slot.get_or_init(ask).await.clone();
        if state.is_err() {
            self.forget(&slot);
        }
        state
    }

    /// What there is of both states; nothing if either has to be waited for.
    fn states_now(&self, to: (&Arc<dyn Kind>, &Family)) -> Option<Result<States, ApiError>> {
        let now = |side| match self.state(side) {
            Some(_) => self.state_now(side, to).map(|it| it.map(Some)),
            None => Some(Ok(None)),
        };
        let (before, now) = (now(Side::Before)?, now(Side::Now)?);
        Some(before.and_then(|before| Ok(States { before, now: now? })))
    }

    /// The same, with the time that it takes: one question for both, if nobody knows either. Who
    /// wants but one then finds it there.
    async fn states_as(&self, to: (&Arc<dyn Kind>, &Family)) -> Result<States, ApiError> {
        let (kind, family) = to;
        if let (Some(now), Some(before)) = (&self.object, &self.previous) {
            let slot = self.slot(kind, Side::Now);
            let ask = || async {
                let both = vec![now.clone(), before.clone()];
                let mut served = family.serve(kind.as_ref(), both).await?.into_iter();
                let now = served.next().unwrap_or_else(|| now.clone());
                // Unless somebody knows it already.
                let before = State::new(served.next().unwrap_or_else(|| before.clone()));
                let _ = self.slot(kind, Side::Before).set(Ok(before));
                Ok(State::new(now))
            };
            if let Err(err) = slot.get_or_init(ask).await {
                self.forget(&slot);
                return Err(err.clone());
            }
        }
        let mut states = States { before: None, now: None };
        if self.previous.is_some() {
            states.before = Some(self.state_as(Side::Before, to).await?);
        }
        if self.object.is_some() {
            states.now = Some(self.state_as(Side::Now, to).await?);
        }
        Ok(states)
    }

    /// What is sent to somebody who selects among objects as `kind` is served, if the change is
    /// anything to them; nothing if that has to be waited for.
    pub(crate) fn selected_now(
        self: &Arc<Self>,
        selection: &Selection,
        to: (&Arc<dyn Kind>, &Family),
    ) -> Option<Result<Option<Arc<Seen>>, ApiError>> {
        Some(self.states_now(to)?.map(|it| self.selected(selection, &it)))
    }

    /// The same, with the time that it takes.
    pub(crate) async fn selected_as(
        self: &Arc<Self>,
        selection: &Selection,
        to: (&Arc<dyn Kind>, &Family),
    ) -> Result<Option<Arc<Seen>>, ApiError> {
        Ok(self.selected(selection, &self.states_as(to).await?))
    }

    fn selected(self: &Arc<Self>, selection: &Selection, states: &States) -> Option<Arc<Seen>> {
        let is_selected = |it: &Option<Arc<State>>| {
            it.as_ref().is_some_and(|it| selection.matches(&it.object.meta))
        };
        let event = self.seen_if(is_selected(&states.before), is_selected(&states.now))?;
        let carried = match Side::of(event.kind) {
            Side::Now => &states.now,
            Side::Before => &states.before,
        };
        carried.as_ref().map(|it| event.seen_with(it))
    }
}

impl Event {
    /// As it is stored.
    pub fn seen(&self) -> &Arc<Seen> {
        self.sent_of(&self.change.stored, || self.carried().clone())
    }

    /// The state that it tells of.
    fn carried(&self) -> &Arc<Stored> {
        let state = self.change.state(Side::of(self.kind));
        state.expect("an event has the state that it tells of")
    }

    /// What is sent of a state: of what is gone, the state before, at the revision of the change.
    fn sent_of<'a>(
        &self,
        frames: &'a Frames,
        state: impl FnOnce() -> Arc<Stored>,
    ) -> &'a Arc<Seen> {
        frames[frames_of(self.kind)].get_or_init(|| {
            let object = match self.kind {
                WatchEventKind::Deleted => tombstone(&state(), self.change.revision),
                _ => state(),
            };
            Arc::new(Seen::new(self.kind, object))
        })
    }

    /// As `kind` is served; nothing if that has to be waited for.
    pub(crate) fn seen_now(
        &self,
        to: (&Arc<dyn Kind>, &Family),
    ) -> Option<Result<Arc<Seen>, ApiError>> {
        let state = self.change.state_now(Side::of(self.kind), to)?;
        Some(state.map(|it| self.seen_with(&it)))
    }

    /// The same, with the time that it takes.
    pub(crate) async fn seen_as(
        &self,
        to: (&Arc<dyn Kind>, &Family),
    ) -> Result<Arc<Seen>, ApiError> {
        let state = self.change.state_as(Side::of(self.kind), to).await;
        state.map(|it| self.seen_with(&it))
    }

    /// What is served as it is stored is sent as that.
    fn seen_with(&self, state: &State) -> Arc<Seen> {
        match Arc::ptr_eq(&state.object, self.carried()) {
            true => self.seen().clone(),
            false => self.sent_of(&state.frames, || state.object.clone()).clone(),
        }
    }
}

fn tombstone(last: &Stored, revision: u64) -> Arc<Stored> {
    let meta = Meta { resource_version: revision, ..Meta::clone(&last.meta) };
    Arc::new(Stored::new(meta, replace_version(&last.bytes, revision)))
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
