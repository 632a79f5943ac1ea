//! What the controller shows of itself, under upstream's names.

use std::sync::Arc;

use telemetry::{
    Buckets, Counter, Description, Family, Gauge, Histogram, Registry, Stability, exponential,
};

use super::zones::Zones;

const fn by_zone(name: &'static str, stability: Stability, help: &'static str) -> Description<1> {
    Description { name, stability, help, labels: ["zone"] }
}

const HEALTH: Description<1> = by_zone(
    "node_collector_zone_health",
    Stability::Alpha,
    "Gauge measuring percentage of healthy nodes per zone.",
);
const SIZE: Description<1> = by_zone(
    "node_collector_zone_size",
    Stability::Alpha,
    "Gauge measuring number of registered Nodes per zones.",
);
const UNHEALTHY: Description<1> = by_zone(
    "node_collector_unhealthy_nodes_in_zone",
    Stability::Alpha,
    "Gauge measuring number of not Ready Nodes per zones.",
);
const EVICTIONS: Description<1> = by_zone(
    "node_collector_evictions_total",
    Stability::Stable,
    "Number of Node evictions that happened since current instance of NodeController started.",
);
const DURATION: Description<0> = Description {
    name: "node_collector_update_node_health_duration_seconds",
    stability: Stability::Alpha,
    help: "Duration in seconds for NodeController to update the health of a single node.",
    labels: [],
};
const BUCKETS: Buckets = Buckets::seconds(&exponential::<8>(0.001, 4.0));

pub(super) struct Metrics {
    health: Family<Gauge, 1>,
    size: Family<Gauge, 1>,
    unhealthy: Family<Gauge, 1>,
    evictions: Family<Counter, 1>,
    pub(super) duration: Arc<Histogram>,
}

impl Metrics {
    pub(super) fn new(registry: &Registry) -> Self {
        Self {
            health: registry.gauges(&HEALTH),
            size: registry.gauges(&SIZE),
            unhealthy: registry.gauges(&UNHEALTHY),
            evictions: registry.counters(&EVICTIONS),
            duration: registry.histogram(&DURATION, BUCKETS),
        }
    }

    /// Zones that are gone are not shown any more.
    pub(super) fn show(&self, zones: &Zones) {
        for family in [&self.health, &self.size, &self.unhealthy] {
            family.clear();
        }
        for it in zones.measured() {
            let count = |it: usize| f64::from(u32::try_from(it).unwrap_or(u32::MAX));
            let (ready, bad) = (count(it.n_ready), count(it.n_not_ready));
            let share = if ready + bad > 0.0 { 100.0 * ready / (ready + bad) } else { 100.0 };
            self.health.with([it.zone]).set(share);
            self.size.with([it.zone]).set(ready + bad);
            self.unhealthy.with([it.zone]).set(bad);
            self.evictions.with([it.zone]).add(0);
        }
    }

    pub(super) fn evicted(&self, zone: &str) {
        self.evictions.with([zone]).increment();
    }
}
