//! What the controller shows of itself, under upstream's names.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use apimachinery::ObjectKey;
use telemetry::{Buckets, Counter, Description, Family, Gauge, Histogram, Registry, Stability};

use super::hints::Routing;
use super::plan::Plan;
use crate::slices::{BUCKETS, Tally, TallyNames};

const fn plain(name: &'static str, help: &'static str) -> Description<0> {
    Description { name, stability: Stability::Beta, help, labels: [] }
}

const ADDED: Description<0> = plain(
    "endpoint_slice_controller_endpoints_added_per_sync",
    "Number of endpoints added on each Service sync",
);
const REMOVED: Description<0> = plain(
    "endpoint_slice_controller_endpoints_removed_per_sync",
    "Number of endpoints removed on each Service sync",
);
const TALLY: TallyNames = TallyNames {
    endpoints: plain("endpoint_slice_controller_endpoints_desired", "Number of endpoints desired"),
    slices: plain("endpoint_slice_controller_num_endpoint_slices", "Number of EndpointSlices"),
    desired_slices: plain(
        "endpoint_slice_controller_desired_endpoint_slices",
        "Number of EndpointSlices that would exist with perfect endpoint allocation",
    ),
};
const CHANGES: Description<1> = Description {
    name: "endpoint_slice_controller_changes",
    stability: Stability::Alpha,
    help: "Number of EndpointSlice changes",
    labels: ["operation"],
};
const CHANGED: Description<2> = Description {
    name: "endpoint_slice_controller_endpointslices_changed_per_sync",
    stability: Stability::Alpha,
    help: "Number of EndpointSlices changed on each Service sync",
    labels: ["topology", "traffic_distribution"],
};
const SYNCS: Description<1> = Description {
    name: "endpoint_slice_controller_syncs",
    stability: Stability::Alpha,
    help: "Number of EndpointSlice syncs",
    labels: ["result"],
};
const DISTRIBUTIONS: Description<1> = Description {
    name: "endpoint_slice_controller_services_count_by_traffic_distribution",
    stability: Stability::Beta,
    help: "Number of Services using some specific trafficDistribution",
    labels: ["traffic_distribution"],
};
/// Prometheus' own, which upstream left as they are.
const FEW: Buckets =
    Buckets::units(&[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]);

pub(super) struct Metrics {
    added: Arc<Histogram>,
    removed: Arc<Histogram>,
    pub(super) tally: Tally,
    pub(super) changes: Family<Counter, 1>,
    changed: Family<Histogram, 2>,
    syncs: Family<Counter, 1>,
    distributions: Family<Gauge, 1>,
    /// Of the Services that have one.
    distribution_of: Mutex<BTreeMap<ObjectKey, String>>,
}

impl Metrics {
    pub(super) fn new(registry: &Registry, per_slice: usize) -> Self {
        Self {
            added: registry.histogram(&ADDED, BUCKETS),
            removed: registry.histogram(&REMOVED, BUCKETS),
            tally: Tally::new(registry, &TALLY, per_slice),
            changes: registry.counters(&CHANGES),
            changed: registry.histograms(&CHANGED, FEW),
            syncs: registry.counters(&SYNCS),
            distributions: registry.gauges(&DISTRIBUTIONS),
            distribution_of: Mutex::default(),
        }
    }

    pub(super) fn planned(&self, key: &ObjectKey, plan: &Plan, distribution: Option<&str>) {
        self.added.observe_units(plan.n_added as u64);
        self.removed.observe_units(plan.n_removed as u64);
        self.tally.set(key, plan.groups.clone());
        let is_auto = plan.routing == Routing::Auto;
        let distribution = distribution.filter(|_| !is_auto && plan.routing != Routing::Anywhere);
        let topology = if is_auto { "Auto" } else { "Disabled" };
        let changed = self.changed.with([topology, distribution.unwrap_or_default()]);
        changed.observe_units(plan.actions.len() as u64);
        self.distribute(key, distribution);
    }

    fn distribute(&self, key: &ObjectKey, distribution: Option<&str>) {
        let mut all = self.distribution_of.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match distribution {
            Some(it) if all.get(key).is_some_and(|before| before == it) => return,
            Some(it) => {
                self.distributions.with([it]).add(1.0);
                all.insert(key.clone(), it.to_owned())
            }
            None => all.remove(key),
        };
        if let Some(before) = before {
            self.distributions.with([&before]).add(-1.0);
        }
    }

    /// `success`, `stale` or `error`.
    pub(super) fn synced(&self, result: &str) {
        self.syncs.with([result]).increment();
    }

    pub(super) fn forget(&self, key: &ObjectKey) {
        self.tally.forget(key);
        self.distribute(key, None);
    }
}
