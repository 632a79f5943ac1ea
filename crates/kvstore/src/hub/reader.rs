//! The reader of a group of watchers: takes what each has not seen, from the ring or from the
//! engine's history, one watcher after the other, so that none waits for one that has much to read.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::{BoxFuture, FutureExt as _, ready};

use super::slab::Id;
use super::watchers::Served;
use super::{History, Hub, Inner, Past, Wanted};
use crate::state::Commit;
use crate::{Batch, Error, Event, EventFilter, Revision, Told, WatchId, WatchRequest, Watches};

/// A batch stops growing after the transaction that reaches this many events.
const BATCH_EVENTS: usize = 1024;
/// A reader that has looked at this many batches without an event in them lets others run.
const TURNS_MAX: usize = 16;

pub(super) struct Reader {
    hub: Arc<Hub>,
    history: Option<Arc<dyn History>>,
    /// The name of the group in the hub, where its places are kept.
    group: Id,
    members: BTreeMap<WatchId, Id>,
    /// Kept while nobody waits, so that a canceled wait loses nothing.
    reading: Option<Reading>,
}

/// What came before the ring, on its way.
struct Reading {
    watcher: Served,
    from: Revision,
    past: BoxFuture<'static, Result<Past, Error>>,
}

enum Taken {
    /// What comes next, through this revision. The place has moved on; nothing awaits between that
    /// and the delivery.
    Commits(Served, Vec<Arc<Commit>>, Revision),
    Told(Told),
    /// The ring starts later, or lacks what was before: the engine's history has it.
    Behind(Served, Revision, Revision),
}

impl Reader {
    pub(super) fn new(hub: Arc<Hub>, history: Option<Arc<dyn History>>) -> Self {
        let group = hub.inner().watchers.add_group();
        Self { hub, history, group, members: BTreeMap::new(), reading: None }
    }

    pub(super) fn add_now(&mut self, id: WatchId, request: &WatchRequest) -> Result<(), Error> {
        self.remove(id);
        let mut inner = self.hub.inner();
        if inner.is_closed {
            return Err(Error::Closed);
        }
        let WatchRequest { range, after, events, previous } = request;
        let revision = inner.revision;
        let after = after.unwrap_or(revision);
        inner.check_readable(after.min(revision))?;
        let wanted = (*events, *previous);
        let watcher = inner.watchers.add((self.group, id), range, wanted, (after, revision));
        drop(inner);
        self.members.insert(id, watcher);
        Ok(())
    }

