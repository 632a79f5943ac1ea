//! How long the rules of custom resources take, under upstream's names, and as upstream measures it:
//! each part of a schema and each value that has rules, or has something in it that has, by itself.

use std::sync::Arc;

use api::apiextensions::custom_resource::{Stopwatch, Work};
use telemetry::{Buckets, Description, Histogram, Registry, Stability};
use tokio::sync::Notify;
use tokio::time::Instant;

const COMPILATION: Description<0> = Description {
    name: "apiserver_cel_compilation_duration_seconds",
    stability: Stability::Beta,
    help: "CEL compilation time in seconds.",
    labels: [],
};
const EVALUATION: Description<0> = Description {
    name: "apiserver_cel_evaluation_duration_seconds",
    stability: Stability::Beta,
    help: "CEL evaluation time in seconds.",
    labels: [],
};
const COMPARISON: Description<0> = Description {
    name: "apiextensions_apiserver_validation_ratcheting_seconds",
    stability: Stability::Alpha,
    help: "Time for comparison of old to new for the purposes of CRDValidationRatcheting during an UPDATE in seconds.",
    labels: [],
};
const BOUNDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// From 10 us.
const BOUNDS_OF_COMPARISON: [f64; 10] =
    [0.00001, 0.00004, 0.00016, 0.00064, 0.00256, 0.01024, 0.04096, 0.16384, 0.65536, 2.62144];

pub(super) struct Metrics {
    compilation: Arc<Histogram>,
    evaluation: Arc<Histogram>,
    comparison: Arc<Histogram>,
    /// What nanoseconds are counted from.
    epoch: Instant,
    /// Something was compiled.
    compiled: Arc<Notify>,
}

impl Metrics {
    pub(super) fn new(registry: &Registry, compiled: Arc<Notify>) -> Self {
        let histogram = |it| registry.histogram(it, Buckets::seconds(&BOUNDS));
        let (compilation, evaluation) = (histogram(&COMPILATION), histogram(&EVALUATION));
        let bounds = Buckets::seconds(&BOUNDS_OF_COMPARISON);
        let comparison = registry.histogram(&COMPARISON, bounds);
        Self { compilation, evaluation, comparison, epoch: Instant::now(), compiled }
    }
}

impl Stopwatch for Metrics {
    fn begin(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn end(&self, what: Work, begin: u64) {
        let histogram = match what {
            Work::Compilation => &self.compilation,
            Work::Evaluation => &self.evaluation,
            Work::Comparison => &self.comparison,
        };
        histogram.observe_units(self.begin() - begin);
    }

    fn compiled(&self) {
        self.compiled.notify_one();
    }
}
