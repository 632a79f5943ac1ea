//! What one connection is doing, as far as its patience is concerned. The state is pure but for the
//! time that is passed in.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::Timeouts;

/// Shared by the socket, the requests on it, and the room that counts it.
#[derive(Debug)]
pub struct Meter {
    state: Mutex<State>,
    /// The room needs its place, or its client is not known any more.
    evicted: CancellationToken,
    /// The socket is closed, whoever had it last.
    closed: CancellationToken,
    /// It should end after what is in flight.
    farewell: Notify,
}

#[derive(Debug)]
struct State {
    /// Requests whose answer is not yet handed over whole.
    in_flight: BTreeMap<u64, Flight>,
    next: u64,
    /// Whether there has been a request.
    was_asked: bool,
    /// When the last request ended.
    idle_since: Instant,
    /// When the first byte came of a request whose head is not there yet.
    began: Option<Instant>,
    /// Since when bytes wait to be taken by the peer.
    blocked_since: Option<Instant>,
    /// Whether a byte that comes in begins a request. Not so in HTTP/2, where frames have other
    /// purposes too.
    bytes_are_requests: bool,
    /// It speaks something else than HTTP now, for as long as it likes.
    is_upgraded: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Flight {
    /// Its reader may pause for as long as it likes.
    is_patient: bool,
    /// Since when a piece of the answer waits for the next one to be asked for.
    handed: Option<Instant>,
}

/// Why a connection should end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overdue {
    /// No request in flight: nothing is lost.
    Idle,
    /// A request's head that does not come.
    Header,
    /// Bytes wait for a reader that takes none.
    Stalled,
}

impl Meter {
    pub(crate) fn new() -> Arc<Self> {
        let state = State {
            in_flight: BTreeMap::new(),
            next: 0,
            was_asked: false,
            idle_since: Instant::now(),
            began: None,
            blocked_since: None,
            bytes_are_requests: true,
            is_upgraded: false,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            evicted: CancellationToken::new(),
            closed: CancellationToken::new(),
            farewell: Notify::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request begins; it ends when what is returned is dropped.
    pub fn begin(self: &Arc<Self>) -> Exchange {
        let mut state = self.state();
        let id = state.next;
        state.next += 1;
        state.in_flight.insert(id, Flight::default());
        state.was_asked = true;
        state.began = None;
        drop(state);
        Exchange { meter: self.clone(), id }
    }

    pub(crate) fn received(&self) {
        let mut state = self.state();
        if state.in_flight.is_empty() && state.bytes_are_requests {
            state.began.get_or_insert_with(Instant::now);
        }
    }

    pub(crate) fn sent(&self) {
        self.state().blocked_since = None;
    }

    pub(crate) fn blocked(&self) {
        self.state().blocked_since.get_or_insert_with(Instant::now);
    }

    /// The time for the first request begins now.
    pub(crate) fn greeted(&self, bytes_are_requests: bool) {
        let mut state = self.state();
        state.bytes_are_requests = bytes_are_requests;
        state.began = None;
        state.idle_since = Instant::now();
    }

    pub(crate) fn upgraded(&self) {
        self.state().is_upgraded = true;
    }

    /// Whether nothing is lost when it is closed, and since when.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let state = self.state();
        let is_idle =
            state.in_flight.is_empty() && state.blocked_since.is_none() && !state.is_upgraded;
        is_idle.then_some(state.idle_since)
    }

    pub(crate) fn evict(&self) {
        self.evicted.cancel();
    }

    pub(crate) fn is_evicted(&self) -> bool {
        self.evicted.is_cancelled()
    }

    /// For whoever holds the socket, wherever that has gone.
    pub(crate) fn eviction(&self) -> WaitForCancellationFutureOwned {
        self.evicted.clone().cancelled_owned()
    }

    pub(crate) fn close(&self) {
        self.closed.cancel();
    }

    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    pub(crate) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    pub(crate) fn say_farewell(&self) {
        self.farewell.notify_one();
    }

    pub(crate) async fn farewell(&self) {
        self.farewell.notified().await;
    }

    /// Returns when the connection should end. Looks again at least once in the time of a stall, so
    /// that nobody must wake it.
    pub async fn overdue(&self, timeouts: &Timeouts) -> Overdue {
        let mut now = Instant::now();
        loop {
            let deadline = self.state().deadline(timeouts);
            let next = match deadline {
                Some((deadline, why)) if deadline <= now => return why,
                Some((deadline, _)) => deadline.min(now + timeouts.stall),
                None => now + timeouts.stall,
            };
            tokio::time::sleep_until(next).await;
            // Timers and clocks do not agree to the last nanosecond.
            now = Instant::now().max(next);
        }
    }
}

impl State {
    /// When it is overdue if nothing happens until then.
    fn deadline(&self, timeouts: &Timeouts) -> Option<(Instant, Overdue)> {
        if self.is_upgraded {
            return None;
        }
        let is_patient = self.in_flight.values().any(|it| it.is_patient);
        let handed = self.in_flight.values().filter(|it| !it.is_patient).filter_map(|it| it.handed);
        let blocked = self.blocked_since.filter(|_| !is_patient);
        let stalled = handed.chain(blocked).min();
        let stalled = stalled.map(|it| (it + timeouts.stall, Overdue::Stalled));
        if !self.in_flight.is_empty() {
            return stalled;
        }
        let idle = match self.began {
            Some(began) => (began + timeouts.header, Overdue::Header),
            None if !self.was_asked => (self.idle_since + timeouts.header, Overdue::Header),
            None => (self.idle_since + timeouts.idle, Overdue::Idle),
        };
        // While bytes wait it is not idle.
        Some(stalled.unwrap_or(idle))
    }
}

/// One request, from its head to the end of its answer.
#[derive(Debug)]
pub struct Exchange {
    meter: Arc<Meter>,
    id: u64,
}

impl Exchange {
    fn change(&self, change: impl FnOnce(&mut Flight)) {
        if let Some(flight) = self.meter.state().in_flight.get_mut(&self.id) {
            change(flight);
        }
    }

