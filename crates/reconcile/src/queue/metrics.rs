//! What a queue shows of itself, under client-go's names.

use std::sync::Arc;
use std::time::Duration;

use telemetry::{
    Buckets, Counter, Description, Gauge, Histogram, Registry, Stability, exponential,
};

const fn describe(name: &'static str, help: &'static str) -> Description<1> {
    Description { name, stability: Stability::Beta, help, labels: ["name"] }
}

const DEPTH: Description<1> = describe("workqueue_depth", "Current depth of workqueue");
const ADDS: Description<1> =
    describe("workqueue_adds_total", "Total number of adds handled by workqueue");
const RETRIES: Description<1> =
    describe("workqueue_retries_total", "Total number of retries handled by workqueue");
const QUEUE_DURATION: Description<1> = describe(
    "workqueue_queue_duration_seconds",
    "How long in seconds an item stays in workqueue before being requested.",
);
const WORK_DURATION: Description<1> = describe(
    "workqueue_work_duration_seconds",
    "How long in seconds processing an item from workqueue takes.",
);
const UNFINISHED: Description<1> = describe(
    "workqueue_unfinished_work_seconds",
    "How many seconds of work has done that is in progress and hasn't been observed by work_duration. Large values \
     indicate stuck threads. One can deduce the number of stuck threads by observing the rate at which this increases.",
);
const LONGEST: Description<1> = describe(
    "workqueue_longest_running_processor_seconds",
    "How many seconds has the longest running processor for workqueue been running.",
);
const BUCKETS: Buckets = Buckets::seconds(&exponential::<10>(10e-9, 10.0));

pub(super) struct Metrics {
    pub(super) depth: Arc<Gauge>,
    pub(super) adds: Arc<Counter>,
    pub(super) retries: Arc<Counter>,
    pub(super) waited: Arc<Histogram>,
    pub(super) worked: Arc<Histogram>,
    unfinished: Arc<Gauge>,
    longest: Arc<Gauge>,
}

impl Metrics {
    pub(super) fn new(registry: &Registry, name: &str) -> Self {
        Self {
            depth: registry.gauges(&DEPTH).with([name]),
            adds: registry.counters(&ADDS).with([name]),
            retries: registry.counters(&RETRIES).with([name]),
            waited: registry.histograms(&QUEUE_DURATION, BUCKETS).with([name]),
            worked: registry.histograms(&WORK_DURATION, BUCKETS).with([name]),
            unfinished: registry.gauges(&UNFINISHED).with([name]),
            longest: registry.gauges(&LONGEST).with([name]),
        }
    }

    /// What is under way, and since when.
    pub(super) fn show(&self, depth: usize, running: impl Iterator<Item = Duration>) {
        let (mut all, mut longest) = (Duration::ZERO, Duration::ZERO);
        for elapsed in running {
            all += elapsed;
            longest = longest.max(elapsed);
        }
        self.depth.set(depth as f64);
        self.unfinished.set(all.as_secs_f64());
        self.longest.set(longest.as_secs_f64());
    }
}
