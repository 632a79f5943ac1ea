//! The keys and leases as they are now, and what a transaction does to them. Pure: engines decide
//! here.
//!
//! Of each key everything is here but its value: those of the last commits are (see `recent`),
//! others an engine may have on disk.

mod check;
mod draft;
mod entry;
mod recent;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::{
    Error, Event, KeyRange, KeyValue, LeaseId, RangeRequest, RangeResponse, Revision, Want,
};

pub(crate) use check::check_txn;
pub(crate) use draft::{Drafted, Refused, Unread};
pub(crate) use entry::Entry;
pub(crate) use recent::Recent;

/// What one transaction or one change of a lease did. At most one event per key. The revisions of
/// commits with events grow; a commit without events has the revision of the one before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) revision: Revision,
    pub(crate) events: Vec<Event>,
    pub(crate) leases: Vec<LeaseChange>,
    /// Some event's previous value was not in memory: it is empty here, and the engine's history
    /// has it.
    pub(crate) lacks_previous: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseChange {
    Granted { id: LeaseId, ttl: Duration },
    Revoked { id: LeaseId },
}

pub(crate) struct State {
    keys: Keys,
    leases: BTreeMap<LeaseId, Lease>,
    revision: Revision,
    recent: Recent,
}

pub(crate) type Keys = BTreeMap<Box<[u8]>, Entry>;

pub(crate) struct Lease {
    pub(crate) ttl: Duration,
    /// Keys whose entry names this lease.
    pub(crate) keys: BTreeSet<Bytes>,
}

/// What keys were at an older revision, for those that changed since; `None` means absent.
pub(crate) type Undo = BTreeMap<Bytes, Option<KeyValue>>;

impl Revision {
    pub(crate) const EMPTY: Self = Self(1);

    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl Commit {
    /// About what it takes in memory, with what allocators add. Previous values are counted too: it
    /// may be all that keeps them alive.
    pub(crate) fn bytes(&self) -> usize {
        const COMMIT: usize = size_of::<Commit>() + 64;
        const EVENT: usize = size_of::<Event>() + 64;
        let entry = |it: &KeyValue| (it.key.len() + it.value.len()) * 9 / 8;
        let event = |it: &Event| {
            let previous = it.previous.as_ref().map_or(0, entry);
            EVENT + it.value.as_ref().map_or(0, entry) + previous
        };
        COMMIT + self.events.iter().map(event).sum::<usize>()
    }
}

impl State {
    /// With so many bytes of recent commits in memory.
    pub(crate) fn empty(recent_bytes: usize) -> Self {
        let (keys, recent) = (Keys::new(), Recent::new(recent_bytes));
        Self { keys, leases: BTreeMap::new(), revision: Revision::EMPTY, recent }
    }

