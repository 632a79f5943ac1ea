//! Watches. Commits go once into one shared, bounded ring; a watcher is only a place in the
//! history, so a slow one costs nothing and holds up nobody. Behind the ring it reads the engine's
//! history.
//!
//! A watcher whose range is not written has no place at all: it is not woken, does not fall behind,
//! and its progress is the store's revision. A commit costs what it concerns, however many watch
//! other keys.
//!
//! Watchers belong to groups with one reader each: a watcher has no task, no waker and no queue of
//! its own. A watch alone is a group of one.

mod intervals;
mod lists;
mod reader;
mod single;
mod slab;
mod watchers;

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use futures_util::future::BoxFuture;

use self::reader::Reader;
use self::single::Single;
use self::slab::Id;
use self::watchers::Watchers;
use super::sync::{Mutex, MutexGuard, PoisonError};
use crate::state::Commit;
use crate::{Error, KeyRange, Revision, Watch, WatchRequest, Watches};

/// Commits that are no longer in the ring.
pub(crate) trait History: Send + Sync {
    fn commits(self: Arc<Self>, wanted: Wanted) -> BoxFuture<'static, Result<Past, Error>>;
}

/// Which part of the history a watcher needs.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// Events of other keys may be left out.
    pub(crate) range: KeyRange,
    pub(crate) from: Revision,
    pub(crate) through: Revision,
    /// Whether previous values are wanted.
    pub(crate) previous: bool,
}

/// Some commits in order, none missing from where it was asked through `through`, which is there or
/// later. Revisions that no commit has (a crash leaves such) are not missing.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    pub(crate) commits: Vec<Arc<Commit>>,
    pub(crate) through: Revision,
}

/// How much the ring keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retention {
    pub(crate) commits: usize,
    pub(crate) bytes: usize,
}

pub(crate) struct Hub {
    inner: Mutex<Inner>,
    retention: Retention,
}

struct Inner {
    revision: Revision,
    oldest: Revision,
    /// Every commit after `ring_after`, in order.
    ring: VecDeque<Arc<Commit>>,
    ring_after: Revision,
    ring_bytes: usize,
    watchers: Watchers,
    is_closed: bool,
}

impl Hub {
    pub(crate) fn new(revision: Revision, oldest: Revision, retention: Retention) -> Self {
        let inner = Inner {
            revision,
            oldest,
            ring: VecDeque::new(),
            ring_after: revision,
            ring_bytes: 0,
            watchers: Watchers::new(),
            is_closed: false,
        };
        Self { inner: Mutex::new(inner), retention }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no code panics while it holds the hub")
    }

    pub(crate) fn oldest(&self) -> Revision {
        self.inner().oldest
    }

    /// Whether some watch wants to know what was before. For others nobody need look it up.
    pub(crate) fn wants_previous(&self) -> bool {
        self.inner().watchers.n_previous > 0
    }

    /// Commits without events (of leases) are nothing to watches.
    pub(crate) fn publish(&self, commits: &[Arc<Commit>]) {
        let mut wake = Vec::new();
        let mut inner = self.inner();
        for commit in commits.iter().filter(|it| !it.events.is_empty()) {
            inner.publish(commit, &mut wake);
        }
        inner.trim(self.retention);
        drop(inner);
        wake.into_iter().for_each(Waker::wake);
    }

    /// Forgets what came up to `through`. Watchers that still need it will be told.
    pub(crate) fn compact(&self, through: Revision) {
        let mut inner = self.inner();
        inner.oldest = inner.oldest.max(through);
        while inner.ring.front().is_some_and(|it| it.revision <= through) {
            inner.pop();
        }
    }

    pub(crate) fn close(&self) {
        let mut wake = Vec::new();
        // Also called while unwinding, where a second panic would end the process.
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.is_closed = true;
        inner.watchers.wake_all(&mut wake);
        drop(inner);
        wake.into_iter().for_each(Waker::wake);
    }

    /// Fails when `revision` cannot be read: compacted, or not there yet.
    pub(crate) fn check_readable(&self, revision: Revision) -> Result<(), Error> {
        self.inner().check_readable(revision)
    }

    /// The commits after `after` if the ring still has them all.
    pub(crate) fn ring_after(&self, after: Revision) -> Option<Vec<Arc<Commit>>> {
        let inner = self.inner();
        (after >= inner.ring_after).then(|| inner.ring_from(after.next()).cloned().collect())
    }

    pub(crate) fn watch(
        self: &Arc<Self>,
        request: WatchRequest,
        history: Option<Arc<dyn History>>,
    ) -> Result<Box<dyn Watch>, Error> {
        Ok(Box::new(Single::new(self.clone(), history, &request)?))
    }

    pub(crate) fn watches(self: &Arc<Self>, history: Option<Arc<dyn History>>) -> Box<dyn Watches> {
        Box::new(Reader::new(self.clone(), history))
    }
}

impl Inner {
    fn publish(&mut self, commit: &Arc<Commit>, wake: &mut Vec<Waker>) {
        debug_assert!(commit.revision > self.revision, "revisions grow");
        self.revision = commit.revision;
        self.ring_bytes += commit.bytes();
        self.ring.push_back(commit.clone());
        self.watchers.arrive(Revision(commit.revision.0 - 1), wake);
        for event in &commit.events {
            self.watchers.announce(event, wake);
        }
        self.watchers.arrive(self.revision, wake);
    }

    fn trim(&mut self, retention: Retention) {
        while self.ring.len() > retention.commits
            || (self.ring_bytes > retention.bytes && self.ring.len() > 1)
        {
            self.pop();
        }
    }

    fn pop(&mut self) {
        if let Some(commit) = self.ring.pop_front() {
            self.ring_bytes -= commit.bytes();
            self.ring_after = commit.revision;
        }
    }

    fn check_readable(&self, revision: Revision) -> Result<(), Error> {
        if revision < self.oldest {
            Err(Error::Compacted { requested: revision, oldest: self.oldest })
        } else if revision > self.revision {
            Err(Error::Future { requested: revision, current: self.revision })
        } else {
            Ok(())
        }
    }

    fn ring_from(&self, from: Revision) -> impl Iterator<Item = &Arc<Commit>> {
        let skip = self.ring.partition_point(|it| it.revision < from);
        self.ring.iter().skip(skip)
    }

    /// Fails when what a watcher has to read next is gone, or everything is.
    fn check_next(&self, from: Revision) -> Result<(), Error> {
        if self.is_closed {
            return Err(Error::Closed);
        }
        let requested = Revision(from.0 - 1);
        if requested < self.oldest {
            return Err(Error::Compacted { requested, oldest: self.oldest });
        }
        Ok(())
    }

    /// The watcher has seen everything through `seen`.
    fn advance(&mut self, id: Id, seen: Revision) {
        let next = (seen < self.revision).then(|| seen.next());
        self.watchers.advance(id, next);
    }
}
