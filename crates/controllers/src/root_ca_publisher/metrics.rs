//! What the controller shows of itself, under upstream's names.

use std::time::Duration;

use reconcile::Failed;
use telemetry::{
    Buckets, Counter, Description, Family, Histogram, Registry, Stability, exponential,
};

const SYNCS: Description<1> = Description {
    name: "root_ca_cert_publisher_sync_total",
    stability: Stability::Alpha,
    help: "Number of namespace syncs happened in root ca cert publisher.",
    labels: ["code"],
};
const DURATION: Description<1> = Description {
    name: "root_ca_cert_publisher_sync_duration_seconds",
    stability: Stability::Alpha,
    help: "Number of namespace syncs happened in root ca cert publisher.",
    labels: ["code"],
};
const BUCKETS: Buckets = Buckets::seconds(&exponential::<15>(0.001, 2.0));

pub(super) struct Metrics {
    syncs: Family<Counter, 1>,
    duration: Family<Histogram, 1>,
}

impl Metrics {
    pub(super) fn new(registry: &Registry) -> Self {
        Self { syncs: registry.counters(&SYNCS), duration: registry.histograms(&DURATION, BUCKETS) }
    }

    /// By the code of the answer; 200 where there was nothing to ask for.
    pub(super) fn synced<T>(&self, outcome: &Result<T, Failed>, took: Duration) {
        let code = outcome.as_ref().map_or_else(|err| err.cause().code(), |_| 200).to_string();
        self.duration.with([&code]).observe(took);
        self.syncs.with([&code]).increment();
    }
}
