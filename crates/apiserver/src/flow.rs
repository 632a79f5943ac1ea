//! Flow control: how many requests run at once, and who they count as. Watches and exempt requests
//! are not counted. A request that finds the line full is told to come back in a second.
//!
//! A seat is kept until the answer has been sent, or whoever asked has gone: an answer that nobody
//! reads holds memory. What an answer holds of its own, beside what the cache has anyway, is
//! counted too, whoever asked.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::{ApiError, User};
use authn::Authenticated;
use stdx::Random;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const READONLY_MAX: usize = 400;
const MUTATING_MAX: usize = 200;
/// Requests that may wait for a seat, in each of the two lines.
const WAITING_MAX: usize = 1_000;

/// What answers under way may hold in all.
const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Answers of this size and more are counted, in units of it.
const ANSWER_UNIT: usize = 256 * 1024;
/// How long an answer waits for others to be read.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(30);

struct Line {
    seats: Arc<Semaphore>,
    places: Semaphore,
}

/// A caller that is known, and whose turn it is. Only flow control makes one.
pub(crate) struct Seated {
    authenticated: Authenticated,
    seat: Seat,
}

/// What is given back when the answer has been sent; empty for requests that are not counted.
#[derive(Default)]
pub(crate) struct Seat(Vec<OwnedSemaphorePermit>);

/// What a request takes of the server, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    Read,
    Write,
    /// Watches and streams: they last, and do nothing most of the time.
    Long,
}

impl Seated {
    pub(crate) fn authenticated(&self) -> &Authenticated {
        &self.authenticated
    }

    /// For the answer to keep.
    pub(crate) fn into_seat(self) -> Seat {
        self.seat
    }
}

pub(crate) struct Flow {
    readonly: Line,
    mutating: Line,
    answers: Arc<Semaphore>,
    /// Made up once per process: clients only see that they stay the same.
    uids: Vec<(&'static str, String)>,
}

/// The flow schema and the priority level that a request counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Class {
    pub(crate) schema: &'static str,
    pub(crate) level: &'static str,
}

const NAMES: &[&str] = &[
    "exempt",
    "catch-all",
    "global-default",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-system-service-accounts",
    "leader-election",
    "node-high",
    "probes",
    "service-accounts",
    "system",
    "system-leader-election",
    "system-node-high",
    "system-nodes",
    "workload-high",
    "workload-low",
];

impl Flow {
    pub(crate) fn new(random: &Random) -> Self {
        let line = |seats| Line {
            seats: Arc::new(Semaphore::new(seats)),
            places: Semaphore::new(WAITING_MAX),
        };
        Self {
            readonly: line(READONLY_MAX),
            mutating: line(MUTATING_MAX),
            answers: Arc::new(Semaphore::new(ANSWER_BYTES_MAX / ANSWER_UNIT)),
            uids: NAMES.iter().map(|it| (*it, random.uuid())).collect(),
        }
    }

    pub(crate) fn uid(&self, name: &str) -> &str {
        self.uids.iter().find(|it| it.0 == name).map_or("", |it| it.1.as_str())
    }

    /// Waits for a seat.
    pub(crate) async fn enter(
        &self,
        authenticated: Authenticated,
        class: Class,
        length: Length,
    ) -> Result<Seated, ApiError> {
        let seat = self.seat(class, length).await?;
        Ok(Seated { authenticated, seat })
    }

    pub(crate) async fn seat(&self, class: Class, length: Length) -> Result<Seat, ApiError> {
        if class.level == "exempt" {
            return Ok(Seat::default());
        }
        let line = match length {
            Length::Long => return Ok(Seat::default()),
            Length::Read => &self.readonly,
            Length::Write => &self.mutating,
        };
        let seat = match line.seats.clone().try_acquire_owned() {
            Ok(seat) => seat,
            Err(_) => {
                let _place = line.places.try_acquire().map_err(|_| full())?;
                line.seats.clone().acquire_owned().await.map_err(|_| full())?
            }
        };
        Ok(Seat(vec![seat]))
    }

    #[cfg(test)]
    pub(crate) fn n_free(&self) -> usize {
        self.readonly.seats.available_permits()
    }

    /// Waits until an answer that holds `bytes` of its own may be made. More than all there is
    /// counts as all.
    pub(crate) async fn make_room(&self, seat: &mut Seat, bytes: usize) -> Result<(), ApiError> {
        if bytes < ANSWER_UNIT {
            return Ok(());
        }
        let units = bytes.div_ceil(ANSWER_UNIT).min(ANSWER_BYTES_MAX / ANSWER_UNIT);
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        let room = self.answers.clone().acquire_many_owned(units);
        match tokio::time::timeout(ANSWER_WAIT_MAX, room).await {
            Ok(Ok(room)) => seat.0.push(room),
            _ => return Err(full()),
        }
        Ok(())
    }
}