    pub(crate) fn be_patient(&self) {
        self.change(|it| it.is_patient = true);
    }

    /// A piece of the answer was handed over.
    pub(crate) fn handed(&self) {
        self.change(|it| it.handed = Some(Instant::now()));
    }

    /// The next piece is asked for.
    pub(crate) fn asked(&self) {
        self.change(|it| it.handed = None);
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let mut state = self.meter.state();
        state.in_flight.remove(&self.id);
        if state.in_flight.is_empty() {
            state.idle_since = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, advance};

    use super::{Meter, Overdue};
    use crate::Timeouts;

    const TIMEOUTS: Timeouts = Timeouts::HTTPS;

    async fn seconds_until(meter: &Meter) -> (u64, Overdue) {
        let start = Instant::now();
        let why = meter.overdue(&TIMEOUTS).await;
        (start.elapsed().as_secs(), why)
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_request_has_its_time_and_later_ones_have_more() {
        let meter = Meter::new();
        assert_eq!(seconds_until(&meter).await, (32, Overdue::Header));
        drop(meter.begin());
        assert_eq!(seconds_until(&meter).await, (90, Overdue::Idle));
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_trickles_is_not_waited_for() {
        let meter = Meter::new();
        drop(meter.begin());
        advance(Duration::from_secs(80)).await;
        meter.received();
        advance(Duration::from_secs(30)).await;
        meter.received();
        assert_eq!(seconds_until(&meter).await, (2, Overdue::Header));
    }

    #[tokio::test(start_paused = true)]
    async fn frames_of_http2_that_are_no_request_keep_nothing_alive() {
        let meter = Meter::new();
        meter.greeted(false);
        drop(meter.begin());
        advance(Duration::from_secs(60)).await;
        meter.received();
        assert_eq!(seconds_until(&meter).await, (30, Overdue::Idle));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_in_flight_is_not_idle_however_long_it_takes() {
        let meter = Meter::new();
        let exchange = meter.begin();
        let waited = tokio::time::timeout(Duration::from_secs(3_600), meter.overdue(&TIMEOUTS));
        assert!(waited.await.is_err());
        assert_eq!(meter.idle_since(), None);
        drop(exchange);
        assert_eq!(seconds_until(&meter).await, (90, Overdue::Idle));
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_nothing_is_overdue_unless_it_may_pause() {
        let meter = Meter::new();
        let (unread, watch) = (meter.begin(), meter.begin());
        unread.handed();
        watch.handed();
        watch.asked();
        assert_eq!(seconds_until(&meter).await, (60, Overdue::Stalled));
        unread.be_patient();
        meter.blocked();
        let waited = tokio::time::timeout(Duration::from_secs(3_600), meter.overdue(&TIMEOUTS));
        assert!(waited.await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_still_being_sent_after_the_answer_is_not_idle() {
        let meter = Meter::new();
        drop(meter.begin());
        meter.blocked();
        assert_eq!(meter.idle_since(), None);
        assert_eq!(seconds_until(&meter).await, (60, Overdue::Stalled));
        meter.sent();
        assert_eq!(seconds_until(&meter).await, (30, Overdue::Idle));
    }
}
