//! The keys and leases as they are now, and what a transaction does to them. Pure: engines decide here.

mod check;
mod draft;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use bytes::Bytes;

use crate::{
    Error, Event, KeyRange, KeyValue, LeaseId, RangeRequest, RangeResponse, Revision, Want,
};

pub(crate) use check::check_txn;
pub(crate) use draft::Draft;

/// What one transaction or one change of a lease did. At most one event per key. The revisions of commits with events grow;
/// a commit without events has the revision of the one before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) revision: Revision,
    pub(crate) events: Vec<Event>,
    pub(crate) leases: Vec<LeaseChange>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseChange {
    Granted { id: LeaseId, ttl: Duration },
    Revoked { id: LeaseId },
}

pub(crate) struct State {
    keys: BTreeMap<Bytes, KeyValue>,
    leases: BTreeMap<LeaseId, Lease>,
    revision: Revision,
}

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

impl State {
    pub(crate) fn empty() -> Self {
        Self { keys: BTreeMap::new(), leases: BTreeMap::new(), revision: Revision::EMPTY }
    }

    /// Leases first, so that the keys find theirs.
    pub(crate) fn restored(
        keys: BTreeMap<Bytes, KeyValue>,
        leases: impl IntoIterator<Item = (LeaseId, Duration)>,
        revision: Revision,
    ) -> Self {
        let lease = |(id, ttl)| (id, Lease { ttl, keys: BTreeSet::new() });
        let mut leases: BTreeMap<LeaseId, Lease> = leases.into_iter().map(lease).collect();
        for entry in keys.values() {
            if let Some(lease) = entry.lease.and_then(|id| leases.get_mut(&id)) {
                lease.keys.insert(entry.key.clone());
            }
        }
        Self { keys, leases, revision }
    }

    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    pub(crate) fn n_keys(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&KeyValue> {
        self.keys.get(key)
    }

    pub(crate) fn lease(&self, id: LeaseId) -> Option<&Lease> {
        self.leases.get(&id)
    }

    pub(crate) fn leases(&self) -> impl Iterator<Item = (LeaseId, &Lease)> {
        self.leases.iter().map(|(id, lease)| (*id, lease))
    }

    pub(crate) fn apply(&mut self, commit: &Commit) {
        for change in &commit.leases {
            if let LeaseChange::Granted { id, ttl } = *change {
                self.leases.insert(id, Lease { ttl, keys: BTreeSet::new() });
            }
        }
        for event in &commit.events {
            let previous = match &event.value {
                Some(entry) => self.keys.insert(event.key.clone(), entry.clone()),
                None => self.keys.remove(&event.key),
            };
            let (old, new) =
                (previous.and_then(|it| it.lease), event.value.as_ref().and_then(|it| it.lease));
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
    }

    fn rebind(&mut self, key: &Bytes, old: Option<LeaseId>, new: Option<LeaseId>) {
        if let Some(lease) = old.and_then(|it| self.leases.get_mut(&it)) {
            lease.keys.remove(key);
        }
        if let Some(lease) = new.and_then(|it| self.leases.get_mut(&it)) {
            lease.keys.insert(key.clone());
        }
    }

    pub(crate) fn range(&self, request: &RangeRequest) -> RangeResponse {
        let mut page = Page::new(request);
        if let Some(key) = request.range.single() {
            self.keys.get(key).into_iter().for_each(|it| page.take(it));
        } else {
            self.entries(&request.range).for_each(|it| page.take(it));
        }
        page.response(self.revision)
    }

    /// The range as it was at `at`, given what changed since.
    pub(crate) fn range_at(
        &self,
        request: &RangeRequest,
        at: Revision,
        undo: &Undo,
    ) -> RangeResponse {
        let mut page = Page::new(request);
        merge(self.entries(&request.range), undo.iter(), |it| page.take(it));
        page.response(at)
    }

    pub(crate) fn entries(&self, range: &KeyRange) -> impl Iterator<Item = &KeyValue> {
        bounds(range)
            .map(|it| self.keys.range::<[u8], _>(it))
            .into_iter()
            .flatten()
            .map(|(_, entry)| entry)
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

/// Entries with others in place of some of them, in the order of keys. Both are sorted.
fn merge<'a>(
    entries: impl Iterator<Item = &'a KeyValue>,
    others: impl Iterator<Item = (&'a Bytes, &'a Option<KeyValue>)>,
    mut take: impl FnMut(&'a KeyValue),
) {
    let mut others = others.peekable();
    for entry in entries {
        while let Some((_, other)) = others.next_if(|(key, _)| **key < entry.key) {
            other.iter().for_each(&mut take);
        }
        match others.next_if(|(key, _)| **key == entry.key) {
            Some((_, other)) => other.iter().for_each(&mut take),
            None => take(entry),
        }
    }
    others.filter_map(|(_, other)| other.as_ref()).for_each(take);
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

    pub(crate) fn take(&mut self, entry: &KeyValue) {
        if self.has_room() {
            self.entries.push(match self.want {
                Want::Keys => KeyValue { value: Bytes::new(), ..entry.clone() },
                Want::Entries | Want::Count => entry.clone(),
            });
        }
        self.count += 1;
    }

    pub(crate) fn response(self, revision: Revision) -> RangeResponse {
        let is_cut = self.want != Want::Count && self.count > self.entries.len() as u64;
        RangeResponse { entries: self.entries, has_more: is_cut, count: self.count, revision }
    }
}

/// Adds what the keys of `range` were before `commit`. To be called in the order of commits: the first
/// event of a key after a revision knows what it was at that revision.
pub(crate) fn note_previous(undo: &mut Undo, range: &KeyRange, commit: &Commit) {
    for event in commit.events.iter().filter(|it| range.contains(&it.key)) {
        undo.entry(event.key.clone()).or_insert_with(|| event.previous.clone());
    }
}

/// Reads a range at a revision before the current one, for a transaction that asks for it.
pub(crate) type Past<'a> =
    &'a mut dyn FnMut(&RangeRequest, Revision) -> Result<RangeResponse, Error>;
