//! What the controller shows of itself, under upstream's names.

use std::sync::Arc;

use apimachinery::ObjectKey;
use telemetry::{
    Buckets, Counter, Description, Family, Histogram, Registry, Stability, exponential,
};

use super::plan::Mirrored;
use crate::slices::{BUCKETS, Tally, TallyNames};

const fn plain(name: &'static str, help: &'static str) -> Description<0> {
    Description { name, stability: Stability::Alpha, help, labels: [] }
}

const ADDED: Description<0> = plain(
    "endpoint_slice_mirroring_controller_endpoints_added_per_sync",
    "Number of endpoints added on each Endpoints sync",
);
const UPDATED: Description<0> = plain(
    "endpoint_slice_mirroring_controller_endpoints_updated_per_sync",
    "Number of endpoints updated on each Endpoints sync",
);
const REMOVED: Description<0> = plain(
    "endpoint_slice_mirroring_controller_endpoints_removed_per_sync",
    "Number of endpoints removed on each Endpoints sync",
);
const SKIPPED: Description<0> = plain(
    "endpoint_slice_mirroring_controller_addresses_skipped_per_sync",
    "Number of addresses skipped on each Endpoints sync due to being invalid or exceeding \
     MaxEndpointsPerSubset",
);
const SYNC_DURATION: Description<0> = plain(
    "endpoint_slice_mirroring_controller_endpoints_sync_duration",
    "Duration of syncEndpoints() in seconds",
);
const CHANGES: Description<1> = Description {
    name: "endpoint_slice_mirroring_controller_changes",
    stability: Stability::Alpha,
    help: "Number of EndpointSlice changes",
    labels: ["operation"],
};
const TALLY: TallyNames = TallyNames {
    endpoints: plain(
        "endpoint_slice_mirroring_controller_endpoints_desired",
        "Number of endpoints desired",
    ),
    slices: plain(
        "endpoint_slice_mirroring_controller_num_endpoint_slices",
        "Number of EndpointSlices",
    ),
    desired_slices: plain(
        "endpoint_slice_mirroring_controller_desired_endpoint_slices",
        "Number of EndpointSlices that would exist with perfect endpoint allocation",
    ),
};
const SECONDS: Buckets = Buckets::seconds(&exponential::<15>(0.001, 2.0));

pub(super) struct Metrics {
    added: Arc<Histogram>,
    updated: Arc<Histogram>,
    removed: Arc<Histogram>,
    skipped: Arc<Histogram>,
    pub(super) sync_duration: Arc<Histogram>,
    pub(super) changes: Family<Counter, 1>,
    pub(super) tally: Tally,
}

impl Metrics {
    pub(super) fn new(registry: &Registry, max_per_subset: usize) -> Self {
        Self {
            added: registry.histogram(&ADDED, BUCKETS),
            updated: registry.histogram(&UPDATED, BUCKETS),
            removed: registry.histogram(&REMOVED, BUCKETS),
            skipped: registry.histogram(&SKIPPED, BUCKETS),
            sync_duration: registry.histogram(&SYNC_DURATION, SECONDS),
            changes: registry.counters(&CHANGES),
            tally: Tally::new(registry, &TALLY, max_per_subset),
        }
    }

    pub(super) fn synced(&self, key: &ObjectKey, mirrored: &Mirrored) {
        self.added.observe_units(mirrored.n_added as u64);
        self.updated.observe_units(mirrored.n_updated as u64);
        self.removed.observe_units(mirrored.n_removed as u64);
        self.skipped.observe_units(mirrored.n_skipped as u64);
        self.tally.set(key, mirrored.groups.clone());
    }
}
