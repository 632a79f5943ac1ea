//! The bodies of the log's frames: transactions, checkpoints and single revisions as bytes. Pure.
//! Numbers are little endian. Parsing never panics and allocates no more than the bytes it is given
//! account for.

#[cfg(test)]
mod tests;

use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::state::{Commit, Entry, LeaseChange};
use crate::{Event, KeyValue, LeaseId, Revision};

const DELETE: u8 = 0;
const PUT: u8 = 1;
const GRANTED: u8 = 1;
const REVOKED: u8 = 2;

/// Kind, lengths of key and value, creation, version, lease, previous write.
const EVENT_BYTES: usize = 1 + 4 + 4 + 8 + 8 + 8 + 8;
const LEASE_BYTES: usize = 1 + 8 + 8;
/// Revision, time, hash, number of lease changes and of events.
const COMMIT_BYTES: usize = 8 + 8 + 8 + 4 + 4;
/// Revision, oldest, ceiling, time, hash, number of leases.
const CHECKPOINT_BYTES: usize = 8 * 5 + 4;

/// No store comes to a larger revision or time. What claims to is no record: it could not be
/// counted on from there.
pub(super) const NUMBER_MAX: u64 = 1 << 62;

/// Where the hash is in a transaction.
const HASH_AT: usize = 8 + 8;

/// Milliseconds since 1970, as the clock said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WallTime(pub(super) i64);

/// Stands for every transaction up to one, whenever and in whatever company each was written. A
/// rewritten transaction keeps it, so it is there when what it stands for has been forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HistoryHash(pub(super) u64);

impl HistoryHash {
    fn next(self, revision: Revision, changes: &[u8]) -> Self {
        Self(xxh3_64_with_seed(changes, self.0.rotate_left(17) ^ revision.0))
    }
}

/// One transaction, still in the bytes it was read from.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CommitRecord<'a> {
    pub(super) revision: Revision,
    pub(super) time: WallTime,
    pub(super) hash: HistoryHash,
    pub(super) leases: Vec<LeaseChange>,
    pub(super) events: Vec<EventRecord<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventRecord<'a> {
    pub(super) key: &'a [u8],
    /// `None`: the key was deleted.
    pub(super) value: Option<&'a [u8]>,
    pub(super) create_revision: Revision,
    pub(super) version: u64,
    pub(super) lease: Option<LeaseId>,
    /// When the key was written before, if it existed.
    pub(super) previous: Option<Revision>,
}

/// What a segment begins with: all that is not a commit and is still needed from the segments
/// before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Checkpoint {
    pub(super) revision: Revision,
    pub(super) oldest: Revision,
    pub(super) ceiling: Revision,
    pub(super) time: WallTime,
    pub(super) hash: HistoryHash,
    pub(super) leases: Vec<(LeaseId, Duration)>,
}

/// What an event takes in the log, apart from its share of the frame.
pub(super) fn event_bytes(key: &[u8], value: &[u8]) -> usize {
    EVENT_BYTES + key.len() + value.len()
}

/// What a commit takes in the log, apart from its frame.
pub(super) fn commit_bytes(commit: &Commit) -> usize {
    let events = commit
        .events
        .iter()
        .map(|it| event_bytes(&it.key, it.value.as_ref().map_or(&[], |it| it.value.as_ref())));
    COMMIT_BYTES + commit.leases.len() * LEASE_BYTES + events.sum::<usize>()
}

/// `before` stands for the history that the commit follows; returns what stands for it with the
/// commit.
pub(super) fn render_commit(
    out: &mut Vec<u8>,
    commit: &Commit,
    time: WallTime,
    before: HistoryHash,
) -> HistoryHash {
    let start = put_header(out, commit.revision, time, (commit.leases.len(), commit.events.len()));
    for change in &commit.leases {
        let (kind, id, ttl) = match *change {
            LeaseChange::Granted { id, ttl } => (GRANTED, id, ttl),
            LeaseChange::Revoked { id } => (REVOKED, id, Duration::ZERO),
        };
        out.put_u8(kind);
        out.put_i64_le(id.0.get());
        out.put_u64_le(millis(ttl));
    }
    commit.events.iter().for_each(|it| EventRecord::of(it).render(out));
    put_hash(out, start, commit.revision, before)
}

/// A transaction of an older format, which knows when each key was written before, but not what it
/// was.
pub(super) fn render_migrated(
    out: &mut Vec<u8>,
    commit: &Commit,
    previous: &[Option<Revision>],
    before: HistoryHash,
) -> HistoryHash {
    let start = put_header(out, commit.revision, WallTime(0), (0, commit.events.len()));
    for (event, previous) in commit.events.iter().zip(previous) {
        EventRecord { previous: *previous, ..EventRecord::of(event) }.render(out);
    }
    put_hash(out, start, commit.revision, before)
}

