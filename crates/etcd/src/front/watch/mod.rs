//! Watch streams: many watches in one stream, in one task.
//!
//! Promises: each watch's events once and in order, whole transactions together unless the client asked for fragments; a progress
//! notification is never ahead of the events before it. A client that reads slowly only moves its places in the history slowly:
//! beyond the response that is being sent, nothing is kept for it.

mod progress;
mod response;
mod turn;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use kvstore::{Batch, Error, EventFilter, Revision};
use lifecycle::Shutdown;

use self::progress::Round;
use self::turn::{Control, Turn};
use super::exchange::{Gone, Inbound, Outbound};
use super::kv::key_range;
use super::routes::Call;
use super::{Front, error, number};
use crate::wire::Status;
use crate::wire::messages as pb;

/// The id that stands for no watch, and for all of them.
const NO_WATCH: i64 = -1;

pub(super) async fn run(call: Call, shutdown: Shutdown) -> Result<(), Gone> {
    let Call { peer, inbound, reply } = call;
    let outbound = reply.open()?;
    let stream = Stream {
        front: peer.front.clone(),
        outbound,
        turns: FuturesUnordered::new(),
        watches: BTreeMap::new(),
        next_id: 0,
        round: None,
        is_round_wanted: false,
    };
    stream.run(inbound, shutdown).await
}

/// How a stream ends: the client went, or it is told a status.
enum End {
    Gone,
    Status(Result<(), Status>),
}

impl From<Gone> for End {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

struct Stream {
    front: Arc<Front>,
    outbound: Outbound,
    /// One for each watch: it waits for the next batch and holds the watch meanwhile.
    turns: FuturesUnordered<turn::Waiting>,
    watches: BTreeMap<i64, Watch>,
    next_id: i64,
    /// The progress request that is being answered, and whether another came meanwhile.
    round: Option<Round>,
    is_round_wanted: bool,
}

struct Watch {
    control: Arc<Control>,
    /// The first revision that can have events for it.
    start: Revision,
    wants_fragments: bool,
    wants_progress: bool,
    /// Nothing was sent since the last tick.
    is_quiet: bool,
    /// A tick asked how far it is, when the store was here.
    tick: Option<Revision>,
}

impl Stream {
    async fn run(mut self, mut inbound: Inbound, shutdown: Shutdown) -> Result<(), Gone> {
        match self.serve(&mut inbound, &shutdown).await {
            End::Gone => Err(Gone),
            End::Status(ended) => self.outbound.finish(ended),
        }
    }

