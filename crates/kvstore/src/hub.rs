//! Watches. Commits go once into one shared, bounded ring; a watcher is only a place in the history, so
//! a slow one costs nothing and holds up nobody. Behind the ring it reads the engine's history.
//!
//! A watcher whose range is not written has no place at all (`pending: None`): it is not woken, does not
//! fall behind, and its progress is the store's revision.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use crate::state::Commit;
use crate::{Batch, Error, Event, Revision, Watch, WatchRequest};

/// A batch stops growing after the transaction that reaches this many events.
const BATCH_EVENTS: usize = 1024;

/// Commits that are no longer in the ring.
pub(crate) trait History: Send + Sync {
    /// Some commits, from `from` on without a gap, none after `through`. At least one.
    fn commits(
        self: Arc<Self>,
        from: Revision,
        through: Revision,
    ) -> BoxFuture<'static, Result<Vec<Arc<Commit>>, Error>>;
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
    /// Successive commits; the last one is at `revision`, all are after `oldest`.
    ring: VecDeque<Arc<Commit>>,
    ring_bytes: usize,
    watchers: BTreeMap<u64, Watcher>,
    watchers_next: u64,
    is_closed: bool,
}

struct Watcher {
    request: WatchRequest,
    /// Nothing up to here is wanted. Only a watch from a future revision has it ahead of the store.
    floor: Revision,
    /// The first revision not yet looked at. `None`: nothing after the last delivery concerns it.
    pending: Option<Revision>,
    /// The reader asked how far the store is.
    wants_progress: bool,
    wake: Arc<Notify>,
}

/// What the history holds from some revision on.
enum Span {
    Ring(Vec<Arc<Commit>>),
    /// The ring starts later: read the engine's history through this revision.
    Behind {
        through: Revision,
    },
}

