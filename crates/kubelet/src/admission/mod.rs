//! Whether a pod that was given to this node can run here: a list of handlers, asked in order; the
//! first that refuses says why. Pure; reasons and texts as upstream's
//! (pkg/kubelet/lifecycle/predicate.go). Static pods are asked the same.

mod confinement;
pub(crate) mod fields;
mod node_affinity;
mod node_ports;
mod os;
mod resources;
mod sysctls;
mod taint_toleration;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use api::core::pod::{HostPort, host_ports};
use k8s_openapi::api::core::v1::{Node, Pod, PodSpec};
use linux::sysctl::Pattern;

use crate::Machine;

/// What no node like this one runs is refused first, whatever else is here.
pub(crate) const HANDLERS: &[&dyn Handler] = &[
    &os::Os,
    &sysctls::Sysctls,
    &confinement::Confinement,
    &fields::Fields,
    &resources::Resources,
    &node_affinity::NodeAffinity,
    &node_ports::NodePorts,
    &taint_toleration::TaintToleration,
];

pub(crate) trait Handler: Sync {
    fn admit(&self, candidate: &Candidate<'_>) -> Result<(), Rejection>;
}

/// A pod, and what its admission may depend on.
#[derive(Clone, Copy)]
pub(crate) struct Candidate<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) spec: &'a PodSpec,
    pub(crate) machine: &'a Machine,
    pub(crate) allowed_unsafe_sysctls: &'a [Pattern],
    pub(crate) used: &'a Used,
    /// `cpu` in thousandths, the rest in whole units.
    pub(crate) allocatable: &'a BTreeMap<String, i64>,
    /// As the API has it, if it is known: its labels may be others than ours.
    pub(crate) node: Option<&'a Node>,
}

/// Why not: `status.reason`, and what follows `Pod was rejected: `.
pub(crate) type Rejection = (String, String);

/// What the pods that are here take: `cpu` in thousandths, the rest in whole units, and ports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Used {
    pub(crate) n_pods: i64,
    pub(crate) resources: BTreeMap<String, i64>,
    pub(crate) ports: BTreeSet<HostPort>,
}

impl Used {
    /// While it is resized, a pod takes the most of what it has and what it was promised.
    pub(crate) fn add(&mut self, pod: &Pod) {
        self.n_pods += 1;
        for (name, amount) in api::core::pod::resize::held_requests(pod) {
            *self.resources.entry(name).or_default() += amount;
        }
        self.ports.extend(pod.spec.iter().flat_map(host_ports));
    }
}

pub(crate) fn admit(candidate: &Candidate<'_>) -> Result<(), Rejection> {
    HANDLERS.iter().try_for_each(|it| it.admit(candidate))
}
