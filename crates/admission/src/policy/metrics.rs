//! What is counted of policies, under upstream's names.

use std::time::Duration;

use telemetry::{Buckets, Counter, Description, Family, Histogram, Registry, Stability};

use super::conditions;
use super::evaluation::OUT_OF_BUDGET;

const VALIDATING_CHECKS: Description<4> = Description {
    name: "apiserver_validating_admission_policy_check_total",
    stability: Stability::Beta,
    help: "Validation admission policy check total, labeled by policy and further identified by binding and enforcement action taken.",
    labels: ["policy", "policy_binding", "error_type", "enforcement_action"],
};
const VALIDATING_DURATION: Description<4> = Description {
    name: "apiserver_validating_admission_policy_check_duration_seconds",
    stability: Stability::Beta,
    help: "Validation admission latency for individual validation expressions in seconds, labeled by policy and further including binding and enforcement action taken.",
    labels: ["policy", "policy_binding", "error_type", "enforcement_action"],
};
const MUTATING_CHECKS: Description<3> = Description {
    name: "apiserver_mutating_admission_policy_check_total",
    stability: Stability::Alpha,
    help: "Mutation admission policy check total, labeled by policy and further identified by binding.",
    labels: ["policy", "policy_binding", "error_type"],
};
const MUTATING_DURATION: Description<3> = Description {
    name: "apiserver_mutating_admission_policy_check_duration_seconds",
    stability: Stability::Alpha,
    help: "Mutation admission latency for individual mutation expressions in seconds, labeled by policy and binding.",
    labels: ["policy", "policy_binding", "error_type"],
};
const BOUNDS: [f64; 5] = [0.000_000_5, 0.001, 0.01, 0.1, 1.0];

/// Names of policies and bindings are few: those that there are.
pub(crate) struct Metrics {
    validating_checks: Family<Counter, 4>,
    validating_duration: Family<Histogram, 4>,
    mutating_checks: Family<Counter, 3>,
    mutating_duration: Family<Histogram, 3>,
    pub(crate) conditions: conditions::metrics::Metrics,
}

impl Metrics {
    pub(super) fn new(registry: &Registry) -> Self {
        Self {
            validating_checks: registry.counters(&VALIDATING_CHECKS),
            validating_duration: registry
                .histograms(&VALIDATING_DURATION, Buckets::seconds(&BOUNDS)),
            mutating_checks: registry.counters(&MUTATING_CHECKS),
            mutating_duration: registry.histograms(&MUTATING_DURATION, Buckets::seconds(&BOUNDS)),
            conditions: conditions::metrics::Metrics::new(registry),
        }
    }

    /// What was not met, or could not be evaluated: `why`. `action` is `allow`, `deny`, `audit` or
    /// `warn`.
    pub(crate) fn validated(
        &self,
        (policy, binding): (&str, &str),
        why: &str,
        action: &str,
        elapsed: Duration,
    ) {
        let labels = [policy, binding, error_type(why), action];
        self.validating_checks.with(labels).increment();
        self.validating_duration.with(labels).observe(elapsed);
    }

    /// One mutation; `why` it could not be done.
    pub(crate) fn mutated(
        &self,
        (policy, binding): (&str, &str),
        why: Option<&str>,
        elapsed: Duration,
    ) {
        let labels = [policy, binding, why.map_or("no_error", error_type)];
        self.mutating_checks.with(labels).increment();
        self.mutating_duration.with(labels).observe(elapsed);
    }
}

/// As upstream tells them apart, by how the text begins: also what is merely not met is invalid.
fn error_type(why: &str) -> &'static str {
    match why {
        _ if why.starts_with("compilation") => "compile_error",
        _ if why.starts_with(OUT_OF_BUDGET) => "out_of_budget",
        _ => "invalid_error",
    }
}