/// The same transaction with fewer events, as a rewritten segment has it: lease changes are in the
/// checkpoints by then.
pub(super) fn render_kept(out: &mut Vec<u8>, commit: &CommitRecord<'_>, keep: &[EventRecord<'_>]) {
    let start = put_header(out, commit.revision, commit.time, (0, keep.len()));
    out[start + HASH_AT..start + HASH_AT + 8].copy_from_slice(&commit.hash.0.to_le_bytes());
    keep.iter().for_each(|it| it.render(out));
}

/// Returns where it begins; its hash is still to be put in.
fn put_header(
    out: &mut Vec<u8>,
    revision: Revision,
    time: WallTime,
    (n_leases, n_events): (usize, usize),
) -> usize {
    let start = out.len();
    out.put_u64_le(revision.0);
    out.put_i64_le(time.0);
    out.put_u64_le(0);
    out.put_u32_le(length(n_leases));
    out.put_u32_le(length(n_events));
    start
}

fn put_hash(out: &mut [u8], start: usize, revision: Revision, before: HistoryHash) -> HistoryHash {
    let hash = before.next(revision, &out[start + COMMIT_BYTES..]);
    out[start + HASH_AT..start + HASH_AT + 8].copy_from_slice(&hash.0.to_le_bytes());
    hash
}

fn length(n: usize) -> u32 {
    u32::try_from(n).expect("transactions are bounded far below this")
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).map_or(NUMBER_MAX, |it| it.min(NUMBER_MAX))
}

/// `None` when the bytes are no transaction.
pub(super) fn parse_commit(body: &[u8]) -> Option<CommitRecord<'_>> {
    let mut rest = body;
    let mut header = take(&mut rest, COMMIT_BYTES)?;
    let (revision, time) = (take_revision(&mut header)?, take_time(&mut header)?);
    let hash = HistoryHash(header.get_u64_le());
    let n_leases = usize::try_from(header.get_u32_le()).ok()?;
    let n_events = usize::try_from(header.get_u32_le()).ok()?;
    let needs =
        n_leases.checked_mul(LEASE_BYTES)?.checked_add(n_events.checked_mul(EVENT_BYTES)?)?;
    if needs > rest.len() {
        return None;
    }
    let mut leases = Vec::with_capacity(n_leases);
    for _ in 0..n_leases {
        leases.push(parse_lease_change(take(&mut rest, LEASE_BYTES)?)?);
    }
    let mut events = Vec::with_capacity(n_events);
    for _ in 0..n_events {
        events.push(EventRecord::parse(&mut rest)?);
    }
    rest.is_empty().then_some(CommitRecord { revision, time, hash, leases, events })
}

fn parse_lease_change(mut bytes: &[u8]) -> Option<LeaseChange> {
    let kind = bytes.get_u8();
    let id = LeaseId::new(bytes.get_i64_le())?;
    let ttl = Duration::from_millis(take_number(&mut bytes)?);
    match kind {
        GRANTED => Some(LeaseChange::Granted { id, ttl }),
        REVOKED if ttl.is_zero() => Some(LeaseChange::Revoked { id }),
        _ => None,
    }
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    Some(bytes.get_u64_le()).filter(|it| *it <= NUMBER_MAX)
}

fn take_revision(bytes: &mut &[u8]) -> Option<Revision> {
    take_number(bytes).map(Revision)
}

fn take_time(bytes: &mut &[u8]) -> Option<WallTime> {
    Some(bytes.get_i64_le()).filter(|it| it.unsigned_abs() <= NUMBER_MAX).map(WallTime)
}

fn take<'a>(rest: &mut &'a [u8], n: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(n)?;
    *rest = left;
    Some(taken)
}

impl<'a> EventRecord<'a> {
    pub(super) fn of(event: &'a Event) -> Self {
        let value = event.value.as_ref();
        Self {
            key: &event.key,
            value: value.map(|it| it.value.as_ref()),
            create_revision: value.map_or(Revision(0), |it| it.create_revision),
            version: value.map_or(0, |it| it.version),
            lease: value.and_then(|it| it.lease),
            previous: event.previous.as_ref().map(|it| it.mod_revision),
        }
    }

    fn render(&self, out: &mut Vec<u8>) {
        let value = self.value.unwrap_or_default();
        out.reserve(EVENT_BYTES + self.key.len() + value.len());
        out.put_u8(if self.value.is_some() { PUT } else { DELETE });
        out.put_u32_le(length(self.key.len()));
        out.put_u32_le(length(value.len()));
        out.put_u64_le(self.create_revision.0);
        out.put_u64_le(self.version);
        out.put_i64_le(self.lease.map_or(0, |it| it.0.get()));
        // No write has revision 0, so 0 is "none".
        out.put_u64_le(self.previous.map_or(0, |it| it.0));
        out.put_slice(self.key);
        out.put_slice(value);
    }

