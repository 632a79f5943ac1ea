//! What is counted of conversion webhooks, under upstream's names.

use std::time::Duration;

use telemetry::{
    Buckets, Counter, Description, Family, Histogram, Registry, Stability, exponential,
};

const DURATION: Description<4> = Description {
    name: "apiserver_crd_conversion_webhook_duration_seconds",
    stability: Stability::Alpha,
    help: "CRD webhook conversion duration in seconds",
    labels: ["crd_name", "from_version", "to_version", "succeeded"],
};
const REQUESTS: Description<2> = Description {
    name: "apiserver_conversion_webhook_request_total",
    stability: Stability::Alpha,
    help: "Counter for conversion webhook requests with success/failure and failure error type",
    labels: ["result", "failure_type"],
};
const REQUEST_DURATION: Description<2> = Description {
    name: "apiserver_conversion_webhook_duration_seconds",
    stability: Stability::Alpha,
    help: "Conversion webhook request latency",
    labels: ["result", "failure_type"],
};
const BY_DEFINITION: [f64; 15] = exponential(0.001, 2.0);
const BOUNDS: [f64; 15] =
    [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0];

/// How a question failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    CallFailure,
    MalformedResponse,
    PartialResponse,
    InvalidConvertedObject,
}

impl Outcome {
    fn name(self) -> &'static str {
        match self {
            Self::CallFailure => "conversion_webhook_call_failure",
            Self::MalformedResponse => "conversion_webhook_malformed_response_failure",
            Self::PartialResponse => "conversion_webhook_partial_response_failure",
            Self::InvalidConvertedObject => "conversion_webhook_invalid_converted_object_failure",
        }
    }
}

/// Definitions and their versions are few: those that there are.
pub(super) struct Metrics {
    duration: Family<Histogram, 4>,
    requests: Family<Counter, 2>,
    request_duration: Family<Histogram, 2>,
}

impl Metrics {
    pub(super) fn new(registry: &Registry) -> Self {
        Self {
            duration: registry.histograms(&DURATION, Buckets::seconds(&BY_DEFINITION)),
            requests: registry.counters(&REQUESTS),
            request_duration: registry.histograms(&REQUEST_DURATION, Buckets::seconds(&BOUNDS)),
        }
    }

    /// One question that is over; `failed` if it was.
    pub(super) fn observe(
        &self,
        definition: &str,
        (from, to): (&str, &str),
        failed: Option<Outcome>,
        elapsed: Duration,
    ) {
        let succeeded = if failed.is_none() { "true" } else { "false" };
        self.duration.with([definition, from, to, succeeded]).observe(elapsed);
        let result = if failed.is_none() { "success" } else { "failure" };
        let kind = failed.map_or("", Outcome::name);
        self.requests.with([result, kind]).increment();
        self.request_duration.with([result, kind]).observe(elapsed);
    }
}
