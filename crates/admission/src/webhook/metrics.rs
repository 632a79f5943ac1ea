//! What is counted of webhooks, under upstream's names.

use std::time::Duration;

use telemetry::{Buckets, Counter, Description, Family, Histogram, Registry, Stability};

use crate::policy::conditions;

const DURATION: Description<4> = Description {
    name: "apiserver_admission_webhook_admission_duration_seconds",
    stability: Stability::Stable,
    help: "Admission webhook latency histogram in seconds, identified by name and broken out for each operation and API resource and type (validate or admit).",
    labels: ["name", "type", "operation", "rejected"],
};
const REJECTIONS: Description<5> = Description {
    name: "apiserver_admission_webhook_rejection_count",
    stability: Stability::Alpha,
    help: "Admission webhook rejection count, identified by name and broken out for each admission type (validating or admit) and operation. Additional labels specify an error type (calling_webhook_error or apiserver_internal_error if an error occurred; no_error otherwise) and optionally a non-zero rejection code if the webhook rejects the request with an HTTP status code (honored by the apiserver when the code is greater or equal to 400). Codes greater than 600 are truncated to 600, to keep the metrics cardinality bounded.",
    labels: ["name", "type", "operation", "error_type", "rejection_code"],
};
const FAIL_OPEN: Description<2> = Description {
    name: "apiserver_admission_webhook_fail_open_count",
    stability: Stability::Alpha,
    help: "Admission webhook fail open count, identified by name and broken out for each admission type (validating or admit).",
    labels: ["name", "type"],
};
const REQUESTS: Description<5> = Description {
    name: "apiserver_admission_webhook_request_total",
    stability: Stability::Alpha,
    help: "Admission webhook request total, identified by name and broken out for each admission type (validating or admit) and operation. Additional labels specify whether the request was rejected or not and an HTTP status code. Codes greater than 600 are truncated to 600, to keep the metrics cardinality bounded.",
    labels: ["name", "type", "operation", "code", "rejected"],
};
const BOUNDS: [f64; 8] = [0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];
const CODE_MAX: u16 = 600;

/// Names of webhooks are few: those of the configurations that there are.
pub(super) struct Metrics {
    duration: Family<Histogram, 4>,
    rejections: Family<Counter, 5>,
    fail_open: Family<Counter, 2>,
    requests: Family<Counter, 5>,
    pub(super) conditions: conditions::metrics::Metrics,
}

/// One call that is over.
pub(super) struct Called<'a> {
    pub(super) hook: &'a str,
    /// `admit` or `validating`.
    pub(super) phase: &'static str,
    pub(super) operation: &'static str,
}

impl Metrics {
    pub(super) fn new(registry: &Registry) -> Self {
        Self {
            duration: registry.histograms(&DURATION, Buckets::seconds(&BOUNDS)),
            rejections: registry.counters(&REJECTIONS),
            fail_open: registry.counters(&FAIL_OPEN),
            requests: registry.counters(&REQUESTS),
            conditions: conditions::metrics::Metrics::new(registry),
        }
    }

    pub(super) fn observe(
        &self,
        Called { hook, phase, operation }: &Called<'_>,
        (code, is_rejected): (u16, bool),
        elapsed: Duration,
    ) {
        let code = code.min(CODE_MAX).to_string();
        let rejected = if is_rejected { "true" } else { "false" };
        self.duration.with([hook, phase, operation, rejected]).observe(elapsed);
        self.requests.with([hook, phase, operation, &code, rejected]).increment();
    }

    pub(super) fn rejected(
        &self,
        Called { hook, phase, operation }: &Called<'_>,
        why: &str,
        code: u16,
    ) {
        let code = code.min(CODE_MAX).to_string();
        self.rejections.with([hook, phase, operation, why, &code]).increment();
    }

    pub(super) fn failed_open(&self, Called { hook, phase, .. }: &Called<'_>) {
        self.fail_open.with([hook, phase]).increment();
    }
}
