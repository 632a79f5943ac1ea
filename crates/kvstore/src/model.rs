//! The plain values of the contract: revisions, keys, requests, answers and events.

use std::num::NonZeroI64;
use std::time::Duration;

use bytes::Bytes;

use crate::Error;

/// The moment after one committed transaction. Revision 1 is the empty store; 0 stands for "never"
/// in compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// What keys can be bound to, so that they go when it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub NonZeroI64);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    pub key: Bytes,
    /// Empty when only keys were asked for.
    pub value: Bytes,
    pub create_revision: Revision,
    pub mod_revision: Revision,
    /// How often the key was written since it was created.
    pub version: u64,
    pub lease: Option<LeaseId>,
}

/// `start..end` in byte order; an empty end means no upper bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    pub start: Bytes,
    pub end: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeRequest {
    pub range: KeyRange,
    /// `None` reads the latest revision.
    pub at: Option<Revision>,
    /// 0 is no limit.
    pub limit: usize,
    pub want: Want,
}

/// How much of each entry an answer has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Want {
    #[default]
    Entries,
    /// Entries with empty values.
    Keys,
    /// No entries, the count alone.
    Count,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeResponse {
    /// Sorted by key.
    pub entries: Vec<KeyValue>,
    /// Whether the limit cut the answer short.
    pub has_more: bool,
    /// How many keys the whole range has at that revision.
    pub count: u64,
    /// The revision that was read.
    pub revision: Revision,
}

/// Holds when every key of the range stands in the relation to the target. A range without keys
/// counts as one key that was never written (revisions and version 0, no lease), and no value
/// compares to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compare {
    pub keys: KeyRange,
    pub relation: Relation,
    pub target: Target,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    Equal,
    NotEqual,
    Less,
    Greater,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    CreateRevision(Revision),
    ModRevision(Revision),
    Version(u64),
    Value(Bytes),
    Lease(Option<LeaseId>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    pub key: Bytes,
    pub value: PutValue,
    pub lease: PutLease,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutValue {
    Bytes(Bytes),
    /// With the digits of the revision of the write put in at the byte `at`. For values that tell
    /// their own revision: they need no second copy that does. An engine that cannot know the
    /// revision beforehand stores `bytes` as they are.
    Stamped {
        bytes: Bytes,
        at: usize,
    },
    /// The value that the key has; it must exist.
    Kept,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutLease {
    None,
    Bound(LeaseId),
    /// The lease that the key has; it must exist.
    Kept,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Put(Put),
    Delete(KeyRange),
    /// Sees what earlier operations of the transaction did, unless it names a revision.
    Range(RangeRequest),
    Txn(Txn),
}

/// Reads and writes at one moment: `then` if every compare holds, `otherwise` if not. No key may be
/// put twice, or put and deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txn {
    pub compares: Vec<Compare>,
    pub then: Vec<Op>,
    pub otherwise: Vec<Op>,
    pub durability: Durability,
    pub previous: Previous,
}

/// How much of what a transaction overwrites and deletes its answer has. Of transactions in
/// transactions, the outermost's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Previous {
    /// The values may have to be read from disk, before anything else is written.
    #[default]
    Entries,
    /// Entries with empty values.
    Keys,
}