    pub(super) fn poll_told(&mut self, context: &mut Context<'_>) -> Poll<Result<Told, Error>> {
        for _ in 0..TURNS_MAX {
            if let Some(told) = self.poll_reading(context) {
                return Poll::Ready(Ok(told));
            }
            let told = match self.poll_take(context) {
                Poll::Ready(Ok(taken)) => self.turn(taken),
                Poll::Ready(Err(err)) => return Poll::Ready(Err(err)),
                Poll::Pending => return Poll::Pending,
            };
            if let Some(told) = told {
                return Poll::Ready(Ok(told));
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn turn(&mut self, taken: Taken) -> Option<Told> {
        match taken {
            Taken::Told(told) => Some(told),
            Taken::Commits(watcher, commits, through) => self.tell(&watcher, &commits, through),
            Taken::Behind(watcher, from, through) => {
                let past = self.read(&watcher, from, through);
                self.reading = Some(Reading { watcher, from, past });
                None
            }
        }
    }

    fn poll_take(&mut self, context: &mut Context<'_>) -> Poll<Result<Taken, Error>> {
        let mut inner = self.hub.inner();
        if inner.is_closed {
            return Poll::Ready(Err(Error::Closed));
        }
        let revision = inner.revision;
        if let Some(progress) = inner.watchers.take_progress(self.group, revision) {
            return Poll::Ready(Ok(Taken::Told(Told::Progress(progress))));
        }
        while let Some((id, from)) = inner.watchers.first_ready(self.group) {
            if let Some(taken) = inner.take(id, from) {
                return Poll::Ready(Ok(taken));
            }
        }
        inner.watchers.wait(self.group, context.waker());
        Poll::Pending
    }

    fn read(
        &self,
        watcher: &Served,
        from: Revision,
        through: Revision,
    ) -> BoxFuture<'static, Result<Past, Error>> {
        let Some(history) = self.history.clone() else {
            return ready(Err(missing(from))).boxed();
        };
        let (range, previous) = (watcher.interval.range(), watcher.previous);
        history.commits(Wanted { range, from, through, previous })
    }

    fn poll_reading(&mut self, context: &mut Context<'_>) -> Option<Told> {
        let reading = self.reading.as_mut()?;
        let Poll::Ready(past) = reading.past.poll_unpin(context) else {
            return None;
        };
        let Reading { watcher, from, .. } = self.reading.take()?;
        match self.accept(watcher.id, from, past) {
            Ok((commits, through)) => self.tell(&watcher, &commits, through),
            Err(error) => Some(Told::Failed { id: watcher.name, error }),
        }
    }

    /// Moves on past what was read from the engine's history, unless a compaction came between:
    /// then it may be incomplete.
    fn accept(
        &self,
        id: Id,
        from: Revision,
        past: Result<Past, Error>,
    ) -> Result<(Vec<Arc<Commit>>, Revision), Error> {
        let mut inner = self.hub.inner();
        inner.watchers.end_reading(self.group);
        // If it fails it is asked again, unless the reader removes it.
        inner.watchers.advance(id, Some(from));
        inner.check_next(from)?;
        let Past { commits, through } = past?;
        if through < from {
            return Err(missing(from));
        }
        inner.advance(id, through);
        Ok((commits, through))
    }

    /// Commits that have nothing for the watcher are told when they bring it to the present: it was
    /// behind, and its reader does not know that it no longer is.
    fn tell(&self, watcher: &Served, commits: &[Arc<Commit>], through: Revision) -> Option<Told> {
        let batch = Batch { events: select(watcher, commits), revision: through };
        let is_news = !batch.events.is_empty() || {
            let inner = self.hub.inner();
            inner.watchers.progress(watcher.id, inner.revision) >= inner.revision
        };
        is_news.then_some(Told::Batch { id: watcher.name, batch })
    }
}

impl Inner {
    /// What the watcher whose turn it is gets. `None`: it has to wait.
    fn take(&mut self, id: Id, from: Revision) -> Option<Taken> {
        let watcher = self.watchers.served(id);
        if let Err(error) = self.check_next(from) {
            self.watchers.advance(id, Some(from));
            return Some(Taken::Told(Told::Failed { id: watcher.name, error }));
        }
        if watcher.events == EventFilter::Nothing {
            self.watchers.advance(id, None);
            return Some(Taken::Commits(watcher, Vec::new(), self.revision));
        }
        if from <= self.ring_after {
            let through = self.ring_after;
            let is_first = self.watchers.begin_reading(id, from);
            return is_first.then_some(Taken::Behind(watcher, from, through));
        }
        let mut n_events = 0;
        let has_room = |it: &&Arc<Commit>| {
            let has_room = n_events < BATCH_EVENTS;
            n_events += it.events.len();
            has_room
        };
        let commits: Vec<_> = self.ring_from(from).take_while(has_room).cloned().collect();
        let through = commits.last().map_or(self.revision, |it| it.revision);
        if watcher.previous && commits.iter().any(|it| lacks_previous(&watcher, it)) {
            let is_first = self.watchers.begin_reading(id, from);
            return is_first.then_some(Taken::Behind(watcher, from, through));
        }
        self.advance(id, through);
        Some(Taken::Commits(watcher, commits, through))
    }
}

fn lacks_previous(watcher: &Served, commit: &Commit) -> bool {
    commit.lacks_previous && commit.events.iter().any(|it| concerns(watcher, it))
}

fn concerns(watcher: &Served, event: &Event) -> bool {
    watcher.interval.contains(&event.key) && watcher.events.admits(event)
}

fn select(watcher: &Served, commits: &[Arc<Commit>]) -> Vec<Event> {
    let events = commits.iter().flat_map(|it| &it.events);
    events
        .filter(|it| concerns(watcher, it))
        .map(|it| Event {
            key: it.key.clone(),
            value: it.value.clone(),
            previous: it.previous.as_ref().filter(|_| watcher.previous).cloned(),
            revision: it.revision,
        })
        .collect()
}

fn missing(from: Revision) -> Error {
    let missing = std::io::Error::other(format!("revision {} is missing", from.0));
    Error::Io { doing: "reading history", source: Arc::new(missing) }
}

impl Watches for Reader {
    fn add(&mut self, id: WatchId, request: WatchRequest) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(ready(self.add_now(id, &request)))
    }

    fn remove(&mut self, id: WatchId) {
        let Some(watcher) = self.members.remove(&id) else { return };
        self.reading.take_if(|it| it.watcher.id == watcher);
        self.hub.inner().watchers.remove(watcher);
    }

    fn next(&mut self) -> BoxFuture<'_, Result<Told, Error>> {
        Box::pin(poll_fn(|context| self.poll_told(context)))
    }

    fn progress(&self, id: WatchId) -> Option<Revision> {
        let watcher = *self.members.get(&id)?;
        let inner = self.hub.inner();
        Some(inner.watchers.progress(watcher, inner.revision))
    }

    fn request_progress(&mut self) {
        let mut inner = self.hub.inner();
        let revision = inner.revision;
        inner.watchers.ask_progress(self.group, revision);
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // Dropping must not panic, and removing entries is right whatever happened.
        let mut inner = self.hub.inner.lock().unwrap_or_else(super::PoisonError::into_inner);
        self.members.values().for_each(|it| inner.watchers.remove(*it));
        inner.watchers.remove_group(self.group);
    }
}
