//! A node as the scheduler sees it: what it offers, what is taken, and what it repels.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::quantity::Amount;
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::pod::{HostPort, PodRequirements, Resources};

/// Invariant: `requested`, `requested_non_zero`, `n_pods` and `ports` are the sums over the pods that are assumed or
/// bound here; `Snapshot` alone changes them.
#[derive(Clone, Debug, Default)]
pub struct NodeState {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    pub is_unschedulable: bool,
    pub allocatable: Resources,
    pub pods_max: i64,
    pub requested: Resources,
    /// With upstream's defaults for containers that request nothing: what scores are computed from.
    pub requested_non_zero: Resources,
    pub n_pods: i64,
    /// A pod may ask for a port that another one already has only while one of them is going away.
    pub ports: BTreeMap<HostPort, u32>,
    /// Whether the Node object exists: pods may be known before their node is.
    pub is_known: bool,
}

impl NodeState {
    pub fn observe(&mut self, node: &Node) {
        self.is_known = true;
        self.labels = node.metadata.labels.clone().unwrap_or_default();
        let spec = node.spec.as_ref();
        self.taints = spec.and_then(|it| it.taints.clone()).unwrap_or_default();
        self.is_unschedulable = spec.and_then(|it| it.unschedulable).unwrap_or(false);
        let allocatable =
            node.status.as_ref().and_then(|it| it.allocatable.clone()).unwrap_or_default();
        self.pods_max = amount(&allocatable, "pods").value();
        self.allocatable = Resources::from_quantities(&allocatable);
    }

    pub(crate) fn take(&mut self, pod: &PodRequirements) {
        self.requested.add(&pod.requests);
        self.requested_non_zero.add(&pod.requests_non_zero);
        self.n_pods += 1;
        for port in &pod.ports {
            *self.ports.entry(port.clone()).or_default() += 1;
        }
    }

    pub(crate) fn give_back(&mut self, pod: &PodRequirements) {
        self.requested.subtract(&pod.requests);
        self.requested_non_zero.subtract(&pod.requests_non_zero);
        self.n_pods -= 1;
        for port in &pod.ports {
            if let Some(count) = self.ports.get_mut(port) {
                *count -= 1;
                if *count == 0 {
                    self.ports.remove(port);
                }
            }
        }
    }

    pub fn has_conflict(&self, wanted: &BTreeSet<HostPort>) -> bool {
        wanted.iter().any(|port| self.ports.keys().any(|taken| taken.conflicts_with(port)))
    }
}

pub(crate) fn amount(quantities: &BTreeMap<String, Quantity>, name: &str) -> Amount {
    quantities.get(name).and_then(|it| Amount::parse(&it.0).ok()).unwrap_or(Amount::ZERO)
}