    async fn serve(&mut self, inbound: &mut Inbound, shutdown: &Shutdown) -> End {
        let mut ticks = tokio::time::interval(self.front.limits.progress_interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        ticks.reset();
        let mut is_open = true;
        loop {
            if !is_open && self.watches.is_empty() {
                return End::Status(Ok(()));
            }
            let stepped = tokio::select! {
                biased;
                () = shutdown.cancelled() => return End::Status(Err(error::stopped())),
                request = inbound.next::<pb::WatchRequest>(), if is_open => match request {
                    // Boxed, like the next: an idle stream should not have room for what it does when it is not.
                    Ok(Some(request)) => Box::pin(self.step(request)).await,
                    // The client will ask for no more, and still reads.
                    Ok(None) => {
                        is_open = false;
                        Ok(())
                    }
                    Err(status) => return End::Status(Err(status)),
                },
                Some(turn) = self.turns.next(), if !self.turns.is_empty() => {
                    Box::pin(self.deliver(turn)).await
                }
                _ = ticks.tick() => {
                    self.tick();
                    Ok(())
                }
                () = self.outbound.reset(), if !is_open => return End::Gone,
            };
            if let Err(end) = stepped {
                return end;
            }
        }
    }

    async fn step(&mut self, request: pb::WatchRequest) -> Result<(), End> {
        match request.request_union {
            Some(pb::WatchRequestUnion::Create(request)) => self.create(request).await,
            Some(pb::WatchRequestUnion::Cancel(request)) => self.cancel(request.watch_id).await,
            Some(pb::WatchRequestUnion::Progress(_)) => {
                self.is_round_wanted = true;
                self.advance_round().await
            }
            None => Ok(()),
        }
    }

    async fn create(&mut self, request: pb::WatchCreateRequest) -> Result<(), End> {
        let id = match self.claim_id(&request) {
            Ok(id) => id,
            Err(why) => return self.refuse(why).await,
        };
        let after = match start_of(&request) {
            Ok(after) => after,
            Err(status) => return self.refuse(&status.message).await,
        };
        let start = after.unwrap_or_else(|| self.front.store.revision());
        let opened = self.front.store.watch(kvstore::WatchRequest {
            range: key_range(&watched_key(&request), &request.range_end),
            after,
            events: filter_of(&request),
            previous: request.prev_kv,
        });
        let opened = opened.await;
        // Announced before anything it can deliver.
        let header = self.front.header(self.front.store.revision());
        let created =
            pb::WatchResponse { header, watch_id: id, created: true, ..Default::default() };
        match opened {
            Ok(watch) => {
                self.outbound.send_streamed(&created).await?;
                let control = Arc::new(Control::default());
                self.turns.push(turn::wait(id, watch, control.clone()));
                let watch = Watch {
                    control,
                    start: Revision(start.0.saturating_add(1)),
                    wants_fragments: request.fragment,
                    wants_progress: request.progress_notify,
                    is_quiet: true,
                    tick: None,
                };
                self.watches.insert(id, watch);
                Ok(())
            }
            Err(err @ Error::Compacted { .. }) => {
                self.outbound.send_streamed(&created).await?;
                self.fail(id, &err).await
            }
            Err(Error::Closed) => Err(End::Status(Err(error::stopped()))),
            Err(err) => self.refuse(&error::status(&err).message).await,
        }
    }

    fn claim_id(&mut self, request: &pb::WatchCreateRequest) -> Result<i64, &'static str> {
        if self.watches.len() >= self.front.limits.watches_per_stream {
            return Err("etcdserver: too many watches in one stream");
        }
        let is_interval = request.range_end.len() > 1 || request.range_end.first() > Some(&0);
        if is_interval && watched_key(request) >= request.range_end {
            return Err("mvcc: watcher range is empty");
        }
        if request.watch_id != 0 {
            return match self.watches.contains_key(&request.watch_id) {
                true => Err("mvcc: duplicate watch ID provided on the WatchStream"),
                false => Ok(request.watch_id),
            };
        }
        while self.watches.contains_key(&self.next_id) {
            self.next_id += 1;
        }
        self.next_id += 1;
        Ok(self.next_id - 1)
    }

    async fn refuse(&mut self, why: &str) -> Result<(), End> {
        let refused = pb::WatchResponse {
            header: self.front.header(self.front.store.revision()),
            watch_id: NO_WATCH,
            created: true,
            canceled: true,
            cancel_reason: why.to_owned(),
            ..Default::default()
        };
        Ok(self.outbound.send_streamed(&refused).await?)
    }

    async fn cancel(&mut self, id: i64) -> Result<(), End> {
        let Some(watch) = self.watches.remove(&id) else {
            return Ok(());
        };
        watch.control.cancel();
        let canceled = pb::WatchResponse {
            header: self.front.header(self.front.store.revision()),
            watch_id: id,
            canceled: true,
            ..Default::default()
        };
        self.outbound.send_streamed(&canceled).await?;
        self.advance_round().await
    }

    /// The store ended a watch.
    async fn fail(&mut self, id: i64, err: &Error) -> Result<(), End> {
        self.watches.remove(&id);
        let compact_revision = match err {
            Error::Compacted { oldest, .. } => number(*oldest),
            Error::Closed => return Err(End::Status(Err(error::stopped()))),
            _ => 0,
        };
        let canceled = pb::WatchResponse {
            header: self.front.header(self.front.store.revision()),
            watch_id: id,
            canceled: true,
            compact_revision,
            cancel_reason: error::status(err).message,
            ..Default::default()
        };
        self.outbound.send_streamed(&canceled).await?;
        self.advance_round().await
    }

    async fn deliver(&mut self, turn: Turn) -> Result<(), End> {
        let Turn { id, watch, control, outcome } = turn;
        // A canceled watch may have had something; it is dropped here.
        let is_live = self.watches.get(&id).is_some_and(|it| Arc::ptr_eq(&it.control, &control));
        let batch = match outcome {
            _ if !is_live => return Ok(()),
            Ok(Some(batch)) => batch,
            Ok(None) => {
                self.turns.push(turn::wait(id, watch, control));
                return Ok(());
            }
            Err(err) => return self.fail(id, &err).await,
        };
        let revision = batch.revision;
        self.send(id, batch).await?;
        self.turns.push(turn::wait(id, watch, control));
        self.notice(id, revision).await
    }

