//! Who leads, as upstream's candidates show it.

use std::sync::Arc;

use telemetry::{Counter, Description, Gauge, Registry, Stability};

const STATUS: Description<1> = Description {
    name: "leader_election_master_status",
    stability: Stability::Alpha,
    help: "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. 'name' is the string used to identify the lease. Please make sure to group by name.",
    labels: ["name"],
};

const SLOW: Description<1> = Description {
    name: "leader_election_slowpath_total",
    stability: Stability::Alpha,
    help: "Total number of slow path exercised in renewing leader leases. 'name' is the string used to identify the lease. Please make sure to group by name.",
    labels: ["name"],
};

pub(super) struct Metrics {
    status: Arc<Gauge>,
    slow: Arc<Counter>,
}

impl Metrics {
    /// A candidate leads nobody at first.
    pub(super) fn new(registry: &Registry, name: &str) -> Self {
        let metrics = Self {
            status: registry.gauges(&STATUS).with([name]),
            slow: registry.counters(&SLOW).with([name]),
        };
        metrics.leads(false);
        metrics
    }

    pub(super) fn leads(&self, does: bool) {
        self.status.set(if does { 1.0 } else { 0.0 });
    }

    /// The lease was not as we had left it, or could not be written, and had to be read.
    pub(super) fn asked_again(&self) {
        self.slow.increment();
    }
}
