//! What happened to one resource lately, for watches that resume.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::change::Change;

/// Clients are promised 75 s.
const AGE_MAX: Duration = Duration::from_secs(300);
const LEN_MAX: usize = 16_384;
/// In a burst this is reached first: old versions of 10,000 pods would be 100 MiB.
const BYTES_MAX: usize = 32 << 20;

pub(super) struct History {
    /// Every change after `forgotten`, in order.
    changes: VecDeque<(Instant, Arc<Change>)>,
    /// The sum of `size_of` over `changes`.
    bytes: usize,
    /// The newest revision whose changes are no longer (or never were) in `changes`.
    forgotten: u64,
}

/// The requested revision is older than the history.
#[derive(Debug)]
pub struct TooOld {
    pub oldest: u64,
}

/// What is kept of a change beside the bytes of an object, about: its metadata, and who has seen
/// it.
const OVERHEAD: usize = 1 << 10;

/// What keeping a change costs: the version of the object that it brought, or took away.
fn size_of(change: &Change) -> usize {
    change.latest().bytes.len() + OVERHEAD
}

impl History {
    pub(super) fn new(forgotten: u64) -> Self {
        Self { changes: VecDeque::new(), bytes: 0, forgotten }
    }

    pub(super) fn push(&mut self, change: Arc<Change>) {
        let now = Instant::now();
        self.bytes += size_of(&change);
        self.changes.push_back((now, change));
        while self.changes.len() > LEN_MAX
            || self.bytes > BYTES_MAX
            || self.changes.front().is_some_and(|(at, _)| now - *at > AGE_MAX)
        {
            let Some((_, dropped)) = self.changes.pop_front() else { break };
            self.forgotten = dropped.revision;
            self.bytes -= size_of(&dropped);
        }
    }

    /// Everything after `revision` is about to be pushed: used while loading, when there is nothing
    /// yet.
    pub(super) fn forget_through(&mut self, revision: u64) {
        self.forgotten = revision;
    }

    pub(super) fn all(&self) -> Vec<Arc<Change>> {
        self.changes.iter().map(|(_, it)| it.clone()).collect()
    }

    /// The same changes, as many and of the same sizes, read otherwise.
    pub(super) fn exchange(&mut self, changes: Vec<Arc<Change>>) {
        for ((_, before), now) in self.changes.iter_mut().zip(changes) {
            *before = now;
        }
    }

    pub(super) fn after(&self, revision: u64) -> Result<Vec<Arc<Change>>, TooOld> {
        // What is too old is dropped when something new comes; until then it counts as dropped.
        let now = Instant::now();
        let is_old = |(at, _): &(Instant, Arc<Change>)| now.duration_since(*at) > AGE_MAX;
        let old = self.changes.partition_point(is_old);
        let forgotten = match old.checked_sub(1).and_then(|it| self.changes.get(it)) {
            Some((_, change)) => change.revision,
            None => self.forgotten,
        };
        if revision < forgotten {
            return Err(TooOld { oldest: forgotten });
        }
        let first = self.changes.partition_point(|(_, it)| it.revision <= revision);
        Ok(self.changes.range(first..).map(|(_, it)| it.clone()).collect())
    }
}
