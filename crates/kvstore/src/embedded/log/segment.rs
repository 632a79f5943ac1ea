//! Segments: their names, what is known of each in memory, and the table through which readers find
//! them.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use super::frame::{Mark, Salt};
use crate::embedded::disk::{Disk, File};

/// Where a frame is: the id of a segment in this process, and a byte of it. Valid until the segment
/// is rewritten; an id is never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub segment: u32,
    pub offset: u32,
}

/// What a caller may know of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub id: u32,
    /// It stands for the segments of these numbers: one, or as many as were joined.
    pub first: u32,
    pub last: u32,
    pub bytes: u32,
    pub is_sealed: bool,
}

pub(super) struct SegmentFile {
    pub(super) id: u32,
    pub(super) first: u32,
    /// Its own number, the last that it stands for.
    pub(super) number: u32,
    pub(super) file: Arc<dyn File>,
    /// What its first frame names as the end of the log before it.
    pub(super) before: (Mark, u64),
    /// Where its second frame is.
    pub(super) begin: u32,
    tip: Mutex<Tip>,
}

/// The end of a segment. Of a rewritten one, `chain` and `end` are what they were before, so that
/// the next one follows them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tip {
    /// How much of the file counts, and the check of the last frame in it.
    pub(super) size: u32,
    pub(super) check: u64,
    pub(super) end: u32,
    pub(super) chain: u64,
    pub(super) is_sealed: bool,
}

/// What the appending end and all readers have in common.
pub(super) struct Shared {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) salt: Salt,
    table: RwLock<Table>,
    /// One rewrite at a time; true while a crash could undo the last one.
    pub(super) rewriting: Mutex<bool>,
}

#[derive(Default)]
struct Table {
    /// The log, by number. No gaps: each begins where the one before it ends.
    chain: BTreeMap<u32, Arc<SegmentFile>>,
    /// Everything that a place may name: `chain`, and what was replaced but is still held.
    by_id: BTreeMap<u32, Arc<SegmentFile>>,
    id_next: u32,
}

pub(super) fn name(number: u32) -> String {
    format!("{number:016}.log")
}

/// A segment that is being written, as the next or to replace others.
pub(super) fn name_new(number: u32) -> String {
    format!("{number:016}.log.new")
}

pub(super) fn parse_name(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".log").filter(|it| it.len() == 16)?;
    let number = digits.bytes().all(|it| it.is_ascii_digit()).then(|| digits.parse().ok())?;
    number.filter(|it| *it > 0)
}

/// Whether it is what was left when a segment was being written.
pub(super) fn is_leftover(name: &str) -> bool {
    name.strip_suffix(".new").and_then(parse_name).is_some()
}

impl SegmentFile {
    pub(super) fn new(
        (id, first, number): (u32, u32, u32),
        file: Arc<dyn File>,
        before: (Mark, u64),
        begin: u32,
        tip: Tip,
    ) -> Self {
        Self { id, first, number, file, before, begin, tip: Mutex::new(tip) }
    }

    /// The one that is appended to, with nothing but its checkpoint.
    pub(super) fn begun(
        (id, number): (u32, u32),
        file: Arc<dyn File>,
        before: (Mark, u64),
        (end, check): (u32, u64),
    ) -> Self {
        let tip = Tip { size: end, check, end, chain: check, is_sealed: false };
        Self::new((id, number, number), file, before, end, tip)
    }

    pub(super) fn name(&self) -> String {
        name(self.number)
    }

    pub(super) fn tip(&self) -> Tip {
        *self.lock()
    }

    pub(super) fn extend(&self, end: u32, check: u64) {
        *self.lock() = Tip { size: end, check, end, chain: check, is_sealed: false };
    }

    pub(super) fn seal(&self, end: u32, check: u64) {
        *self.lock() = Tip { size: end, check, end, chain: check, is_sealed: true };
    }

    fn lock(&self) -> MutexGuard<'_, Tip> {
        // Every change of a tip is one assignment.
        self.tip.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    pub(super) fn new(disk: Arc<dyn Disk>, salt: Salt) -> Self {
        Self { disk, salt, table: RwLock::default(), rewriting: Mutex::new(false) }
    }

    pub(super) fn salt(&self) -> Salt {
        self.salt
    }

    pub(super) fn add(&self, make: impl FnOnce(u32) -> SegmentFile) -> Arc<SegmentFile> {
        self.replace(&[], make)
    }

    /// Puts a segment where those were that it stands for. They can still be found by their ids,
    /// until `release`.
    pub(super) fn replace(
        &self,
        old: &[Arc<SegmentFile>],
        make: impl FnOnce(u32) -> SegmentFile,
    ) -> Arc<SegmentFile> {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let id = table.id_next;
        let segment = Arc::new(make(id));
        for it in old {
            table.chain.remove(&it.number);
        }
        table.id_next += 1;
        table.chain.insert(segment.number, Arc::clone(&segment));
        table.by_id.insert(id, Arc::clone(&segment));
        segment
    }

    pub(super) fn release(&self, ids: &[u32]) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        for id in ids {
            table.by_id.remove(id);
        }
    }

    pub(super) fn by_id(&self, id: u32) -> Option<Arc<SegmentFile>> {
        self.read().by_id.get(&id).cloned()
    }

    /// The segment that begins where the one of this number ends.
    pub(super) fn after(&self, number: u32) -> Option<Arc<SegmentFile>> {
        let after = (Bound::Excluded(number), Bound::Unbounded);
        self.read().chain.range(after).next().map(|(_, it)| Arc::clone(it))
    }

    pub(super) fn all(&self) -> Vec<Arc<SegmentFile>> {
        self.read().chain.values().cloned().collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }
}
