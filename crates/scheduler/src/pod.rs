//! A pod as the scheduler sees it: computed once when the pod is first seen, read by every plugin.

use std::collections::{BTreeMap, BTreeSet};

use api::object::key_of;
use apimachinery::ObjectKey;
use k8s_openapi::api::core::v1::{
    Container, NodeSelector, Pod, PodSpec, PreferredSchedulingTerm, Toleration,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::node::amount;

/// What scores assume of a container that requests nothing (upstream: 100m and 200Mi).
const DEFAULT_MILLI_CPU: i128 = 100;
const DEFAULT_MEMORY: i128 = 200 * 1024 * 1024;

/// Wide enough for the sum of all pods that there can be: each may ask for as much as an `i64` holds, and a sum that stops
/// at its limit could not be taken back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    pub milli_cpu: i128,
    pub memory: i128,
    pub ephemeral_storage: i128,
    /// Extended resources and huge pages, in units.
    pub extended: BTreeMap<String, i128>,
}

impl Resources {
    pub fn from_quantities(quantities: &BTreeMap<String, Quantity>) -> Self {
        let extended = quantities
            .keys()
            .filter(|name| {
                !matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage" | "pods")
            })
            .map(|name| (name.clone(), amount(quantities, name).value().into()))
            .collect();
        Self {
            milli_cpu: amount(quantities, "cpu").millis().into(),
            memory: amount(quantities, "memory").value().into(),
            ephemeral_storage: amount(quantities, "ephemeral-storage").value().into(),
            extended,
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.milli_cpu += other.milli_cpu;
        self.memory += other.memory;
        self.ephemeral_storage += other.ephemeral_storage;
        for (name, value) in &other.extended {
            *self.extended.entry(name.clone()).or_default() += value;
        }
    }

    pub fn subtract(&mut self, other: &Self) {
        self.milli_cpu -= other.milli_cpu;
        self.memory -= other.memory;
        self.ephemeral_storage -= other.ephemeral_storage;
        for (name, value) in &other.extended {
            *self.extended.entry(name.clone()).or_default() -= value;
        }
    }

    /// The larger of the two, resource by resource.
    fn raise_to(&mut self, other: &Self) {
        self.milli_cpu = self.milli_cpu.max(other.milli_cpu);
        self.memory = self.memory.max(other.memory);
        self.ephemeral_storage = self.ephemeral_storage.max(other.ephemeral_storage);
        for (name, value) in &other.extended {
            let mine = self.extended.entry(name.clone()).or_default();
            *mine = (*mine).max(*value);
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    pub protocol: String,
    pub port: i32,
    /// `0.0.0.0` takes the port on every address.
    pub address: String,
}

impl HostPort {
    const ANY: &'static str = "0.0.0.0";

    pub fn conflicts_with(&self, other: &Self) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.address == other.address
                || self.address == Self::ANY
                || other.address == Self::ANY)
    }
}

/// Everything that decides where a pod may go.
#[derive(Clone, Debug, Default)]
pub struct PodRequirements {
    pub key: ObjectKey,
    pub uid: String,
    pub priority: i32,
    pub requests: Resources,
    pub requests_non_zero: Resources,
    pub ports: BTreeSet<HostPort>,
    pub tolerations: Vec<Toleration>,
    pub node_selector: BTreeMap<String, String>,
    pub affinity_required: Option<NodeSelector>,
    pub affinity_preferred: Vec<PreferredSchedulingTerm>,
    /// `spec.nodeName` of a pod that is not bound yet is empty; this is for pods created with one.
    pub node_name: String,
    pub is_gated: bool,
    /// A rule of the pod that no plugin implements yet; such a pod is refused, not placed wrongly.
    pub unsupported: Option<&'static str>,
}

impl PodRequirements {
    pub fn of(pod: &Pod) -> Self {
        let meta = &pod.metadata;
        let key = key_of(meta);
        let uid = meta.uid.clone().unwrap_or_default();
        let Some(spec) = &pod.spec else { return Self { key, uid, ..Self::default() } };
        let node_affinity =
            spec.affinity.as_ref().and_then(|it| it.node_affinity.clone()).unwrap_or_default();
        Self {
            key,
            uid,
            priority: spec.priority.unwrap_or(0),
            requests: requests(spec, Resources::of_container),
            requests_non_zero: requests(spec, Resources::of_container_non_zero),
            ports: host_ports(spec),
            tolerations: spec.tolerations.clone().unwrap_or_default(),
            node_selector: spec.node_selector.clone().unwrap_or_default(),
            affinity_required: node_affinity.required_during_scheduling_ignored_during_execution,
            affinity_preferred: node_affinity
                .preferred_during_scheduling_ignored_during_execution
                .unwrap_or_default(),
            node_name: spec.node_name.clone().unwrap_or_default(),
            is_gated: spec.scheduling_gates.as_ref().is_some_and(|it| !it.is_empty()),
            unsupported: unsupported(spec),
        }
    }
}

impl Resources {
    fn of_container(container: &Container) -> Self {
        let requests = container.resources.as_ref().and_then(|it| it.requests.as_ref());
        requests.map(Self::from_quantities).unwrap_or_default()
    }

