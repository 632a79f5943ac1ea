//! One watch: a place in the feed; before the ring begins, a stream of its own through etcd's
//! history.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use kvstore::{Batch, Error, Revision, Watch};
use stdx::Backoff;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{sleep, timeout};

use super::Shared;
use super::feed::{Next, Place};
use super::stream::{End, Stream};

/// A silent member is left after this long while the history is read.
const TIMEOUT_HISTORY: Duration = Duration::from_secs(10);

pub(super) struct EtcdWatch {
    shared: Arc<Shared>,
    place: Place,
    history: Option<History>,
    progress: Asked,
}

/// How far the answer to `request_progress` is.
enum Asked {
    No,
    /// Asking for the current revision.
    Asking(BoxFuture<'static, Revision>),
    /// Waiting until the feed has it.
    Waiting(Revision),
}

struct History {
    stream: Stream,
    member: usize,
    /// The first revision that the stream has not returned.
    next: Revision,
    _permit: OwnedSemaphorePermit,
}

impl EtcdWatch {
    pub(super) fn new(shared: Arc<Shared>, place: Place) -> Self {
        Self { shared, place, history: None, progress: Asked::No }
    }

    /// Its name in the feed.
    pub(super) fn place(&self) -> u64 {
        self.place.id
    }

    async fn next_batch(&mut self) -> Result<Batch, Error> {
        loop {
            match self.place.next()? {
                Next::Batch(batch) => {
                    self.history = None;
                    return Ok(batch);
                }
                Next::Behind { from } => {
                    let commits = self.read_history(from).await?;
                    return self.place.accept(from, &commits);
                }
                Next::Nothing => {}
            }
            if let Some(batch) = self.step_progress().await {
                return Ok(batch);
            }
        }
    }

    /// Waits until there may be something new, and returns the progress that was asked for once the
    /// feed is there.
    async fn step_progress(&mut self) -> Option<Batch> {
        let feed = &self.shared.feed;
        match &mut self.progress {
            Asked::No => self.place.wake.notified().await,
            Asked::Asking(asking) => {
                tokio::select! {
                    biased;
                    () = self.place.wake.notified() => {}
                    // A watch of the future has nothing to tell before it has come.
                    current = asking => {
                        self.progress = Asked::Waiting(current.max(self.place.after));
                    }
                }
            }
            Asked::Waiting(current) => {
                let current = *current;
                if feed.position() >= current {
                    // The feed may have brought something since `next` looked; then that comes
                    // first.
                    let revision = self.place.progress();
                    if revision < current {
                        return None;
                    }
                    self.progress = Asked::No;
                    return Some(Batch { events: Vec::new(), revision });
                }
                tokio::select! {
                    biased;
                    () = self.place.wake.notified() => {}
                    () = feed.reached(current) => {}
                }
            }
        }
        None
    }

    /// Some commits from `from` on. Breaks are mended here; only what is gone for good is an error.
    async fn read_history(&mut self, from: Revision) -> Result<Vec<super::feed::Commit>, Error> {
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(2));
        let mut n_gaps = 0;
        loop {
            let end = match self.history_step(from).await {
                Ok(commits) if commits.is_empty() => continue,
                Ok(commits) => return Ok(commits),
                Err(end) => end,
            };
            if let Some(history) = self.history.take() {
                self.shared.members.suspect(history.member);
            }
            let requested = Revision(from.0 - 1);
            match end {
                End::Compacted { oldest } => {
                    self.shared.feed.compact(oldest);
                    return Err(Error::Compacted { requested, oldest });
                }
                End::Gap { next } if n_gaps > 0 => {
                    return Err(Error::Compacted { requested, oldest: next });
                }
                End::Gap { .. } => n_gaps += 1,
                End::Failed { why } => tracing::debug!(why, "reading history from etcd broke"),
            }
            sleep(backoff.step()).await;
        }
    }

    async fn history_step(&mut self, from: Revision) -> Result<Vec<super::feed::Commit>, End> {
        let members = &self.shared.members;
        let mut history = match self.history.take().filter(|it| it.next == from) {
            Some(history) => history,
            None => {
                let permit = self.shared.histories.clone().acquire_owned().await;
                let permit = permit.map_err(|it| End::Failed { why: it.to_string() })?;
                let member = members.pick(&[]);
                let open = Stream::open(members, member, Revision(from.0 - 1));
                let stream = timeout(members.limits.timeout_attempt, open).await;
                let silent = |_| End::Failed { why: "no answer to a watch".to_owned() };
                let stream = stream.map_err(silent)??;
                History { stream, member, next: from, _permit: permit }
            }
        };
        let commits = timeout(TIMEOUT_HISTORY, history.stream.next(members)).await;
        let silent = |_| End::Failed { why: "no history came".to_owned() };
        let commits = commits.map_err(silent)??;
        if let Some(last) = commits.last() {
            history.next = Revision(last.revision.0 + 1);
        }
        self.history = Some(history);
        Ok(commits)
    }
}

impl Watch for EtcdWatch {
    fn next(&mut self) -> BoxFuture<'_, Result<Batch, Error>> {
        Box::pin(self.next_batch())
    }

    fn progress(&self) -> Revision {
        self.place.progress()
    }

    fn request_progress(&mut self) {
        let shared = self.shared.clone();
        let asking = async move {
            let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(2));
            loop {
                match shared.current().await {
                    Ok(current) => return current,
                    Err(err) => tracing::debug!(%err, "asking etcd for its revision"),
                }
                sleep(backoff.step()).await;
            }
        };
        self.progress = Asked::Asking(asking.boxed());
        self.place.wake.notify_one();
    }
}
