//! The plain values of the contract: revisions, keys, requests, answers and events.

use bytes::Bytes;

/// The moment after one committed transaction. Revision 1 is the empty store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    pub key: Bytes,
    pub value: Bytes,
    pub create_revision: Revision,
    pub mod_revision: Revision,
    /// How often the key was written since it was created.
    pub version: u64,
}

/// `start..end` in byte order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    pub start: Bytes,
    pub end: Bytes,
}

#[derive(Clone, Debug)]
pub struct RangeRequest {
    pub range: KeyRange,
    /// `None` reads the latest revision.
    pub at: Option<Revision>,
    /// 0 is no limit.
    pub limit: usize,
}

#[derive(Clone, Debug)]
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

/// All must hold for a transaction to happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compare {
    /// The key was last written at this revision.
    ModRevision(Bytes, Revision),
    /// The key does not exist.
    Absent(Bytes),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    Put(Bytes, Bytes),
    /// As `Put`, with the digits of the revision of the write put into the value at the byte `at`. For values that tell
    /// their own revision: they need no second copy that does.
    PutStamped {
        key: Bytes,
        value: Bytes,
        at: usize,
    },
    Delete(Bytes),
}

#[derive(Clone, Debug, Default)]
pub struct Txn {
    pub compares: Vec<Compare>,
    pub writes: Vec<Write>,
}

#[derive(Clone, Debug)]
pub enum TxnOutcome {
    /// Durable. Deletes of absent keys alone commit nothing and return the current revision.
    Committed(Revision),
    /// A compare failed: the compared keys as they are now, in the order of the compares.
    Refused { current: Vec<Option<KeyValue>>, revision: Revision },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub key: Bytes,
    /// `None`: the key was deleted.
    pub value: Option<KeyValue>,
    /// What it was before; `None` when the key was new.
    pub previous: Option<KeyValue>,
    pub revision: Revision,
}

/// Whole transactions, in order. `events` is empty when the past that was looked through has nothing of
/// the watched range: then it is progress alone.
#[derive(Clone, Debug)]
pub struct Batch {
    pub events: Vec<Event>,
    /// Every event of the watched range up to and including this revision has been delivered.
    pub revision: Revision,
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
        let mut end = key.to_vec();
        end.push(0);
        Self { start: Bytes::copy_from_slice(key), end: Bytes::from(end) }
    }

    /// An empty end means no upper bound.
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= self.start.as_ref() && (self.end.is_empty() || key < self.end.as_ref())
    }
}
