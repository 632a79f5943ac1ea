//! What the scheduler counts, under upstream's names.

use std::sync::Arc;
use std::time::Duration;

use telemetry::{
    Buckets, Counter, Description, Family, Gauge, Histogram, Registry, Stability, exponential,
};

const ATTEMPTS: Description<2> = Description {
    name: "scheduler_schedule_attempts_total",
    stability: Stability::Stable,
    help: "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be scheduled, while \
           'error' means an internal scheduler problem.",
    labels: ["result", "profile"],
};
const ATTEMPT_DURATION: Description<2> = Description {
    name: "scheduler_scheduling_attempt_duration_seconds",
    stability: Stability::Stable,
    help: "Scheduling attempt latency in seconds (scheduling algorithm + binding)",
    labels: ["result", "profile"],
};
const ALGORITHM_DURATION: Description<0> = Description {
    name: "scheduler_scheduling_algorithm_duration_seconds",
    stability: Stability::Alpha,
    help: "Scheduling algorithm latency in seconds",
    labels: [],
};
const SLI_DURATION: Description<1> = Description {
    name: "scheduler_pod_scheduling_sli_duration_seconds",
    stability: Stability::Beta,
    help: "E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and might involve \
           multiple scheduling attempts.",
    labels: ["attempts"],
};
const POD_ATTEMPTS: Description<0> = Description {
    name: "scheduler_pod_scheduling_attempts",
    stability: Stability::Stable,
    help: "Number of attempts to successfully schedule a pod.",
    labels: [],
};
const PENDING: Description<1> = Description {
    name: "scheduler_pending_pods",
    stability: Stability::Stable,
    help: "Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' means number of \
           pods in backoffQ; 'unschedulable' means number of pods in unschedulablePods that the scheduler attempted to \
           schedule and failed; 'gated' is the number of unschedulable pods that the scheduler never attempted to schedule \
           because they are gated.",
    labels: ["queue"],
};
const INCOMING: Description<2> = Description {
    name: "scheduler_queue_incoming_pods_total",
    stability: Stability::Stable,
    help: "Number of pods added to scheduling queues by event and queue type.",
    labels: ["queue", "event"],
};

const MILLISECONDS: [f64; 15] = exponential(0.001, 2.0);
const CENTISECONDS: [f64; 20] = exponential(0.01, 2.0);
const DOUBLING: [f64; 5] = exponential(1.0, 2.0);

/// What came of trying one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Scheduled,
    Unschedulable,
    Error,
}

/// Of one outcome, by its place in the enum.
struct Attempts {
    total: Arc<Counter>,
    duration: Arc<Histogram>,
}

pub(crate) struct Metrics {
    attempts: [Attempts; 3],
    algorithm: Arc<Histogram>,
    sli: Family<Histogram, 1>,
    pod_attempts: Arc<Histogram>,
    pending: Family<Gauge, 1>,
}

/// How many pods are in each place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) active: usize,
    pub(crate) backoff: usize,
    pub(crate) unschedulable: usize,
    pub(crate) gated: usize,
}

impl Metrics {
    pub(crate) fn new(registry: &Registry, profile: &str) -> Self {
        let buckets = Buckets::seconds(&MILLISECONDS);
        let of = |result| Attempts {
            total: registry.counters(&ATTEMPTS).with([result, profile]),
            duration: registry.histograms(&ATTEMPT_DURATION, buckets).with([result, profile]),
        };
        Self {
            attempts: [of("scheduled"), of("unschedulable"), of("error")],
            algorithm: registry.histogram(&ALGORITHM_DURATION, buckets),
            sli: registry.histograms(&SLI_DURATION, Buckets::seconds(&CENTISECONDS)),
            pod_attempts: registry.histogram(&POD_ATTEMPTS, Buckets::units(&DOUBLING)),
            pending: registry.gauges(&PENDING),
        }
    }

    /// A node was looked for, and found or not.
    pub(crate) fn decided(&self, elapsed: Duration) {
        self.algorithm.observe(elapsed);
    }

    /// A pod was tried, binding included.
    pub(crate) fn attempted(&self, outcome: Outcome, elapsed: Duration) {
        let attempts = &self.attempts[outcome as usize];
        attempts.total.increment();
        attempts.duration.observe(elapsed);
    }

    /// A pod that waited for so long was bound.
    pub(crate) fn scheduled(&self, waited: Duration, attempts: u32) {
        // Upstream's bound: a pod may be tried for ever.
        let label = if attempts >= 15 { "15+".to_owned() } else { attempts.to_string() };
        self.sli.with([&label]).observe(waited);
        self.pod_attempts.observe_units(u64::from(attempts));
    }

    pub(crate) fn show_pending(&self, pending: &Pending) {
        let Pending { active, backoff, unschedulable, gated } = *pending;
        for (queue, count) in [
            ("active", active),
            ("backoff", backoff),
            ("unschedulable", unschedulable),
            ("gated", gated),
        ] {
            self.pending.with([queue]).set(count as f64);
        }
    }
}

/// Why a pod came into a queue: upstream's names of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueuedBy {
    UnschedulablePodAdd,
    UnschedulablePodUpdate,
    AssignedPodUpdate,
    AssignedPodDelete,
    NodeAdd,
    NodeUpdate,
    ScheduleAttemptFailure,
    BackoffComplete,
    UnschedulableTimeout,
}

impl QueuedBy {
    fn label(self) -> &'static str {
        match self {
            Self::UnschedulablePodAdd => "UnschedulablePodAdd",
            Self::UnschedulablePodUpdate => "UnschedulablePodUpdate",
            Self::AssignedPodUpdate => "AssignedPodUpdate",
            Self::AssignedPodDelete => "AssignedPodDelete",
            Self::NodeAdd => "NodeAdd",
            Self::NodeUpdate => "NodeUpdate",
            Self::ScheduleAttemptFailure => "ScheduleAttemptFailure",
            Self::BackoffComplete => "BackoffComplete",
            Self::UnschedulableTimeout => "UnschedulableTimeout",
        }
    }
}

/// Counts what comes into the queues.
pub(crate) struct Incoming(Family<Counter, 2>);

impl Incoming {
    pub(crate) fn new(registry: &Registry) -> Self {
        Self(registry.counters(&INCOMING))
    }

    pub(crate) fn count(&self, queue: &'static str, why: QueuedBy) {
        self.0.with([queue, why.label()]).increment();
    }
}
