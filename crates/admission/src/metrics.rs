//! How long admission takes, under upstream's names: each phase as a whole, and each plugin that
//! has something to say.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use telemetry::{Buckets, Description, Family, Histogram, MaxAge, Registry, Stability, Summary};

use crate::attributes::Operation;
use crate::chain::Phase;

const STEP: Description<3> = Description {
    name: "apiserver_admission_step_admission_duration_seconds",
    stability: Stability::Stable,
    help: "Admission sub-step latency histogram in seconds, broken out for each operation and API resource and step type (validate or admit).",
    labels: ["type", "operation", "rejected"],
};
const STEP_SUMMARY: Description<3> = Description {
    name: "apiserver_admission_step_admission_duration_seconds_summary",
    stability: Stability::Alpha,
    help: "Admission sub-step latency summary in seconds, broken out for each operation and API resource and step type (validate or admit).",
    labels: ["type", "operation", "rejected"],
};
const PLUGIN: Description<4> = Description {
    name: "apiserver_admission_controller_admission_duration_seconds",
    stability: Stability::Stable,
    help: "Admission controller latency histogram in seconds, identified by name and broken out for each operation and API resource and type (validate or admit).",
    labels: ["name", "type", "operation", "rejected"],
};
const BOUNDS: [f64; 6] = [0.005, 0.025, 0.1, 0.5, 1.0, 2.5];
const SUMMARY_OF: MaxAge = MaxAge(Duration::from_secs(5 * 3600));
/// Phases, operations, and refused or not.
const CELLS: usize = 2 * Operation::ALL.len() * 2;

pub(crate) struct Metrics {
    steps: Family<Histogram, 3>,
    summaries: Family<Summary, 3>,
    of_steps: Cells<Step>,
    plugins: Family<Histogram, 4>,
    /// By their place in the chain.
    of_plugins: Vec<(&'static str, Cells<Arc<Histogram>>)>,
}

/// Series that were needed, found once each: every write passes by here.
struct Cells<T>([OnceLock<T>; CELLS]);

struct Step {
    histogram: Arc<Histogram>,
    summary: Arc<Summary>,
}

impl Metrics {
    pub(crate) fn new(registry: &Registry, plugins: impl Iterator<Item = &'static str>) -> Self {
        Self {
            steps: registry.histograms(&STEP, Buckets::seconds(&BOUNDS)),
            summaries: registry.summaries(&STEP_SUMMARY, SUMMARY_OF),
            of_steps: Cells::default(),
            plugins: registry.histograms(&PLUGIN, Buckets::seconds(&BOUNDS)),
            of_plugins: plugins.map(|it| (it, Cells::default())).collect(),
        }
    }

    pub(crate) fn step(
        &self,
        phase: Phase,
        operation: Operation,
        is_refused: bool,
        elapsed: Duration,
    ) {
        let cell = self.of_steps.at(phase, operation, is_refused);
        let step = cell.get_or_init(|| {
            let labels = [kind(phase), operation.text(), text(is_refused)];
            Step { histogram: self.steps.with(labels), summary: self.summaries.with(labels) }
        });
        step.histogram.observe(elapsed);
        step.summary.observe(elapsed);
    }

    pub(crate) fn plugin(
        &self,
        index: usize,
        phase: Phase,
        operation: Operation,
        is_refused: bool,
        elapsed: Duration,
    ) {
        let (name, cells) = &self.of_plugins[index];
        let find = || self.plugins.with([name, kind(phase), operation.text(), text(is_refused)]);
        cells.at(phase, operation, is_refused).get_or_init(find).observe(elapsed);
    }
}

impl<T> Default for Cells<T> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| OnceLock::new()))
    }
}

impl<T> Cells<T> {
    fn at(&self, phase: Phase, operation: Operation, is_refused: bool) -> &OnceLock<T> {
        let index = (phase as usize * Operation::ALL.len() + operation as usize) * 2;
        &self.0[index + usize::from(is_refused)]
    }
}

fn kind(phase: Phase) -> &'static str {
    match phase {
        Phase::Mutate => "admit",
        Phase::Validate => "validate",
    }
}

fn text(is_refused: bool) -> &'static str {
    if is_refused { "true" } else { "false" }
}
