//! A pod as the scheduler sees it: computed once when the pod is first seen, read by every plugin.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::core::pod::{ContainerView, HostPort, PodSpecView, PodView, host_ports_of_view};
use apimachinery::ObjectKey;
use apimachinery::quantity::Amount;
use k8s_openapi::api::core::v1::{NodeAffinity, Toleration};

/// What scores assume of a container that requests nothing (upstream: 100m and 200Mi).
const DEFAULT_MILLI_CPU: i128 = 100;
const DEFAULT_MEMORY: i128 = 200 * 1024 * 1024;

/// Wide enough for the sum of all pods that there can be: each may ask for as much as an `i64`
/// holds, and a sum that stops at its limit could not be taken back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    pub milli_cpu: i128,
    pub memory: i128,
    pub ephemeral_storage: i128,
    /// Extended resources and huge pages, in units.
    pub extended: BTreeMap<String, i128>,
}

impl Resources {
    pub fn from_quantities<'a>(quantities: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut resources = Self::default();
        for (name, quantity) in quantities {
            let amount = Amount::parse(quantity).unwrap_or(Amount::ZERO);
            match name {
                "cpu" => resources.milli_cpu = amount.millis().into(),
                "memory" => resources.memory = amount.value().into(),
                "ephemeral-storage" => resources.ephemeral_storage = amount.value().into(),
                "pods" => {}
                _ => _ = resources.extended.insert(name.to_owned(), amount.value().into()),
            }
        }
        resources
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

    /// Whether it is as much as the other, resource by resource.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let of = |name: &String| self.extended.get(name).copied().unwrap_or(0);
        self.milli_cpu >= other.milli_cpu
            && self.memory >= other.memory
            && self.ephemeral_storage >= other.ephemeral_storage
            && other.extended.iter().all(|(name, value)| of(name) >= *value)
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

/// Everything that decides where a pod may go: what it says, and what follows from that.
#[derive(Clone, Debug, Default)]
pub struct PodRequirements {
    pub pod: Arc<PodView>,
    pub requests: Resources,
    pub requests_non_zero: Resources,
    pub ports: BTreeSet<HostPort>,
    /// A rule of the pod that no plugin implements yet; such a pod is refused, not placed wrongly.
    pub unsupported: Option<&'static str>,
}

impl PodRequirements {
    pub fn of(pod: &Arc<PodView>) -> Self {
        Self {
            pod: pod.clone(),
            requests: requests(&pod.spec, Resources::of_container),
            requests_non_zero: requests(&pod.spec, Resources::of_container_non_zero),
            ports: host_ports_of_view(&pod.spec),
            unsupported: unsupported(&pod.spec),
        }
    }

    pub fn key(&self) -> &ObjectKey {
        &self.pod.meta.key
    }

    pub fn tolerations(&self) -> &[Toleration] {
        &self.pod.spec.tolerations
    }

    pub fn node_affinity(&self) -> Option<&NodeAffinity> {
        self.pod.spec.affinity.as_ref()?.node_affinity.as_ref()
    }
}

impl Resources {
    fn of_container(container: &ContainerView) -> Self {
        Self::from_quantities(container.counted().iter())
    }

    fn of_container_non_zero(container: &ContainerView) -> Self {
        let mut resources = Self::of_container(container);
        if container.counted().get("cpu").is_none() {
            resources.milli_cpu = DEFAULT_MILLI_CPU;
        }
        if container.counted().get("memory").is_none() {
            resources.memory = DEFAULT_MEMORY;
        }
        resources
    }
}

/// Containers and sidecars run together; each other init container runs alone, beside the sidecars
/// started before it.
fn requests(spec: &PodSpecView, of: fn(&ContainerView) -> Resources) -> Resources {
    let mut total = Resources::default();
    for container in &spec.containers {
        total.add(&of(container));
    }
    let mut sidecars = Resources::default();
    let mut peak = Resources::default();
    for container in &spec.init_containers {
        let mut step = of(container);
        if container.is_sidecar {
            sidecars.add(&step);
            total.add(&step);
            step = sidecars.clone();
        } else {
            step.add(&sidecars);
        }
        peak.raise_to(&step);
    }
    total.raise_to(&peak);
    total.add(&Resources::from_quantities(spec.overhead.iter()));
    total
}

fn unsupported(spec: &PodSpecView) -> Option<&'static str> {
    let affinity = spec.affinity.as_ref();
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
    if spec.must_spread {
        return Some("topology spread constraints with DoNotSchedule are not supported yet");
    }
    // Nothing would ever make or bind what they ask for.
    if spec.has_claims {
        return Some("persistent volume claims are not supported yet");
    }
    if spec.has_ephemeral_claims {
        return Some("generic ephemeral volumes are not supported yet");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::Resources;

    #[test]
    fn sums_of_the_largest_requests_can_be_taken_back() {
        let names = ["cpu", "memory", "ephemeral-storage", "example.com/gpu"];
        let largest = Resources::from_quantities(names.into_iter().map(|it| (it, "8Ei")));
        let mut sum = Resources::default();
        (0..1_000).for_each(|_| sum.add(&largest));
        assert!(sum.memory > largest.memory && sum.milli_cpu > largest.milli_cpu);
        (0..999).for_each(|_| sum.subtract(&largest));
        assert_eq!(sum, largest);
    }
}
