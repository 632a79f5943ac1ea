//! What a client counts, under client-go's names.

use std::time::Duration;

use http::Method;
use telemetry::{Buckets, Counter, Description, Family, Histogram, Registry, Stability};

const REQUESTS: Description<3> = Description {
    name: "rest_client_requests_total",
    stability: Stability::Alpha,
    help: "Number of HTTP requests, partitioned by status code, method, and host.",
    labels: ["code", "method", "host"],
};
const DURATION: Description<2> = Description {
    name: "rest_client_request_duration_seconds",
    stability: Stability::Alpha,
    help: "Request latency in seconds. Broken down by verb, and host.",
    labels: ["verb", "host"],
};
const RETRIES: Description<3> = Description {
    name: "rest_client_request_retries_total",
    stability: Stability::Alpha,
    help: "Number of request retries, partitioned by status code, verb, and host.",
    labels: ["code", "verb", "host"],
};
const BOUNDS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];

pub(super) struct Metrics {
    requests: Family<Counter, 3>,
    duration: Family<Histogram, 2>,
    retries: Family<Counter, 3>,
    /// `name:port` of the first server.
    host: String,
}

impl Metrics {
    pub(super) fn new(registry: &Registry, host: String) -> Self {
        Self {
            requests: registry.counters(&REQUESTS),
            duration: registry.histograms(&DURATION, Buckets::seconds(&BOUNDS)),
            retries: registry.counters(&RETRIES),
            host,
        }
    }

    /// A request was answered, or not: then there is no code. `host` is who was asked; `None`:
    /// nobody could be.
    pub(super) fn answered(
        &self,
        method: &Method,
        host: Option<&str>,
        code: Option<u16>,
        elapsed: Duration,
    ) {
        let text = code.map(|it| it.to_string());
        let code = text.as_deref().unwrap_or("<error>");
        let host = host.unwrap_or(&self.host);
        self.requests.with([code, method.as_str(), host]).increment();
        self.duration.with([method.as_str(), host]).observe(elapsed);
    }

    pub(super) fn retried(&self, method: &Method, code: u16) {
        self.retries.with([&code.to_string(), method.as_str(), &self.host]).increment();
    }
}
