//! What is counted of `matchConditions`, under upstream's names.

use telemetry::{Buckets, Counter, Description, Family, Histogram, Registry, Stability};

use super::Judged;
use crate::attributes::Operation;

const LABELS: [&str; 4] = ["name", "kind", "type", "operation"];
const ERRORS: Description<4> = Description {
    name: "apiserver_admission_match_condition_evaluation_errors_total",
    stability: Stability::Alpha,
    help: "Admission match condition evaluation errors count, identified by name of resource containing the match condition and broken out for each kind containing matchConditions (webhook or policy), operation and admission type (validate or admit).",
    labels: LABELS,
};
const EXCLUSIONS: Description<4> = Description {
    name: "apiserver_admission_match_condition_exclusions_total",
    stability: Stability::Alpha,
    help: "Admission match condition evaluation exclusions count, identified by name of resource containing the match condition and broken out for each kind containing matchConditions (webhook or policy), operation and admission type (validate or admit).",
    labels: LABELS,
};
const SECONDS: Description<4> = Description {
    name: "apiserver_admission_match_condition_evaluation_seconds",
    stability: Stability::Alpha,
    help: "Admission match condition evaluation time in seconds, identified by name and broken out for each kind containing matchConditions (webhook or policy), operation and type (validate or admit).",
    labels: LABELS,
};
const BOUNDS: [f64; 7] = [0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25];

/// Whose conditions they are.
#[derive(Clone, Copy)]
pub(crate) enum Of<'a> {
    /// Its name, and `admit` or `validating`.
    Webhook(&'a str, &'static str),
    /// Of either kind: upstream tells them apart by name alone.
    Policy(&'a str),
}

/// Names of webhooks and policies are few: those that there are.
pub(crate) struct Metrics {
    errors: Family<Counter, 4>,
    exclusions: Family<Counter, 4>,
    seconds: Family<Histogram, 4>,
}

impl Metrics {
    pub(crate) fn new(registry: &Registry) -> Self {
        Self {
            errors: registry.counters(&ERRORS),
            exclusions: registry.counters(&EXCLUSIONS),
            seconds: registry.histograms(&SECONDS, Buckets::seconds(&BOUNDS)),
        }
    }

    pub(crate) fn judged(&self, of: Of<'_>, operation: Operation, judged: &Judged) {
        let labels = of.labels(operation);
        self.seconds.with(labels).observe(judged.elapsed);
        if judged.n_errors > 0 {
            self.errors.with(labels).add(judged.n_errors);
        }
    }

    /// A webhook is not asked, because of its conditions.
    pub(crate) fn excluded(&self, of: Of<'_>, operation: Operation) {
        self.exclusions.with(of.labels(operation)).increment();
    }
}

impl<'a> Of<'a> {
    fn labels(self, operation: Operation) -> [&'a str; 4] {
        match self {
            Self::Webhook(name, phase) => [name, "webhook", phase, operation.text()],
            Self::Policy(name) => [name, "policy", "validate", operation.text()],
        }
    }
}
