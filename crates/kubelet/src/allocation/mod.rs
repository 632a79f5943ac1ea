//! What of the node was given to each pod. A pod asks for other resources while it runs (a resize);
//! the node agrees, or says why not, and what it agreed to is on disk before anything changes.
//!
//! Everybody but the one who decides sees a pod with what was agreed to in place of what it asks
//! for. Rules, reasons and their order as upstream's (pkg/kubelet/allocation).

mod decide;
mod file;
mod messages;
mod size;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::quantity::Amount;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::{Deserialize, Serialize};

pub(crate) use decide::{Asking, Decision, Pending, decide, order, waits_since};
pub(crate) use file::{Written, read, write};
pub(crate) use messages::{completed, failed, pending, started};
pub(crate) use size::Size;

/// On a container's configuration: the [`Size`] it was made with.
pub(crate) const ANNOTATION_SIZE: &str = "xebec.local/size";

/// What one pod was given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Allocation {
    /// The pod's, when this was agreed to.
    pub(crate) generation: i64,
    /// Of the pod as a whole, if it says.
    pub(crate) pod: Option<Quantities>,
    /// By name; ephemeral containers ask for nothing.
    pub(crate) containers: BTreeMap<String, Quantities>,
}

/// As the pod writes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Quantities {
    pub(crate) requests: Option<BTreeMap<String, String>>,
    pub(crate) limits: Option<BTreeMap<String, String>>,
}

impl Allocation {
    /// All that the pod asks for.
    pub(crate) fn of(pod: &Pod) -> Self {
        let spec = pod.spec.clone().unwrap_or_default();
        let of_container =
            |it: &Container| (it.name.clone(), Quantities::of(it.resources.as_ref()));
        Self {
            generation: pod.metadata.generation.unwrap_or(0),
            pod: spec.resources.as_ref().map(|it| Quantities::of(Some(it))),
            containers: sized(&spec).map(of_container).collect(),
        }
    }

    /// Whether it is what the pod asks for, however that is written.
    pub(crate) fn is_of(&self, pod: &Pod) -> bool {
        let asked = Self::of(pod);
        let is_same = |one: &Quantities, other: &Quantities| one.amounts() == other.amounts();
        let is_pod_same = match (&self.pod, &asked.pod) {
            (Some(one), Some(other)) => is_same(one, other),
            (None, None) => true,
            _ => false,
        };
        let pairs = || self.containers.iter().zip(&asked.containers);
        is_pod_same
            && self.containers.len() == asked.containers.len()
            && pairs().all(|(one, other)| one.0 == other.0 && is_same(one.1, other.1))
    }

    /// The pod with what was agreed to. Claims and containers that nobody knew of stay.
    pub(crate) fn apply(&self, pod: &Arc<Pod>) -> Arc<Pod> {
        if self.is_of(pod) {
            return pod.clone();
        }
        let mut pod = Pod::clone(pod);
        let spec = pod.spec.get_or_insert_default();
        if let Some(given) = &self.pod {
            given.put(spec.resources.get_or_insert_default());
        } else {
            spec.resources = None;
        }
        let containers =
            spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten());
        for container in containers {
            if let Some(given) = self.containers.get(&container.name) {
                given.put(container.resources.get_or_insert_default());
            }
        }
        Arc::new(pod)
    }
}

fn sized(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.containers.iter().chain(spec.init_containers.iter().flatten())
}

impl Quantities {
    fn of(resources: Option<&ResourceRequirements>) -> Self {
        let texts = |it: &BTreeMap<String, Quantity>| -> BTreeMap<String, String> {
            it.iter().map(|(name, it)| (name.clone(), it.0.clone())).collect()
        };
        Self {
            requests: resources.and_then(|it| it.requests.as_ref()).map(texts),
            limits: resources.and_then(|it| it.limits.as_ref()).map(texts),
        }
    }

    fn put(&self, resources: &mut ResourceRequirements) {
        let quantities = |it: &BTreeMap<String, String>| -> BTreeMap<String, Quantity> {
            it.iter().map(|(name, it)| (name.clone(), Quantity(it.clone()))).collect()
        };
        resources.requests = self.requests.as_ref().map(quantities);
        resources.limits = self.limits.as_ref().map(quantities);
    }

    /// What is absent is as good as empty.
    fn amounts(&self) -> [BTreeMap<&str, Option<Amount>>; 2] {
        [&self.requests, &self.limits].map(|it| {
            let quantities = it.iter().flatten();
            quantities.map(|(name, it)| (name.as_str(), Amount::parse(it).ok())).collect()
        })
    }
}