    fn parse(rest: &mut &'a [u8]) -> Option<Self> {
        let mut header = take(rest, EVENT_BYTES)?;
        let kind = header.get_u8();
        let key_bytes = usize::try_from(header.get_u32_le()).ok()?;
        let value_bytes = usize::try_from(header.get_u32_le()).ok()?;
        let create_revision = take_revision(&mut header)?;
        let version = header.get_u64_le();
        let lease = LeaseId::new(header.get_i64_le());
        let previous = Some(take_revision(&mut header)?).filter(|it| it.0 != 0);
        let key = take(rest, key_bytes)?;
        let value = take(rest, value_bytes)?;
        let value = match kind {
            PUT => Some(value),
            DELETE if value.is_empty() => None,
            _ => return None,
        };
        Some(Self { key, value, create_revision, version, lease, previous })
    }

    /// What is known of the key after this event at `revision`, apart from the value.
    pub(super) fn stored(&self, revision: Revision) -> Option<Entry> {
        Some(Entry {
            create_revision: self.create_revision,
            mod_revision: revision,
            version: self.version,
            lease: self.lease,
            value_bytes: length(self.value?.len()),
        })
    }

    /// What the key is after this event at `revision`. Key and value share one allocation of their
    /// own: what was read to find them is not kept in memory.
    pub(super) fn entry(&self, revision: Revision) -> Option<KeyValue> {
        let value = self.value?;
        let mut bytes = BytesMut::with_capacity(self.key.len() + value.len());
        bytes.put_slice(self.key);
        bytes.put_slice(value);
        let value = bytes.split_off(self.key.len()).freeze();
        Some(KeyValue {
            key: bytes.freeze(),
            value,
            create_revision: self.create_revision,
            mod_revision: revision,
            version: self.version,
            lease: self.lease,
        })
    }

    /// With the given entry as what was before.
    pub(super) fn event(&self, revision: Revision, previous: Option<KeyValue>) -> Event {
        let value = self.entry(revision);
        let key = match &value {
            Some(entry) => entry.key.clone(),
            None => Bytes::copy_from_slice(self.key),
        };
        Event { key, value, previous, revision }
    }
}

impl Checkpoint {
    pub(super) fn render(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(CHECKPOINT_BYTES + self.leases.len() * 16);
        out.put_u64_le(self.revision.0);
        out.put_u64_le(self.oldest.0);
        out.put_u64_le(self.ceiling.0);
        out.put_i64_le(self.time.0);
        out.put_u64_le(self.hash.0);
        out.put_u32_le(length(self.leases.len()));
        for (id, ttl) in &self.leases {
            out.put_i64_le(id.0.get());
            out.put_u64_le(millis(*ttl));
        }
        out
    }

    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let mut rest = body;
        let mut header = take(&mut rest, CHECKPOINT_BYTES)?;
        let revision = take_revision(&mut header)?;
        let oldest = take_revision(&mut header)?;
        let ceiling = take_revision(&mut header)?;
        let time = take_time(&mut header)?;
        let hash = HistoryHash(header.get_u64_le());
        let n_leases = usize::try_from(header.get_u32_le()).ok()?;
        if n_leases.checked_mul(16)? != rest.len() {
            return None;
        }
        let mut leases = Vec::with_capacity(n_leases);
        for _ in 0..n_leases {
            let id = LeaseId::new(rest.get_i64_le())?;
            leases.push((id, Duration::from_millis(take_number(&mut rest)?)));
        }
        Some(Self { revision, oldest, ceiling, time, hash, leases })
    }
}

/// The body of `compacted`, `ceiling` and `closed` frames.
pub(super) fn render_revision(revision: Revision) -> [u8; 8] {
    revision.0.to_le_bytes()
}

pub(super) fn parse_revision(body: &[u8]) -> Option<Revision> {
    let body: [u8; 8] = body.try_into().ok()?;
    take_revision(&mut body.as_slice())
}

/// What any of the parsers takes renders to the same bytes again.
pub(super) fn check_parsers(body: &[u8]) {
    if let Some(commit) = parse_commit(body)
        && commit.leases.is_empty()
    {
        let mut again = Vec::new();
        render_kept(&mut again, &commit, &commit.events);
        assert_eq!(again, body);
    }
    if let Some(checkpoint) = Checkpoint::parse(body) {
        assert_eq!(checkpoint.render(), body);
    }
    if let Some(revision) = parse_revision(body) {
        assert_eq!(render_revision(revision), body);
    }
}
