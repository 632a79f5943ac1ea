//! What the controller shows of itself, under upstream's names.

use telemetry::{
    Buckets, Counter, Description, Family, Gauge, Histogram, Registry, Stability, exponential,
};

use super::plan::{Found, Whole};

const fn by_range(name: &'static str, help: &'static str) -> Description<1> {
    Description { name, stability: Stability::Alpha, help, labels: ["clusterCIDR"] }
}

const ALLOCATIONS: Description<1> = by_range(
    "node_ipam_controller_cidrset_cidrs_allocations_total",
    "Counter measuring total number of CIDR allocations.",
);
const RELEASES: Description<1> = by_range(
    "node_ipam_controller_cidrset_cidrs_releases_total",
    "Counter measuring total number of CIDR releases.",
);
/// Spelled as upstream does.
const MAX: Description<1> = by_range(
    "node_ipam_controller_cirdset_max_cidrs",
    "Maximum number of CIDRs that can be allocated.",
);
const USAGE: Description<1> = by_range(
    "node_ipam_controller_cidrset_usage_cidrs",
    "Gauge measuring percentage of allocated CIDRs.",
);
const TRIES: Description<1> = by_range(
    "node_ipam_controller_cidrset_allocation_tries_per_request",
    "Number of endpoints added on each Service sync",
);
const BUCKETS: Buckets = Buckets::units(&exponential::<5>(1.0, 5.0));

pub(super) struct Metrics {
    ranges: Vec<String>,
    allocations: Family<Counter, 1>,
    releases: Family<Counter, 1>,
    usage: Family<Gauge, 1>,
    tries: Family<Histogram, 1>,
}

fn count(n: u128) -> f64 {
    f64::from(u32::try_from(n).unwrap_or(u32::MAX))
}

impl Metrics {
    pub(super) fn new(registry: &Registry, wholes: &[Whole]) -> Self {
        let max = registry.gauges(&MAX);
        for whole in wholes {
            max.with([&whole.cidr.to_string()]).set(count(whole.n_parts()));
        }
        Self {
            ranges: wholes.iter().map(|it| it.cidr.to_string()).collect(),
            allocations: registry.counters(&ALLOCATIONS),
            releases: registry.counters(&RELEASES),
            usage: registry.gauges(&USAGE),
            tries: registry.histograms(&TRIES, BUCKETS),
        }
    }

    pub(super) fn tried(&self, whole: Whole, found: &Found) {
        let range = whole.cidr.to_string();
        self.tries.with([&range]).observe_units(found.n_tried);
        let n_taken = found.n_taken as u128 + u128::from(found.part.is_some());
        self.usage.with([&range]).set(count(n_taken) / count(whole.n_parts()));
    }

    pub(super) fn allocated(&self) {
        self.ranges.iter().for_each(|it| self.allocations.with([it]).increment());
    }

    pub(super) fn released(&self) {
        self.ranges.iter().for_each(|it| self.releases.with([it]).increment());
    }
}
