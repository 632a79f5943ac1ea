//! What the tail has read, for any number of watches. A commit goes once into one bounded ring; a
//! watch is a place in the history, so a slow one costs nothing and holds up nobody. Behind the
//! ring it reads from etcd (see `watch`).
//!
//! A watch whose range is not written has no place at all (`pending: None`): it is not woken, does
//! not fall behind, and its progress is the feed's position.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kvstore::{Batch, Error, Event, KeyValue, Revision, WatchRequest};
use tokio::sync::{Notify, watch};

/// A batch stops growing after the transaction that reaches this many events.
const BATCH_EVENTS: usize = 1024;

/// The events of one revision.
#[derive(Debug)]
pub(super) struct Commit {
    pub(super) revision: Revision,
    pub(super) events: Vec<Event>,
}

pub(super) struct Feed {
    inner: Mutex<Inner>,
    position: watch::Sender<Revision>,
    commits_max: usize,
    bytes_max: usize,
}

struct Inner {
    /// Everything up to here has been read.
    position: Revision,
    oldest: Revision,
    /// Successive revisions without a gap; the last one is `position`.
    ring: VecDeque<Arc<Commit>>,
    ring_bytes: usize,
    watchers: BTreeMap<u64, Watcher>,
    watchers_next: u64,
    is_closed: bool,
}

struct Watcher {
    request: WatchRequest,
    /// Nothing up to here is wanted. It can be ahead of the feed.
    floor: Revision,
    /// The first revision not yet looked at. `None`: nothing after the last delivery concerns it.
    pending: Option<Revision>,
    /// The history was lost under it.
    lost: Option<Error>,
    wake: Arc<Notify>,
}

/// One watch's end: its id in the feed, where its place is kept.
pub(super) struct Place {
    feed: Arc<Feed>,
    pub(super) id: u64,
    request: WatchRequest,
    /// Nothing up to here is wanted.
    pub(super) after: Revision,
    pub(super) wake: Arc<Notify>,
}

/// What there is for a watch now.
pub(super) enum Next {
    Batch(Batch),
    /// The ring begins later: read etcd's history from here.
    Behind {
        from: Revision,
    },
    Nothing,
}

impl Feed {
    pub(super) fn new(
        position: Revision,
        oldest: Revision,
        commits_max: usize,
        bytes_max: usize,
    ) -> Self {
        let inner = Inner {
            position,
            oldest,
            ring: VecDeque::new(),
            ring_bytes: 0,
            watchers: BTreeMap::new(),
            watchers_next: 0,
            is_closed: false,
        };
        let position = watch::Sender::new(position);
        Self { inner: Mutex::new(inner), position, commits_max, bytes_max }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Every change below is complete before anything that could panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn oldest(&self) -> Revision {
        self.inner().oldest
    }

    pub(super) fn position(&self) -> Revision {
        *self.position.borrow()
    }

    /// Waits until everything up to `revision` has been read.
    pub(super) async fn reached(&self, revision: Revision) {
        // Fails only without a sender, and `self` is one.
        let _ = self.position.subscribe().wait_for(|it| *it >= revision).await;
    }

    /// Takes what follows the position without a gap.
    pub(super) fn publish(&self, commits: Vec<Commit>) {
        let mut inner = self.inner();
        for commit in commits {
            inner.publish(Arc::new(commit));
        }
        while inner.ring.len() > self.commits_max
            || (inner.ring_bytes > self.bytes_max && inner.ring.len() > 1)
        {
            inner.pop();
        }
        self.position.send_replace(inner.position);
    }

    /// Somebody has compacted. Watches that still need what is gone will be told.
    pub(super) fn compact(&self, oldest: Revision) {
        let mut inner = self.inner();
        inner.oldest = inner.oldest.max(oldest);
        while inner.ring.front().is_some_and(|it| it.revision <= oldest) {
            inner.pop();
        }
    }

    /// What came after the position up to `through` cannot be read any more: every watch that may
    /// have missed something ends, and the feed goes on from there.
    pub(super) fn lose(&self, through: Revision) {
        let mut inner = self.inner();
        let requested = inner.position;
        inner.oldest = inner.oldest.max(through);
        inner.position = inner.position.max(through);
        inner.ring.clear();
        inner.ring_bytes = 0;
        let oldest = inner.oldest;
        for watcher in inner.watchers.values_mut().filter(|it| it.floor < through) {
            watcher.lost = Some(Error::Compacted { requested, oldest });
            watcher.wake.notify_one();
        }
        self.position.send_replace(inner.position);
    }

    pub(super) fn close(&self) {
        let mut inner = self.inner();
        inner.is_closed = true;
        inner.watchers.values().for_each(|it| it.wake.notify_one());
    }

    /// Everything after `after`, if it is all here.
    pub(super) fn since(&self, after: Revision) -> Option<Vec<Arc<Commit>>> {
        let inner = self.inner();
        inner
            .has(Revision(after.0 + 1))
            .then(|| inner.ring.iter().filter(|it| it.revision > after).cloned().collect())
    }

    pub(super) fn watch(
        self: &Arc<Self>,
        request: WatchRequest,
        after: Revision,
    ) -> Result<Place, Error> {
        let mut inner = self.inner();
        if inner.is_closed {
            return Err(Error::Closed);
        }
        if after < inner.oldest {
            return Err(Error::Compacted { requested: after, oldest: inner.oldest });
        }
        let wake = Arc::new(Notify::new());
        let pending = (after < inner.position).then(|| Revision(after.0 + 1));
        let id = inner.watchers_next;
        inner.watchers_next += 1;
        let watcher = Watcher {
            request: request.clone(),
            floor: after,
            pending,
            lost: None,
            wake: wake.clone(),
        };
        inner.watchers.insert(id, watcher);
        Ok(Place { feed: self.clone(), id, request, after, wake })
    }

    /// How far a watch is: everything up to here has been delivered.
    pub(super) fn progress(&self, id: u64) -> Revision {
        let inner = self.inner();
        let pending = inner.watchers.get(&id).and_then(|it| it.pending);
        pending.map_or(inner.position, |it| Revision(it.0 - 1))
    }
}

impl Inner {
    fn publish(&mut self, commit: Arc<Commit>) {
        debug_assert_eq!(commit.revision.0, self.position.0 + 1, "the tail leaves no gap");
        self.position = commit.revision;
        self.ring_bytes += commit.bytes();
        for watcher in self.watchers.values_mut().filter(|it| it.pending.is_none()) {
            let WatchRequest { range, events, .. } = &watcher.request;
            let concerns = |it: &Event| range.contains(&it.key) && events.admits(it);
            if commit.revision > watcher.floor && commit.events.iter().any(concerns) {
                watcher.pending = Some(commit.revision);
                watcher.wake.notify_one();
            }
        }
        self.ring.push_back(commit);
    }

