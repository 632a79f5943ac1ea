//! How long the rules of custom resources take, under upstream's names. Upstream measures each part
//! of a schema on its own, here it is a schema, and an object, as a whole.

use std::sync::Arc;

use api::apiextensions::custom_resource::{Stopwatch, Work};
use telemetry::{Buckets, Description, Histogram, Registry, Stability};
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
const BOUNDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

pub(super) struct Metrics {
    compilation: Arc<Histogram>,
    evaluation: Arc<Histogram>,
}

impl Metrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let histogram = |it| registry.histogram(it, Buckets::seconds(&BOUNDS));
        Self { compilation: histogram(&COMPILATION), evaluation: histogram(&EVALUATION) }
    }
}

impl Stopwatch for Metrics {
    fn time(&self, what: Work, work: &mut dyn FnMut()) {
        let begin = Instant::now();
        work();
        let histogram = match what {
            Work::Compilation => &self.compilation,
            Work::Evaluation => &self.evaluation,
        };
        histogram.observe(begin.elapsed());
    }
}
