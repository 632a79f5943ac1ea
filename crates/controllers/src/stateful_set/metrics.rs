//! What the controller of StatefulSets shows of itself, under upstream's names.

use api::apps::StatefulSet;
use telemetry::{Counter, Description, Family, Gauge, Registry, Stability};

use super::plan::Plan;
use crate::owners;

const STALE: Description<2> = Description {
    name: "statefulset_controller_stale_sync_skips_total",
    stability: Stability::Alpha,
    help: "Total number of StatefulSet syncs skipped due to a stale watch cache.",
    labels: ["group", "resource"],
};
const LABELS: [&str; 3] = ["statefulset_namespace", "statefulset_name", "pod_management_policy"];
const MAX_UNAVAILABLE: Description<3> = Description {
    name: "statefulset_controller_statefulset_max_unavailable",
    stability: Stability::Alpha,
    help: "Maximum number of unavailable pods allowed during StatefulSet rolling updates",
    labels: LABELS,
};
const UNAVAILABLE: Description<3> = Description {
    name: "statefulset_controller_statefulset_unavailable_replicas",
    stability: Stability::Alpha,
    help: "Current number of unavailable pods in StatefulSet",
    labels: LABELS,
};

pub(super) struct Metrics {
    stale: Family<Counter, 2>,
    /// Only with the gate `MaxUnavailableStatefulSet`.
    sizes: Option<(Family<Gauge, 3>, Family<Gauge, 3>)>,
}

impl Metrics {
    pub(super) fn new(registry: &Registry, allows_max_unavailable: bool) -> Self {
        let sizes = || (registry.gauges(&MAX_UNAVAILABLE), registry.gauges(&UNAVAILABLE));
        Self { stale: registry.counters(&STALE), sizes: allows_max_unavailable.then(sizes) }
    }

    pub(super) fn stale(&self, group: &str, resource: &str) {
        self.stale.with([group, resource]).increment();
    }

    pub(super) fn planned(&self, set: &StatefulSet, plan: &Plan) {
        let Some((max_unavailable, unavailable)) = &self.sizes else { return };
        let policy = if plan.is_parallel { "Parallel" } else { "OrderedReady" };
        let labels = [owners::namespace(&set.metadata), owners::name(&set.metadata), policy];
        max_unavailable.with(labels).set(f64::from(plan.max_unavailable));
        unavailable.with(labels).set(plan.unavailable as f64);
    }
}