    fn pop(&mut self) {
        if let Some(commit) = self.ring.pop_front() {
            self.ring_bytes -= commit.bytes();
        }
    }

    fn has(&self, from: Revision) -> bool {
        from > self.position || self.ring.front().is_some_and(|it| it.revision <= from)
    }

    fn advance(&mut self, id: u64, seen: Revision) {
        let position = self.position;
        if let Some(watcher) = self.watchers.get_mut(&id) {
            watcher.pending = (seen < position).then(|| Revision(seen.0 + 1));
        }
    }

    fn check(&self, id: u64, from: Revision) -> Result<(), Error> {
        if self.is_closed {
            return Err(Error::Closed);
        }
        if let Some(lost) = self.watchers.get(&id).and_then(|it| it.lost.clone()) {
            return Err(lost);
        }
        if from <= self.oldest {
            let requested = Revision(from.0.saturating_sub(1));
            return Err(Error::Compacted { requested, oldest: self.oldest });
        }
        Ok(())
    }
}

impl Commit {
    /// About what it takes in memory.
    fn bytes(&self) -> usize {
        let size = |it: &KeyValue| it.key.len() + it.value.len();
        let of_event = |it: &Event| {
            size_of::<Event>()
                + it.value.as_ref().map_or(0, size)
                + it.previous.as_ref().map_or(0, size)
        };
        self.events.iter().map(of_event).sum()
    }
}

impl Place {
    pub(super) fn next(&self) -> Result<Next, Error> {
        let mut inner = self.feed.inner();
        let pending = inner.watchers.get(&self.id).and_then(|it| it.pending);
        inner.check(self.id, pending.unwrap_or(Revision(u64::MAX)))?;
        let Some(from) = pending else { return Ok(Next::Nothing) };
        if !inner.has(from) {
            return Ok(Next::Behind { from });
        }
        let skip = inner.ring.partition_point(|it| it.revision < from);
        let mut n_events = 0;
        let commits = inner.ring.iter().skip(skip).take_while(|it| {
            let has_room = n_events < BATCH_EVENTS;
            n_events += it.events.len();
            has_room
        });
        let commits: Vec<_> = commits.cloned().collect();
        let Some(last) = commits.last() else { return Ok(Next::Nothing) };
        inner.advance(self.id, last.revision);
        drop(inner);
        Ok(Next::Batch(self.batch(commits.iter().map(|it| &**it))))
    }

    /// Moves on past commits that were read from etcd's history, unless a compaction came between.
    /// What the feed has not reached is left for it to deliver.
    pub(super) fn accept(&self, from: Revision, commits: &[Commit]) -> Result<Batch, Error> {
        let mut inner = self.feed.inner();
        inner.check(self.id, from)?;
        let n_reached = commits.partition_point(|it| it.revision <= inner.position);
        let commits = &commits[..n_reached];
        if let Some(last) = commits.last() {
            inner.advance(self.id, last.revision);
        }
        drop(inner);
        Ok(self.batch(commits.iter()))
    }

    /// Empty when commits of the past had nothing for this range: then the reader learns how far it
    /// is. A live watch is woken for its own range only.
    fn batch<'a>(&self, commits: impl Iterator<Item = &'a Commit>) -> Batch {
        let mut batch = Batch { events: Vec::new(), revision: Revision(0) };
        for commit in commits {
            batch.revision = commit.revision;
            let wanted = |it: &&Event| {
                self.request.range.contains(&it.key) && self.request.events.admits(it)
            };
            batch.events.extend(commit.events.iter().filter(wanted).map(|it| {
                let previous = it.previous.clone().filter(|_| self.request.previous);
                Event { previous, ..it.clone() }
            }));
        }
        batch
    }

    /// Everything up to here has been delivered.
    pub(super) fn progress(&self) -> Revision {
        self.feed.progress(self.id)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.feed.inner().watchers.remove(&self.id);
    }
}
