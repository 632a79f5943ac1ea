//! Many watches with one reader: each waits by itself, and the reader for all of them. An idle one
//! costs what a watch alone costs; nobody has needed less of this engine.

mod round;
mod turn;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::{BoxFuture, pending};
use futures_util::stream::FuturesUnordered;
use kvstore::{Error, Revision, Told, WatchId, WatchRequest, Watches};

use self::round::Round;
use self::turn::{Control, Turn, Waiting};
use super::Shared;

pub(super) struct EtcdWatches {
    shared: Arc<Shared>,
    members: BTreeMap<WatchId, Member>,
    /// One for each watch: it waits for the next batch and holds the watch meanwhile.
    turns: FuturesUnordered<Waiting>,
    /// The progress request that is being answered.
    round: Option<Round>,
}

struct Member {
    control: Arc<Control>,
    /// Its name in the feed.
    place: u64,
}

impl EtcdWatches {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, members: BTreeMap::new(), turns: FuturesUnordered::new(), round: None }
    }

    async fn open(&mut self, id: WatchId, request: WatchRequest) -> Result<(), Error> {
        self.remove(id);
        let watch = self.shared.watch(request).await?;
        let member = Member { control: Arc::default(), place: watch.place() };
        if let Some(round) = &mut self.round {
            round.include(id);
            member.control.ask_progress();
        }
        self.turns.push(turn::wait(id, watch, member.control.clone()));
        self.members.insert(id, member);
        Ok(())
    }

    async fn next_told(&mut self) -> Result<Told, Error> {
        loop {
            if let Some(revision) = self.round.as_ref().and_then(Round::outcome) {
                self.round = None;
                return Ok(Told::Progress(revision));
            }
            let Some(turn) = self.turns.next().await else {
                return pending().await;
            };
            if let Some(told) = self.step(turn)? {
                return Ok(told);
            }
        }
    }

    fn step(&mut self, turn: Turn) -> Result<Option<Told>, Error> {
        let Turn { id, watch, control, outcome } = turn;
        // A watch that was removed may have had something; it is dropped here.
        let is_live = self.members.get(&id).is_some_and(|it| Arc::ptr_eq(&it.control, &control));
        if !is_live {
            return Ok(None);
        }
        let told = match outcome {
            Ok(None) => None,
            Ok(Some(batch)) => {
                if let Some(round) = &mut self.round {
                    round.answer(id, batch.revision);
                }
                (!batch.events.is_empty()).then_some(Told::Batch { id, batch })
            }
            Err(Error::Closed) => return Err(Error::Closed),
            Err(error) => Some(Told::Failed { id, error }),
        };
        self.turns.push(turn::wait(id, watch, control));
        Ok(told)
    }
}

impl Watches for EtcdWatches {
    fn add(&mut self, id: WatchId, request: WatchRequest) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.open(id, request))
    }

    fn remove(&mut self, id: WatchId) {
        let Some(member) = self.members.remove(&id) else { return };
        member.control.cancel();
        if let Some(round) = &mut self.round {
            round.leave(id);
        }
    }

    fn next(&mut self) -> BoxFuture<'_, Result<Told, Error>> {
        Box::pin(self.next_told())
    }

    fn progress(&self, id: WatchId) -> Option<Revision> {
        self.members.get(&id).map(|it| self.shared.feed.progress(it.place))
    }

    fn request_progress(&mut self) {
        let members = self.members.keys().copied();
        self.round = Some(Round::new(members, self.shared.feed.position()));
        self.members.values().for_each(|it| it.control.ask_progress());
    }
}