    /// Leases first, so that the keys find theirs.
    pub(crate) fn restored(
        keys: Keys,
        leases: impl IntoIterator<Item = (LeaseId, Duration)>,
        revision: Revision,
        recent: Recent,
    ) -> Self {
        let lease = |(id, ttl)| (id, Lease { ttl, keys: BTreeSet::new() });
        let mut leases: BTreeMap<LeaseId, Lease> = leases.into_iter().map(lease).collect();
        for (key, entry) in &keys {
            if let Some(lease) = entry.lease.and_then(|id| leases.get_mut(&id)) {
                lease.keys.insert(Bytes::copy_from_slice(key));
            }
        }
        Self { keys, leases, revision, recent }
    }

    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    pub(crate) fn n_keys(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&Entry> {
        self.keys.get(key)
    }

    /// The value of an entry, or what it was, if it is in memory.
    pub(crate) fn value(&self, key: &[u8], mod_revision: Revision) -> Option<&KeyValue> {
        self.recent.find(key, mod_revision)
    }

    pub(crate) fn lease(&self, id: LeaseId) -> Option<&Lease> {
        self.leases.get(&id)
    }

    pub(crate) fn leases(&self) -> impl Iterator<Item = (LeaseId, &Lease)> {
        self.leases.iter().map(|(id, lease)| (*id, lease))
    }

    /// Tells for each event what was before.
    pub(crate) fn apply(
        &mut self,
        commit: &Arc<Commit>,
        mut replaced: impl FnMut(&Event, Option<&Entry>),
    ) {
        for change in &commit.leases {
            if let LeaseChange::Granted { id, ttl } = *change {
                self.leases.insert(id, Lease { ttl, keys: BTreeSet::new() });
            }
        }
        for event in &commit.events {
            let new = event.value.as_ref().map(Entry::of);
            let old = match new {
                Some(new) => put(&mut self.keys, &event.key, new),
                None => self.keys.remove(event.key.as_ref()),
            };
            replaced(event, old.as_ref());
            let (old, new) = (old.and_then(|it| it.lease), new.and_then(|it| it.lease));
            if old != new {
                self.rebind(&event.key, old, new);
            }
        }
        for change in &commit.leases {
            if let LeaseChange::Revoked { id } = change {
                self.leases.remove(id);
            }
        }
        self.revision = commit.revision;
        if !commit.events.is_empty() {
            self.recent.push(commit.clone());
        }
    }

    /// Lets go of the oldest commits in memory that are beyond the budget, but of none from `keep`
    /// on.
    pub(crate) fn trim(&mut self, keep: Option<Revision>) {
        self.recent.trim(keep);
    }

    /// For an engine without a disk: of what was committed up to `through`, only current values
    /// stay.
    pub(crate) fn forget(&mut self, through: Revision) {
        let keys = &self.keys;
        let is_current = |it: &Event| {
            keys.get(it.key.as_ref()).is_some_and(|entry| entry.mod_revision == it.revision)
        };
        self.recent.forget(through, is_current);
    }

    fn rebind(&mut self, key: &Bytes, old: Option<LeaseId>, new: Option<LeaseId>) {
        if let Some(lease) = old.and_then(|it| self.leases.get_mut(&it)) {
            lease.keys.remove(key);
        }
        if let Some(lease) = new.and_then(|it| self.leases.get_mut(&it)) {
            // A copy: the key of an event shares its memory with the value.
            lease.keys.insert(Bytes::copy_from_slice(key));
        }
    }

    pub(crate) fn entries(&self, range: &KeyRange) -> impl Iterator<Item = (&[u8], &Entry)> {
        bounds(range)
            .map(|it| self.keys.range::<[u8], _>(it))
            .into_iter()
            .flatten()
            .map(|(key, entry)| (key.as_ref(), entry))
    }
}

/// Returns what was there before.
pub(crate) fn put(keys: &mut Keys, key: &[u8], entry: Entry) -> Option<Entry> {
    match keys.get_mut(key) {
        Some(there) => Some(std::mem::replace(there, entry)),
        None => keys.insert(key.into(), entry),
    }
}

pub(crate) type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// `BTreeMap::range` panics on a range that ends before it starts: that one is `None`.
pub(crate) fn bounds(range: &KeyRange) -> Option<Bounds<'_>> {
    let start = Bound::Included(range.start.as_ref());
    if range.end.is_empty() {
        return Some((start, Bound::Unbounded));
    }
    (range.start < range.end).then(|| (start, Bound::Excluded(range.end.as_ref())))
}

/// One of the two that has the key, or the second, in the order of keys. Both are sorted.
pub(crate) fn merge<'a, T, U>(
    entries: impl Iterator<Item = (&'a [u8], T)>,
    others: impl Iterator<Item = (&'a Bytes, U)>,
    mut take: impl FnMut(&'a [u8], Merged<T, U>),
) {
    let mut others = others.peekable();
    for (key, entry) in entries {
        while let Some((other_key, other)) = others.next_if(|it| it.0.as_ref() < key) {
            take(other_key, Merged::Other(other));
        }
        match others.next_if(|it| it.0.as_ref() == key) {
            Some((_, other)) => take(key, Merged::Other(other)),
            None => take(key, Merged::Entry(entry)),
        }
    }
    others.for_each(|(key, other)| take(key, Merged::Other(other)));
}

pub(crate) enum Merged<T, U> {
    Entry(T),
    Other(U),
}

/// Gathers the answer to a range request from entries in the order of keys.
pub(crate) struct Page {
    limit: usize,
    want: Want,
    entries: Vec<KeyValue>,
    count: u64,
}

impl Page {
    pub(crate) fn new(request: &RangeRequest) -> Self {
        let limit = if request.limit == 0 { usize::MAX } else { request.limit };
        Self { limit, want: request.want, entries: Vec::new(), count: 0 }
    }

    /// Whether the next entry would be part of the answer, beyond being counted.
    pub(crate) fn has_room(&self) -> bool {
        self.want != Want::Count && self.entries.len() < self.limit
    }

    /// `read` is asked for the value if it is wanted.
    pub(crate) fn take(&mut self, key: &[u8], entry: &Entry, read: impl FnOnce() -> KeyValue) {
        if self.has_room() {
            self.entries.push(match self.want {
                Want::Keys => entry.without_value(key),
                Want::Entries | Want::Count => read(),
            });
        }
        self.count += 1;
    }

    pub(crate) fn response(self, revision: Revision) -> RangeResponse {
        let is_cut = self.want != Want::Count && self.count > self.entries.len() as u64;
        RangeResponse { entries: self.entries, has_more: is_cut, count: self.count, revision }
    }
}

/// Adds what the keys of `range` were before `commit`. To be called in the order of commits: the
/// first event of a key after a revision knows what it was at that revision.
pub(crate) fn note_previous(undo: &mut Undo, range: &KeyRange, commit: &Commit) {
    for event in commit.events.iter().filter(|it| range.contains(&it.key)) {
        undo.entry(event.key.clone()).or_insert_with(|| event.previous.clone());
    }
}

/// Reads a range at a revision before the current one, for a transaction that asks for it.
pub(crate) type Past<'a> =
    &'a mut dyn FnMut(&RangeRequest, Revision) -> Result<RangeResponse, Error>;
