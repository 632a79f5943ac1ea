//! Watch streams: many watches in one stream, in one task, which reads them from the store as one
//! group.
//!
//! Promises: each watch's events once and in order, whole transactions together unless the client
//! asked for fragments; a progress notification is never ahead of the events before it. A client
//! that reads slowly only moves its places in the history slowly: beyond the response that is being
//! sent, nothing is kept for it.

mod delivery;
mod response;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use kvstore::{Batch, Error, EventFilter, Revision, Told, WatchId, Watches};
use lifecycle::Shutdown;

use self::delivery::Delivery;
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
        reader: peer.front.store.watches(),
        watches: BTreeMap::new(),
        next_id: 0,
        is_asked: false,
        is_asked_again: false,
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
    reader: Box<dyn Watches>,
    watches: BTreeMap<i64, Watch>,
    next_id: i64,
    /// A progress request is being answered, and another came meanwhile.
    is_asked: bool,
    is_asked_again: bool,
}

/// There may be very many: its size counts.
struct Watch {
    /// The first revision that can have events for it.
    start: Revision,
    wants_fragments: bool,
    wants_progress: bool,
    /// Nothing was sent since the last tick.
    is_quiet: bool,
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
                    // Boxed, like the next: an idle stream should not have room for what it does
                    // when it is not.
                    Ok(Some(request)) => Box::pin(self.step(request)).await,
                    // The client will ask for no more, and still reads.
                    Ok(None) => {
                        is_open = false;
                        Ok(())
                    }
                    Err(status) => return End::Status(Err(status)),
                },
                told = self.reader.next(), if !self.watches.is_empty() => match told {
                    Ok(told) => Box::pin(self.deliver(told)).await,
                    Err(err) => return End::Status(Err(error::status(&err))),
                },
                _ = ticks.tick() => Box::pin(self.tick()).await,
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
                self.ask_progress();
                Ok(())
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
        let wanted = kvstore::WatchRequest {
            range: key_range(&watched_key(&request), &request.range_end),
            after,
            events: filter_of(&request),
            previous: request.prev_kv,
        };
        let opened = self.reader.add(WatchId(id), wanted).await;
        // Announced before anything it can deliver.
        let header = self.front.header(self.front.store.revision());
        let created =
            pb::WatchResponse { header, watch_id: id, created: true, ..Default::default() };
        match opened {
            Ok(()) => {
                let watch = Watch {
                    start: Revision(start.0.saturating_add(1)),
                    wants_fragments: request.fragment,
                    wants_progress: request.progress_notify,
                    is_quiet: true,
                };
                self.watches.insert(id, watch);
                Ok(self.outbound.send_streamed(&created).await?)
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
        if self.watches.remove(&id).is_none() {
            return Ok(());
        }
        self.reader.remove(WatchId(id));
        let canceled = pb::WatchResponse {
            header: self.front.header(self.front.store.revision()),
            watch_id: id,
            canceled: true,
            ..Default::default()
        };
        Ok(self.outbound.send_streamed(&canceled).await?)
    }

    /// The store ended a watch.
    async fn fail(&mut self, id: i64, err: &Error) -> Result<(), End> {
        self.watches.remove(&id);
        self.reader.remove(WatchId(id));
        let compact_revision = match err {
            Error::Compacted { oldest, .. } => number(*oldest),
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
        Ok(self.outbound.send_streamed(&canceled).await?)
    }

    async fn deliver(&mut self, told: Told) -> Result<(), End> {
        match told {
            Told::Batch { id, batch } => self.send(id.0, batch).await,
            Told::Progress(revision) => {
                self.is_asked = false;
                self.send_progress(NO_WATCH, revision).await?;
                if std::mem::take(&mut self.is_asked_again) {
                    self.ask_progress();
                }
                Ok(())
            }
            Told::Failed { id, error } => self.fail(id.0, &error).await,
        }
    }

    async fn send(&mut self, id: i64, batch: Batch) -> Result<(), End> {
        let Some(watch) = self.watches.get_mut(&id).filter(|_| !batch.events.is_empty()) else {
            return Ok(());
        };
        watch.is_quiet = false;
        let max = self.front.limits.request_bytes;
        let wants_fragments = watch.wants_fragments;
        let mut parts = response::Parts::new(&batch, max, wants_fragments);
        while let Some(response::Part { events, revision, is_fragment }) = parts.next_part() {
            let header = self.front.response_header(revision);
            let delivery = Delivery { header, watch_id: id, is_fragment, events };
            self.outbound.send_streamed(&delivery).await?;
        }
        Ok(())
    }

    async fn send_progress(&mut self, id: i64, revision: Revision) -> Result<(), End> {
        let header = self.front.header(revision);
        let progress = pb::WatchResponse { header, watch_id: id, ..Default::default() };
        Ok(self.outbound.send_streamed(&progress).await?)
    }

    /// One answer for each request, one after the other: asking anew would put the first answer
    /// off, again and again.
    fn ask_progress(&mut self) {
        if self.watches.is_empty() {
            self.is_asked = false;
        } else if std::mem::replace(&mut self.is_asked, true) {
            self.is_asked_again = true;
        } else {
            self.reader.request_progress();
        }
    }

    /// Tells quiet watches that want it how far they are.
    async fn tick(&mut self) -> Result<(), End> {
        let mut quiet = Vec::new();
        for (id, watch) in self.watches.iter_mut().filter(|(_, it)| it.wants_progress) {
            if std::mem::replace(&mut watch.is_quiet, true) {
                quiet.push((*id, watch.start));
            }
        }
        for (id, start) in quiet {
            // A progress revision below the start would send a resuming client back.
            if let Some(revision) = self.reader.progress(WatchId(id)).filter(|it| *it >= start) {
                self.send_progress(id, revision).await?;
            }
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::Watch;

    #[test]
    fn a_watch_of_a_stream_takes_as_little_as_it_says() {
        assert!(size_of::<Watch>() <= 16, "{}", size_of::<Watch>());
    }
}
