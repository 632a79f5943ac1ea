//! What the controller shows of itself, under upstream's names.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use telemetry::{Counter, Description, Family, Registry, Stability};

use super::plan::Reason;

const FORCED: Description<2> = Description {
    name: "pod_gc_collector_force_delete_pods_total",
    stability: Stability::Alpha,
    help: "Number of pods that are being forcefully deleted since the Pod GC Controller started.",
    labels: ["namespace", "reason"],
};
const ERRORS: Description<2> = Description {
    name: "pod_gc_collector_force_delete_pod_errors_total",
    stability: Stability::Alpha,
    help: "Number of errors encountered when forcefully deleting the pods since the Pod GC \
           Controller started.",
    labels: ["namespace", "reason"],
};
/// Namespaces that are told apart: clients make them up. What is beyond is counted without a name.
const NAMESPACES_MAX: usize = 1000;

pub(super) struct Metrics {
    forced: Family<Counter, 2>,
    errors: Family<Counter, 2>,
    namespaces: Mutex<BTreeSet<String>>,
}

impl Metrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let (forced, errors) = (registry.counters(&FORCED), registry.counters(&ERRORS));
        Self { forced, errors, namespaces: Mutex::default() }
    }

    pub(super) fn forced(&self, namespace: &str, reason: Reason, is_well: bool) {
        let mut known = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains(namespace) && known.len() < NAMESPACES_MAX {
            known.insert(namespace.to_owned());
        }
        let namespace = if known.contains(namespace) { namespace } else { "" };
        self.forced.with([namespace, reason.name()]).increment();
        if !is_well {
            self.errors.with([namespace, reason.name()]).increment();
        }
    }
}