impl Hub {
    pub(crate) fn new(revision: Revision, oldest: Revision, retention: Retention) -> Self {
        let inner = Inner {
            revision,
            oldest,
            ring: VecDeque::new(),
            ring_bytes: 0,
            watchers: BTreeMap::new(),
            watchers_next: 0,
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

    pub(crate) fn publish(&self, commits: &[Arc<Commit>]) {
        let mut inner = self.inner();
        for commit in commits {
            inner.publish(commit);
        }
        inner.trim(self.retention);
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
        // Also called while unwinding, where a second panic would end the process.
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.is_closed = true;
        inner.watchers.values().for_each(|it| it.wake.notify_one());
    }

    /// Fails when `revision` cannot be read: compacted, or not there yet.
    pub(crate) fn check_readable(&self, revision: Revision) -> Result<(), Error> {
        self.inner().check_readable(revision)
    }

    /// The commits after `after` if the ring still has them all.
    pub(crate) fn ring_after(&self, after: Revision) -> Option<Vec<Arc<Commit>>> {
        match self.inner().span(after.next(), usize::MAX) {
            Span::Ring(commits) => Some(commits),
            Span::Behind { .. } => None,
        }
    }

    pub(crate) fn watch(
        self: &Arc<Self>,
        request: WatchRequest,
        history: Option<Arc<dyn History>>,
    ) -> Result<Box<dyn Watch>, Error> {
        let mut inner = self.inner();
        if inner.is_closed {
            return Err(Error::Closed);
        }
        let after = request.after.unwrap_or(inner.revision);
        inner.check_readable(after.min(inner.revision))?;
        let wake = Arc::new(Notify::new());
        let pending = (after < inner.revision).then(|| after.next());
        let id = inner.watchers_next;
        inner.watchers_next += 1;
        let watcher = Watcher {
            request: request.clone(),
            floor: after,
            pending,
            wants_progress: false,
            wake: wake.clone(),
        };
        inner.watchers.insert(id, watcher);
        drop(inner);
        Ok(Box::new(Place { hub: self.clone(), history, id, request, wake }))
    }
}

impl Inner {
    fn publish(&mut self, commit: &Arc<Commit>) {
        debug_assert!(commit.revision > self.revision, "revisions grow");
        self.revision = commit.revision;
        self.ring_bytes += commit.bytes();
        self.ring.push_back(commit.clone());
        for watcher in self.watchers.values_mut().filter(|it| it.pending.is_none()) {
            let concerns = |it: &Event| watcher.request.range.contains(&it.key);
            if commit.revision > watcher.floor && commit.events.iter().any(concerns) {
                watcher.pending = Some(commit.revision);
                watcher.wake.notify_one();
            }
        }
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

    fn span(&self, from: Revision, events_max: usize) -> Span {
        if from > self.revision {
            return Span::Ring(Vec::new());
        }
        let behind = Span::Behind { through: self.revision };
        if self.ring.front().is_none_or(|it| it.revision > from) {
            return behind;
        }
        let skip = self.ring.partition_point(|it| it.revision < from);
        let mut events = 0;
        let commits = self.ring.iter().skip(skip).take_while(|it| {
            let has_room = events < events_max;
            events += it.events.len();
            has_room
        });
        Span::Ring(commits.cloned().collect())
    }
}

impl Commit {
    /// About what it takes in memory. Previous values are counted too: the ring may be all that keeps
    /// them alive.
    fn bytes(&self) -> usize {
        let size = |it: &crate::KeyValue| it.key.len() + it.value.len();
        self.events
            .iter()
            .map(|it| {
                size_of::<Event>()
                    + it.value.as_ref().map_or(0, size)
                    + it.previous.as_ref().map_or(0, size)
            })
            .sum()
    }
}

/// Revisions have no gaps: what was read from the history must begin where it was asked to.
pub(crate) fn check_start(from: Revision, commits: &[Arc<Commit>]) -> Result<(), Error> {
    if commits.first().is_some_and(|it| it.revision == from) {
        return Ok(());
    }
    let missing = std::io::Error::other(format!("revision {} is missing", from.0));
    Err(Error::Io { doing: "reading history", source: Arc::new(missing) })
}

/// One watcher's end: its id in the hub, where its place is kept.
struct Place {
    hub: Arc<Hub>,
    history: Option<Arc<dyn History>>,
    id: u64,
    request: WatchRequest,
    wake: Arc<Notify>,
}

impl Place {
    /// The next unseen commits, or nothing when there are none. With commits of the ring the place has
    /// moved on already; nothing awaits between that and the delivery.
    fn unseen(&self) -> Result<Option<(Revision, Span)>, Error> {
        let mut inner = self.hub.inner();
        if inner.is_closed {
            return Err(Error::Closed);
        }
        let Some(from) = inner.watchers.get(&self.id).and_then(|it| it.pending) else {
            return Ok(None);
        };
        if from <= inner.oldest {
            let requested = Revision(from.0 - 1);
            return Err(Error::Compacted { requested, oldest: inner.oldest });
        }
        let span = inner.span(from, BATCH_EVENTS);
        if let Span::Ring(commits) = &span {
            inner.advance(self.id, commits);
        }
        Ok(Some((from, span)))
    }

    /// Moves on past commits that were read from the engine's history, unless a compaction came between:
    /// then they may be incomplete.
    fn accept(
        &self,
        from: Revision,
        read: Result<Vec<Arc<Commit>>, Error>,
    ) -> Result<Vec<Arc<Commit>>, Error> {
        let mut inner = self.hub.inner();
        if inner.is_closed {
            return Err(Error::Closed);
        }
        if from <= inner.oldest {
            let requested = Revision(from.0 - 1);
            return Err(Error::Compacted { requested, oldest: inner.oldest });
        }
        let commits = read?;
        check_start(from, &commits)?;
        inner.advance(self.id, &commits);
        Ok(commits)
    }

    /// Empty when commits of the past had nothing for this range: then the reader learns how far it is.
    /// A live watch is woken for its own range only, so it does not see such batches.
    fn batch(&self, commits: &[Arc<Commit>]) -> Batch {
        let revision = commits.last().expect("pending means at least one commit").revision;
        let events = commits
            .iter()
            .flat_map(|it| &it.events)
            .filter(|it| self.request.range.contains(&it.key) && self.request.events.admits(it))
            .map(|it| match self.request.previous {
                true => it.clone(),
                false => Event { previous: None, ..it.clone() },
            })
            .collect();
        Batch { events, revision }
    }

    /// Taken when everything has been delivered: how far the store is, if the reader asked.
    fn asked_progress(&self) -> Option<Batch> {
        let mut inner = self.hub.inner();
        let revision = inner.revision;
        let watcher = inner.watchers.get_mut(&self.id)?;
        let is_asked = watcher.pending.is_none() && std::mem::take(&mut watcher.wants_progress);
        is_asked.then(|| Batch { events: Vec::new(), revision })
    }

    async fn next_batch(&self) -> Result<Batch, Error> {
        loop {
            let commits = match (self.unseen()?, &self.history) {
                (None, _) => {
                    if let Some(batch) = self.asked_progress() {
                        return Ok(batch);
                    }
                    self.wake.notified().await;
                    continue;
                }
                (Some((_, Span::Ring(commits))), _) => commits,
                (Some((from, Span::Behind { through })), Some(history)) => {
                    let read = history.clone().commits(from, through).await;
                    self.accept(from, read)?
                }
                (Some((_, Span::Behind { .. })), None) => {
                    unreachable!("an engine without history keeps everything in the ring")
                }
            };
            return Ok(self.batch(&commits));
        }
    }
}

impl Inner {
    fn advance(&mut self, id: u64, seen: &[Arc<Commit>]) {
        let revision = self.revision;
        if let (Some(watcher), Some(last)) = (self.watchers.get_mut(&id), seen.last()) {
            watcher.pending = (last.revision < revision).then(|| last.revision.next());
        }
    }
}

impl Watch for Place {
    fn next(&mut self) -> BoxFuture<'_, Result<Batch, Error>> {
        Box::pin(self.next_batch())
    }

    fn progress(&self) -> Revision {
        let inner = self.hub.inner();
        let pending = inner.watchers.get(&self.id).and_then(|it| it.pending);
        pending.map_or(inner.revision, |it| Revision(it.0 - 1))
    }

    fn request_progress(&mut self) {
        if let Some(watcher) = self.hub.inner().watchers.get_mut(&self.id) {
            watcher.wants_progress = true;
            watcher.wake.notify_one();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Dropping must not panic, and removing an entry is right whatever happened.
        let mut inner = self.hub.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.watchers.remove(&self.id);
    }
}
