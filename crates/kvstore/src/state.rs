//! The keys as they are now, and what a transaction does to them. Pure: both engines decide here.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;

use crate::{
    Compare, Event, KeyRange, KeyValue, RangeRequest, RangeResponse, Revision, Txn, Write,
};

/// One committed transaction. At most one event per key; revisions of successive commits are
/// successive.
#[derive(Debug)]
pub(crate) struct Commit {
    pub(crate) revision: Revision,
    pub(crate) events: Vec<Event>,
}

/// What a transaction would do.
#[derive(Debug)]
pub(crate) enum Decision {
    Commit(Commit),
    /// Nothing to write: the revision stays.
    Unchanged,
    Refused(Vec<Option<KeyValue>>),
}

pub(crate) struct State {
    keys: BTreeMap<Bytes, KeyValue>,
    revision: Revision,
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
        Self { keys: BTreeMap::new(), revision: Revision::EMPTY }
    }

    pub(crate) fn restored(keys: BTreeMap<Bytes, KeyValue>, revision: Revision) -> Self {
        Self { keys, revision }
    }

    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&KeyValue> {
        self.keys.get(key)
    }

    pub(crate) fn apply(&mut self, commit: &Commit) {
        for event in &commit.events {
            match &event.value {
                Some(entry) => drop(self.keys.insert(event.key.clone(), entry.clone())),
                None => drop(self.keys.remove(&event.key)),
            }
        }
        self.revision = commit.revision;
    }

    pub(crate) fn range(&self, request: &RangeRequest) -> RangeResponse {
        let mut page = Page::new(request.limit);
        for entry in self.entries(&request.range) {
            page.take(entry);
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
        let mut page = Page::new(request.limit);
        let mut older = undo.iter().peekable();
        for entry in self.entries(&request.range) {
            while let Some((_, previous)) = older.next_if(|(key, _)| **key < entry.key) {
                previous.iter().for_each(|it| page.take(it));
            }
            match older.next_if(|(key, _)| **key == entry.key) {
                Some((_, previous)) => previous.iter().for_each(|it| page.take(it)),
                None => page.take(entry),
            }
        }
        older.filter_map(|(_, previous)| previous.as_ref()).for_each(|it| page.take(it));
        page.response(at)
    }

    fn entries(&self, range: &KeyRange) -> impl Iterator<Item = &KeyValue> {
        // `BTreeMap::range` panics on a range that ends before it starts.
        let is_empty = !range.end.is_empty() && range.start >= range.end;
        let end = if range.end.is_empty() {
            Bound::Unbounded
        } else {
            Bound::Excluded(range.end.as_ref())
        };
        let bounds = (Bound::Included(range.start.as_ref()), end);
        (!is_empty)
            .then(|| self.keys.range::<[u8], _>(bounds))
            .into_iter()
            .flatten()
            .map(|(_, entry)| entry)
    }
}

struct Page {
    limit: usize,
    entries: Vec<KeyValue>,
    count: u64,
}

impl Page {
    fn new(limit: usize) -> Self {
        let limit = if limit == 0 { usize::MAX } else { limit };
        Self { limit, entries: Vec::new(), count: 0 }
    }

    fn take(&mut self, entry: &KeyValue) {
        self.count += 1;
        if self.entries.len() < self.limit {
            self.entries.push(entry.clone());
        }
    }

    fn response(self, revision: Revision) -> RangeResponse {
        let has_more = self.count > self.entries.len() as u64;
        RangeResponse { entries: self.entries, has_more, count: self.count, revision }
    }
}

/// Adds what the keys of `range` were before `commit`. To be called in the order of commits: the first
/// event of a key after a revision knows what it was at that revision.
pub(crate) fn note_previous(undo: &mut Undo, range: &KeyRange, commit: &Commit) {
    for event in commit.events.iter().filter(|it| range.contains(&it.key)) {
        undo.entry(event.key.clone()).or_insert_with(|| event.previous.clone());
    }
}

/// Decides what `txn` does when the keys are as `lookup` says and the last commit was at `revision`.
pub(crate) fn decide<'a>(
    txn: &Txn,
    revision: Revision,
    lookup: impl Fn(&[u8]) -> Option<&'a KeyValue>,
) -> Decision {
    let holds = txn.compares.iter().all(|compare| match compare {
        Compare::ModRevision(key, expected) => {
            lookup(key).is_some_and(|it| it.mod_revision == *expected)
        }
        Compare::Absent(key) => lookup(key).is_none(),
    });
    if !holds {
        let compared = txn.compares.iter().map(|compare| match compare {
            Compare::ModRevision(key, _) | Compare::Absent(key) => lookup(key).cloned(),
        });
        return Decision::Refused(compared.collect());
    }
    let revision = revision.next();
    let events: Vec<Event> = last_write_per_key(&txn.writes)
        .filter_map(|write| event_of(write, revision, &lookup))
        .collect();
    if events.is_empty() {
        Decision::Unchanged
    } else {
        Decision::Commit(Commit { revision, events })
    }
}

/// One transaction is one moment: of several writes to a key only the last can be seen.
fn last_write_per_key(writes: &[Write]) -> impl Iterator<Item = &Write> {
    let last: BTreeMap<&Bytes, usize> =
        writes.iter().enumerate().map(|(index, write)| (write.key(), index)).collect();
    writes
        .iter()
        .enumerate()
        .filter(move |(index, write)| last.get(write.key()) == Some(index))
        .map(|(_, write)| write)
}

fn event_of<'a>(
    write: &Write,
    revision: Revision,
    lookup: impl Fn(&[u8]) -> Option<&'a KeyValue>,
) -> Option<Event> {
    let previous = lookup(write.key()).cloned();
    let value = write.value_at(revision).map(|value| KeyValue {
        key: write.key().clone(),
        value,
        create_revision: previous.as_ref().map_or(revision, |it| it.create_revision),
        mod_revision: revision,
        version: previous.as_ref().map_or(1, |it| it.version + 1),
    });
    if value.is_none() && previous.is_none() {
        return None;
    }
    Some(Event { key: write.key().clone(), value, previous, revision })
}

impl Write {
    pub(crate) fn key(&self) -> &Bytes {
        match self {
            Self::Put(key, _) | Self::PutStamped { key, .. } | Self::Delete(key) => key,
        }
    }

    /// The value to store at `revision`; `None` for a deletion.
    fn value_at(&self, revision: Revision) -> Option<Bytes> {
        match self {
            Self::Put(_, value) => Some(value.clone()),
            Self::PutStamped { value, at, .. } => {
                let (before, after) = value.split_at_checked(*at).unwrap_or((value, &[]));
                let digits = revision.0.to_string();
                Some(Bytes::from([before, digits.as_bytes(), after].concat()))
            }
            Self::Delete(_) => None,
        }
    }
}