    async fn send(&mut self, id: i64, batch: Batch) -> Result<(), End> {
        let Some(watch) = self.watches.get_mut(&id).filter(|_| !batch.events.is_empty()) else {
            return Ok(());
        };
        watch.is_quiet = false;
        let max = self.front.limits.request_bytes;
        let wants_fragments = watch.wants_fragments;
        let mut parts = response::Parts::new(batch, max, wants_fragments);
        while let Some(part) = parts.next_part() {
            let header = self.front.header(part.revision);
            let response = pb::WatchResponse {
                header,
                watch_id: id,
                fragment: part.is_fragment,
                events: part.events,
                ..Default::default()
            };
            self.outbound.send_streamed(&response).await?;
        }
        Ok(())
    }

    /// A watch has been brought up to `revision`: whoever asked how far it is can be told.
    async fn notice(&mut self, id: i64, revision: Revision) -> Result<(), End> {
        if let Some(watch) = self.watches.get_mut(&id)
            && watch.tick.is_some_and(|asked| revision >= asked)
        {
            watch.tick = None;
            // A progress revision below the start would send a resuming client back.
            if watch.is_quiet && revision >= watch.start {
                let header = self.front.header(revision);
                let progress = pb::WatchResponse { header, watch_id: id, ..Default::default() };
                self.outbound.send_streamed(&progress).await?;
            }
        }
        if let Some(round) = &mut self.round {
            round.answer(id, revision);
        }
        self.advance_round().await
    }

    /// Ends the round whose watches have all answered, and begins the next if one is wanted.
    async fn advance_round(&mut self) -> Result<(), End> {
        if let Some(round) = &mut self.round {
            round.keep(|id| self.watches.contains_key(&id));
            let Some(revision) = round.outcome() else {
                return Ok(());
            };
            self.round = None;
            let is_ahead = self.watches.values().all(|it| revision.0 + 1 >= it.start.0);
            if is_ahead && !self.watches.is_empty() {
                let header = self.front.header(revision);
                let progress =
                    pb::WatchResponse { header, watch_id: NO_WATCH, ..Default::default() };
                self.outbound.send_streamed(&progress).await?;
            }
        }
        if std::mem::take(&mut self.is_round_wanted) && !self.watches.is_empty() {
            self.round =
                Some(Round::new(self.watches.keys().copied(), self.front.store.revision()));
            self.watches.values().for_each(|it| it.control.ask_progress());
        }
        Ok(())
    }

    fn tick(&mut self) {
        let revision = self.front.store.revision();
        for watch in self.watches.values_mut().filter(|it| it.wants_progress) {
            if std::mem::replace(&mut watch.is_quiet, true) {
                watch.tick = Some(revision);
                watch.control.ask_progress();
            }
        }
    }
}

/// The revision after which events are wanted; `None` is now.
fn start_of(request: &pb::WatchCreateRequest) -> Result<Option<Revision>, Status> {
    match u64::try_from(request.start_revision) {
        Ok(0) => Ok(None),
        // Revision 1 is the empty store: it has no events, and is the first that can be read.
        Ok(start) => Ok(Some(Revision((start - 1).max(1)))),
        Err(_) => Err(error::compacted()),
    }
}

/// The empty key is the smallest there can be.
fn watched_key(request: &pb::WatchCreateRequest) -> Bytes {
    match request.key.is_empty() {
        true => Bytes::from_static(&[0]),
        false => request.key.clone(),
    }
}

fn filter_of(request: &pb::WatchCreateRequest) -> EventFilter {
    let has = |filter: pb::FilterType| request.filters.contains(&(filter as i32));
    match (has(pb::FilterType::NoPut), has(pb::FilterType::NoDelete)) {
        (false, false) => EventFilter::All,
        (false, true) => EventFilter::PutsOnly,
        (true, false) => EventFilter::DeletesOnly,
        (true, true) => EventFilter::Nothing,
    }
}
