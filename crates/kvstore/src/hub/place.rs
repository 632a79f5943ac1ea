//! A watcher's end of the hub: takes what it has not seen, from the ring or from the engine's history.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;

use super::intervals::Interval;
use super::{History, Hub, Past, Wanted};
use crate::state::Commit;
use crate::{Batch, Error, Event, EventFilter, Revision, Watch};

/// A batch stops growing after the transaction that reaches this many events.
const BATCH_EVENTS: usize = 1024;

pub(super) struct Place {
    pub(super) hub: Arc<Hub>,
    pub(super) history: Option<Arc<dyn History>>,
    /// Its name in the hub, where the place itself is kept.
    pub(super) id: u32,
    pub(super) interval: Arc<Interval>,
    pub(super) events: EventFilter,
    pub(super) previous: bool,
    /// The reader is told when it has come to the present, because it was behind and there were no events.
    pub(super) owes_progress: bool,
    /// Where the store was when the reader asked how far it is.
    pub(super) asked_at: Option<Revision>,
}

enum Taken {
    /// What comes next, through this revision. The place has moved on; nothing awaits between that and the delivery.
    Commits(Vec<Arc<Commit>>, Revision),
    Progress(Revision),
    /// The ring starts later, or lacks what was before: the engine's history has it.
    Behind {
        from: Revision,
        through: Revision,
    },
}

impl Place {
    async fn next_batch(&mut self) -> Result<Batch, Error> {
        loop {
            let (commits, revision) = match poll_fn(|context| self.poll_take(context)).await? {
                Taken::Commits(commits, through) => (commits, through),
                Taken::Progress(revision) => return Ok(Batch { events: Vec::new(), revision }),
                Taken::Behind { from, through } => {
                    let past = self.read(from, through).await;
                    self.accept(from, past)?
                }
            };
            let events = self.select(&commits);
            if !events.is_empty() {
                return Ok(Batch { events, revision });
            }
        }
    }

    fn poll_take(&mut self, context: &mut Context<'_>) -> Poll<Result<Taken, Error>> {
        let mut inner = self.hub.inner();
        let progress = inner.progress(self.id);
        inner.check_next(progress.next())?;
        let has_come = inner.revision >= inner.watchers.floor(self.id);
        if has_come && self.asked_at.is_some_and(|it| it <= progress) {
            self.asked_at = None;
            self.owes_progress &= inner.watchers.pending(self.id).is_some();
            return Poll::Ready(Ok(Taken::Progress(progress)));
        }
        let Some(from) = inner.watchers.pending(self.id) else {
            if std::mem::take(&mut self.owes_progress) {
                return Poll::Ready(Ok(Taken::Progress(progress)));
            }
            inner.watchers.wait(self.id, context.waker());
            if !has_come && self.asked_at.is_some() {
                inner.watchers.expect_floor(self.id);
            }
            return Poll::Pending;
        };
        if from <= inner.ring_after {
            let through = inner.ring_after;
            return Poll::Ready(Ok(Taken::Behind { from, through }));
        }
        let mut n_events = 0;
        let has_room = |it: &&Arc<Commit>| {
            let has_room = n_events < BATCH_EVENTS;
            n_events += it.events.len();
            has_room
        };
        let commits: Vec<_> = inner.ring_from(from).take_while(has_room).cloned().collect();
        let through = commits.last().map_or(inner.revision, |it| it.revision);
        if self.previous && commits.iter().any(|it| self.lacks_previous(it)) {
            return Poll::Ready(Ok(Taken::Behind { from, through }));
        }
        inner.advance(self.id, through);
        Poll::Ready(Ok(Taken::Commits(commits, through)))
    }

    fn lacks_previous(&self, commit: &Commit) -> bool {
        let concerns = |it: &Event| self.interval.contains(&it.key) && self.events.admits(it);
        commit.lacks_previous && commit.events.iter().any(concerns)
    }

    async fn read(&self, from: Revision, through: Revision) -> Result<Past, Error> {
        let history = self.history.clone().ok_or_else(|| missing(from))?;
        let range = self.interval.range();
        history.commits(Wanted { range, from, through, previous: self.previous }).await
    }

    /// Moves on past what was read from the engine's history, unless a compaction came between: then it may be incomplete.
    fn accept(
        &self,
        from: Revision,
        past: Result<Past, Error>,
    ) -> Result<(Vec<Arc<Commit>>, Revision), Error> {
        let mut inner = self.hub.inner();
        inner.check_next(from)?;
        let Past { commits, through } = past?;
        if through < from {
            return Err(missing(from));
        }
        inner.advance(self.id, through);
        Ok((commits, through))
    }

    fn select(&mut self, commits: &[Arc<Commit>]) -> Vec<Event> {
        let events: Vec<Event> = commits
            .iter()
            .flat_map(|it| &it.events)
            .filter(|it| self.interval.contains(&it.key) && self.events.admits(it))
            .map(|it| Event {
                key: it.key.clone(),
                value: it.value.clone(),
                previous: it.previous.as_ref().filter(|_| self.previous).cloned(),
                revision: it.revision,
            })
            .collect();
        // Otherwise the events tell how far it is.
        self.owes_progress = events.is_empty();
        events
    }
}

fn missing(from: Revision) -> Error {
    let missing = std::io::Error::other(format!("revision {} is missing", from.0));
    Error::Io { doing: "reading history", source: Arc::new(missing) }
}

impl Watch for Place {
    fn next(&mut self) -> BoxFuture<'_, Result<Batch, Error>> {
        Box::pin(self.next_batch())
    }

    fn progress(&self) -> Revision {
        self.hub.inner().progress(self.id)
    }

    fn request_progress(&mut self) {
        self.asked_at = Some(self.hub.inner().revision);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Dropping must not panic, and removing an entry is right whatever happened.
        let mut inner = self.hub.inner.lock().unwrap_or_else(super::PoisonError::into_inner);
        inner.watchers.remove(self.id);
    }
}