/// What an acknowledgement means. Order and revisions are the same for both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// It is on disk, and everything before it.
    #[default]
    Durable,
    /// It will be within a bounded time. A crash of the machine may lose the last of these, none
    /// that a durable write followed; their revisions are never given again. (The end of the
    /// process alone loses nothing.)
    Relaxed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxnResponse {
    /// Of the write; the current one when nothing was written.
    pub revision: Revision,
    /// Whether the compares held.
    pub succeeded: bool,
    /// One for each operation of the branch that was taken.
    pub results: Vec<OpResult>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpResult {
    /// What was overwritten, as `Txn::previous` wants it.
    Put {
        previous: Option<KeyValue>,
    },
    /// What was deleted, sorted by key, as `Txn::previous` wants it.
    Delete {
        previous: Vec<KeyValue>,
    },
    Range(RangeResponse),
    Txn(TxnResponse),
}

#[derive(Clone, Debug)]
pub struct WatchRequest {
    pub range: KeyRange,
    /// The first event delivered is the first after this revision, which may lie in the future;
    /// `None` is the current one.
    pub after: Option<Revision>,
    pub events: EventFilter,
    /// Whether events carry what was before. It may have to be read from disk.
    pub previous: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventFilter {
    #[default]
    All,
    PutsOnly,
    DeletesOnly,
    /// Progress alone.
    Nothing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub key: Bytes,
    /// `None`: the key was deleted.
    pub value: Option<KeyValue>,
    /// What it was before; `None` when the key was new, or when the watch did not ask for it, or
    /// when it was written at or before a compacted revision and has been superseded since.
    pub previous: Option<KeyValue>,
    pub revision: Revision,
}

/// Whole transactions, in order. `events` is empty when it is progress alone.
#[derive(Clone, Debug)]
pub struct Batch {
    pub events: Vec<Event>,
    /// Every event of the watched range up to and including this revision has been delivered.
    pub revision: Revision,
}

/// What the reader of many watches calls one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(pub i64);

/// What one of many watches, or all of them, have to tell.
#[derive(Clone, Debug)]
pub enum Told {
    Batch {
        id: WatchId,
        batch: Batch,
    },
    /// All of them have delivered everything up to and including this revision.
    Progress(Revision),
    /// The watch fell out of the history, or that cannot be read. It is told again until the watch
    /// is removed.
    Failed {
        id: WatchId,
        error: Error,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseStatus {
    pub id: LeaseId,
    pub granted: Duration,
    pub remaining: Duration,
    /// Sorted.
    pub keys: Vec<Bytes>,
}

/// How a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub revision: Revision,
    pub oldest: Revision,
    pub n_keys: u64,
    /// What it takes on disk, history included.
    pub bytes: u64,
    /// What of that is the present alone.
    pub bytes_current: u64,
    /// Stands for the whole history up to `revision`; two stores with the same history have the
    /// same. `None`: the engine keeps none.
    pub hash: Option<u64>,
    /// Why it cannot be written now.
    pub read_only: Option<String>,
}

impl LeaseId {
    pub fn new(id: i64) -> Option<Self> {
        NonZeroI64::new(id).map(Self)
    }
}

impl KeyRange {
    /// Every key that starts with `prefix`.
    pub fn prefix(prefix: &[u8]) -> Self {
        let mut end = prefix.to_vec();
        while let Some(last) = end.pop() {
            if last < 0xff {
                end.push(last + 1);
                break;
            }
        }
        Self { start: Bytes::copy_from_slice(prefix), end: Bytes::from(end) }
    }

    pub fn one(key: &[u8]) -> Self {
        let mut end = Vec::with_capacity(key.len() + 1);
        end.extend_from_slice(key);
        end.push(0);
        Self { start: Bytes::copy_from_slice(key), end: Bytes::from(end) }
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        key >= self.start.as_ref() && (self.end.is_empty() || key < self.end.as_ref())
    }

    /// The key, when the range can hold no other.
    pub fn single(&self) -> Option<&Bytes> {
        self.end.strip_suffix(&[0]).filter(|it| *it == self.start).map(|_| &self.start)
    }
}

impl RangeRequest {
    /// All entries of the range as they are now.
    pub fn latest(range: KeyRange) -> Self {
        Self { range, at: None, limit: 0, want: Want::Entries }
    }

    pub fn at(self, revision: Revision) -> Self {
        Self { at: Some(revision), ..self }
    }

    pub fn limit(self, limit: usize) -> Self {
        Self { limit, ..self }
    }
}

impl Compare {
    /// The key does not exist.
    pub fn absent(key: &[u8]) -> Self {
        Self::mod_revision(key, Revision(0))
    }

    /// The key was last written at this revision.
    pub fn mod_revision(key: &[u8], revision: Revision) -> Self {
        let target = Target::ModRevision(revision);
        Self { keys: KeyRange::one(key), relation: Relation::Equal, target }
    }
}

impl Op {
    pub fn put(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        let value = PutValue::Bytes(value.into());
        Self::Put(Put { key: key.into(), value, lease: PutLease::None })
    }

    pub fn put_stamped(key: impl Into<Bytes>, bytes: impl Into<Bytes>, at: usize) -> Self {
        let value = PutValue::Stamped { bytes: bytes.into(), at };
        Self::Put(Put { key: key.into(), value, lease: PutLease::None })
    }

    pub fn delete(key: &[u8]) -> Self {
        Self::Delete(KeyRange::one(key))
    }
}

impl Txn {
    /// Operations without a condition.
    pub fn of(then: Vec<Op>) -> Self {
        Self { then, ..Self::default() }
    }

    /// `then` if all compares hold, nothing if not.
    pub fn when(compares: Vec<Compare>, then: Vec<Op>) -> Self {
        Self { compares, then, ..Self::default() }
    }

    pub fn relaxed(self) -> Self {
        Self { durability: Durability::Relaxed, ..self }
    }

    /// Nobody looks at the values that this overwrites and deletes.
    pub fn without_previous_values(self) -> Self {
        Self { previous: Previous::Keys, ..self }
    }
}

impl WatchRequest {
    /// Everything that happens in the range, with previous values.
    pub fn new(range: KeyRange, after: Option<Revision>) -> Self {
        Self { range, after, events: EventFilter::All, previous: true }
    }
}

impl EventFilter {
    pub fn admits(self, event: &Event) -> bool {
        match self {
            Self::All => true,
            Self::PutsOnly => event.value.is_some(),
            Self::DeletesOnly => event.value.is_none(),
            Self::Nothing => false,
        }
    }
}
