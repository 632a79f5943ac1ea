//! Flow control: how many requests run at once, and who they count as. Watches and exempt requests are not
//! counted. A request that finds the line full is told to come back in a second.

use apimachinery::{ApiError, User};
use stdx::Random;
use tokio::sync::{Semaphore, SemaphorePermit};

const READONLY_MAX: usize = 400;
const MUTATING_MAX: usize = 200;
/// Requests that may wait for a seat, in each of the two lines.
const WAITING_MAX: usize = 1_000;

struct Line {
    seats: Semaphore,
    places: Semaphore,
}

pub(crate) struct Flow {
    readonly: Line,
    mutating: Line,
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
        let line =
            |seats| Line { seats: Semaphore::new(seats), places: Semaphore::new(WAITING_MAX) };
        Self {
            readonly: line(READONLY_MAX),
            mutating: line(MUTATING_MAX),
            uids: NAMES.iter().map(|it| (*it, random.uuid())).collect(),
        }
    }

    pub(crate) fn uid(&self, name: &str) -> &str {
        self.uids.iter().find(|it| it.0 == name).map_or("", |it| it.1.as_str())
    }

    /// Waits for a seat. `None` for requests that are not counted.
    pub(crate) async fn enter(
        &self,
        class: Class,
        is_mutating: bool,
    ) -> Result<Option<SemaphorePermit<'_>>, ApiError> {
        if class.level == "exempt" {
            return Ok(None);
        }
        let line = if is_mutating { &self.mutating } else { &self.readonly };
        if let Ok(seat) = line.seats.try_acquire() {
            return Ok(Some(seat));
        }
        let full = || ApiError::too_many_requests("too many requests, please try again later", 1);
        let _place = line.places.try_acquire().map_err(|_| full())?;
        line.seats.acquire().await.map(Some).map_err(|_| full())
    }
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

    use super::{Class, Flow, READONLY_MAX, WAITING_MAX};

    const WORKLOAD: Class = Class { schema: "service-accounts", level: "workload-low" };

    #[test]
    fn a_full_line_sends_clients_away_for_a_second() {
        let flow = Flow::new(&Random::from_seed(1));
        let mut context = Context::from_waker(Waker::noop());
        let mut seats = Vec::new();
        for _ in 0..READONLY_MAX {
            let Poll::Ready(Ok(seat)) = pin!(flow.enter(WORKLOAD, false)).poll(&mut context) else {
                panic!("there are seats left");
            };
            seats.push(seat);
        }
        let mut waiting: Vec<_> =
            (0..WAITING_MAX).map(|_| Box::pin(flow.enter(WORKLOAD, false))).collect();
        for it in &mut waiting {
            assert!(it.as_mut().poll(&mut context).is_pending());
        }
        let Poll::Ready(Err(full)) = pin!(flow.enter(WORKLOAD, false)).poll(&mut context) else {
            panic!("the line is full");
        };
        assert_eq!((full.code(), full.retry_after_seconds()), (429, Some(1)));
        // Neither the other line nor those who are exempt wait for this one.
        let exempt = Class { schema: "exempt", level: "exempt" };
        for (class, is_mutating) in [(WORKLOAD, true), (exempt, false)] {
            assert!(pin!(flow.enter(class, is_mutating)).poll(&mut context).is_ready());
        }
        seats.pop();
        assert!(waiting[0].as_mut().poll(&mut context).is_ready());
    }
}