fn full() -> ApiError {
    ApiError::too_many_requests("too many requests, please try again later", 1)
}

/// The first flow schema that fits, as the bootstrap configuration orders them.
pub(crate) fn classify(user: &User, verb: &str, resource: Option<&str>, path: &str) -> Class {
    let class = |schema, level| Class { schema, level };
    let is_probe = matches!(path, "/healthz" | "/readyz" | "/livez");
    if user.is_in("system:masters") {
        return class("exempt", "exempt");
    }
    if is_probe && verb == "get" {
        return class("probes", "exempt");
    }
    let is_kube_system = user.is_in("system:serviceaccounts:kube-system");
    let is_component =
        matches!(user.name.as_str(), "system:kube-controller-manager" | "system:kube-scheduler");
    if resource == Some("leases")
        && (is_component || is_kube_system)
        && matches!(verb, "get" | "create" | "update")
    {
        return class("system-leader-election", "leader-election");
    }
    if user.is_in("system:nodes") {
        return if matches!(resource, Some("nodes" | "leases")) {
            class("system-node-high", "node-high")
        } else {
            class("system-nodes", "system")
        };
    }
    match user.name.as_str() {
        "system:kube-controller-manager" => class("kube-controller-manager", "workload-high"),
        "system:kube-scheduler" => class("kube-scheduler", "workload-high"),
        _ if is_kube_system => class("kube-system-service-accounts", "workload-high"),
        _ if user.is_in("system:serviceaccounts") => class("service-accounts", "workload-low"),
        _ if user.is_in("system:authenticated") || user.is_in("system:unauthenticated") => {
            class("global-default", "global-default")
        }
        _ => class("catch-all", "catch-all"),
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use stdx::Random;

    use super::{ANSWER_BYTES_MAX, Class, Flow, Length, READONLY_MAX, Seat, WAITING_MAX};

    const WORKLOAD: Class = Class { schema: "service-accounts", level: "workload-low" };

    #[test]
    fn a_full_line_sends_clients_away_for_a_second() {
        let flow = Flow::new(&Random::from_seed(1));
        let mut context = Context::from_waker(Waker::noop());
        let mut seats = Vec::new();
        for _ in 0..READONLY_MAX {
            let Poll::Ready(Ok(seat)) = pin!(flow.seat(WORKLOAD, Length::Read)).poll(&mut context)
            else {
                panic!("there are seats left");
            };
            seats.push(seat);
        }
        let mut waiting: Vec<_> =
            (0..WAITING_MAX).map(|_| Box::pin(flow.seat(WORKLOAD, Length::Read))).collect();
        for it in &mut waiting {
            assert!(it.as_mut().poll(&mut context).is_pending());
        }
        let Poll::Ready(Err(full)) = pin!(flow.seat(WORKLOAD, Length::Read)).poll(&mut context)
        else {
            panic!("the line is full");
        };
        assert_eq!((full.code(), full.retry_after_seconds()), (429, Some(1)));
        // Neither the other line nor those who are exempt wait for this one.
        let exempt = Class { schema: "exempt", level: "exempt" };
        for (class, length) in
            [(WORKLOAD, Length::Write), (WORKLOAD, Length::Long), (exempt, Length::Read)]
        {
            assert!(pin!(flow.seat(class, length)).poll(&mut context).is_ready());
        }
        seats.pop();
        assert!(waiting[0].as_mut().poll(&mut context).is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn answers_that_are_not_read_make_others_wait_and_then_go() {
        let flow = Flow::new(&Random::from_seed(1));
        let mut seats: Vec<Seat> = (0..4).map(|_| Seat::default()).collect();
        for seat in &mut seats[..2] {
            flow.make_room(seat, ANSWER_BYTES_MAX / 2).await.expect("room");
        }
        // Small ones never wait.
        flow.make_room(&mut seats[2], 1_000).await.expect("room");
        let full = flow.make_room(&mut seats[3], ANSWER_BYTES_MAX * 2).await.expect_err("full");
        assert_eq!(full.code(), 429);
        seats.truncate(0);
        flow.make_room(&mut Seat::default(), ANSWER_BYTES_MAX * 2).await.expect("room again");
    }
}
