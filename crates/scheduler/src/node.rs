//! A node as the scheduler sees it: what it offers, what is taken, and what it repels.

use std::collections::{BTreeMap, BTreeSet};

use api::Pairs;
use api::core::node::NodeView;
use api::core::pod::HostPort;
use apimachinery::quantity::Amount;
use k8s_openapi::api::core::v1::Taint;

use crate::pod::{PodRequirements, Resources};

/// Invariant: `requested`, `requested_non_zero`, `n_pods` and `ports` are the sums over the pods
/// that are assumed or bound here; `Snapshot` alone changes them.
#[derive(Clone, Debug, Default)]
pub struct NodeState {
    pub name: String,
    pub labels: Pairs,
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
    pub fn observe(&mut self, node: &NodeView) {
        self.is_known = true;
        self.labels = node.meta.labels.clone();
        self.taints.clone_from(&node.taints);
        self.is_unschedulable = node.is_unschedulable;
        self.allocatable = Resources::from_quantities(node.allocatable.iter());
        let pods = node.allocatable.get("pods").and_then(|it| Amount::parse(it).ok());
        self.pods_max = pods.unwrap_or(Amount::ZERO).value();
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