    fn of_container_non_zero(container: &Container) -> Self {
        let requests = container.resources.as_ref().and_then(|it| it.requests.as_ref());
        let mut resources = Self::of_container(container);
        if !requests.is_some_and(|it| it.contains_key("cpu")) {
            resources.milli_cpu = DEFAULT_MILLI_CPU;
        }
        if !requests.is_some_and(|it| it.contains_key("memory")) {
            resources.memory = DEFAULT_MEMORY;
        }
        resources
    }
}

/// Containers and sidecars run together; each other init container runs alone, beside the sidecars started before it.
fn requests(spec: &PodSpec, of: fn(&Container) -> Resources) -> Resources {
    let mut total = Resources::default();
    for container in &spec.containers {
        total.add(&of(container));
    }
    let mut sidecars = Resources::default();
    let mut peak = Resources::default();
    for container in spec.init_containers.iter().flatten() {
        let mut step = of(container);
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars.add(&step);
            total.add(&step);
            step = sidecars.clone();
        } else {
            step.add(&sidecars);
        }
        peak.raise_to(&step);
    }
    total.raise_to(&peak);
    if let Some(overhead) = &spec.overhead {
        total.add(&Resources::from_quantities(overhead));
    }
    total
}

fn host_ports(spec: &PodSpec) -> BTreeSet<HostPort> {
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let ports = containers.flat_map(|it| it.ports.iter().flatten());
    ports
        .filter(|it| it.host_port.unwrap_or(0) > 0)
        .map(|it| HostPort {
            protocol: it.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
            port: it.host_port.unwrap_or(0),
            address: it
                .host_ip
                .clone()
                .filter(|ip| !ip.is_empty())
                .unwrap_or_else(|| HostPort::ANY.to_owned()),
        })
        .collect()
}

fn unsupported(spec: &PodSpec) -> Option<&'static str> {
    let affinity = spec.affinity.as_ref();
    let is_hard = |it: &k8s_openapi::api::core::v1::TopologySpreadConstraint| {
        it.when_unsatisfiable == "DoNotSchedule"
    };
    if affinity
        .and_then(|it| it.pod_affinity.as_ref())
        .and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref())
        .is_some_and(|it| !it.is_empty())
    {
        return Some("required pod affinity is not supported yet");
    }
    if affinity
        .and_then(|it| it.pod_anti_affinity.as_ref())
        .and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref())
        .is_some_and(|it| !it.is_empty())
    {
        return Some("required pod anti-affinity is not supported yet");
    }
    if spec.topology_spread_constraints.iter().flatten().any(is_hard) {
        return Some("topology spread constraints with DoNotSchedule are not supported yet");
    }
    // Nothing would ever make or bind what they ask for.
    let volumes = spec.volumes.iter().flatten();
    if volumes.clone().any(|it| it.persistent_volume_claim.is_some()) {
        return Some("persistent volume claims are not supported yet");
    }
    if volumes.clone().any(|it| it.ephemeral.is_some()) {
        return Some("generic ephemeral volumes are not supported yet");
    }
    None
}

/// Whether a pod holds resources on its node: it has one and has not finished.
pub(crate) fn holds_resources(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref()).unwrap_or("");
    !matches!(phase, "Succeeded" | "Failed")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

    use super::Resources;

    #[test]
    fn sums_of_the_largest_requests_can_be_taken_back() {
        let names = ["cpu", "memory", "ephemeral-storage", "example.com/gpu"];
        let largest: BTreeMap<String, Quantity> =
            names.iter().map(|it| ((*it).to_owned(), Quantity("8Ei".to_owned()))).collect();
        let (largest, mut sum) = (Resources::from_quantities(&largest), Resources::default());
        (0..1_000).for_each(|_| sum.add(&largest));
        assert!(sum.memory > largest.memory && sum.milli_cpu > largest.milli_cpu);
        (0..999).for_each(|_| sum.subtract(&largest));
        assert_eq!(sum, largest);
    }
}
