//! The quality-of-service class of a pod.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use apimachinery::quantity::Amount;

const COMPUTE: [&str; 2] = ["cpu", "memory"];

/// `Guaranteed` when every container limits cpu and memory to what it requests, `BestEffort` when
/// none names either, else `Burstable`. Resources of the pod itself, when given, decide alone.
pub fn qos_class(spec: &PodSpec) -> &'static str {
    let of_pod = spec.resources.as_ref().filter(|it| names_compute(it));
    let all: Vec<Option<&ResourceRequirements>> = match of_pod {
        Some(resources) => vec![Some(resources)],
        None => spec
            .containers
            .iter()
            .chain(spec.init_containers.iter().flatten())
            .map(|it| it.resources.as_ref())
            .collect(),
    };
    if !all.iter().flatten().any(|it| names_compute(it)) {
        return "BestEffort";
    }
    if all.iter().all(|it| it.is_some_and(is_guaranteed)) { "Guaranteed" } else { "Burstable" }
}

fn amount(quantities: Option<&BTreeMap<String, Quantity>>, name: &str) -> Option<Amount> {
    let amount = Amount::parse(&quantities?.get(name)?.0).ok()?;
    (amount > Amount::ZERO).then_some(amount)
}

fn names_compute(resources: &ResourceRequirements) -> bool {
    COMPUTE.iter().any(|it| {
        amount(resources.requests.as_ref(), it).is_some()
            || amount(resources.limits.as_ref(), it).is_some()
    })
}

fn is_guaranteed(resources: &ResourceRequirements) -> bool {
    COMPUTE.iter().all(|it| {
        let limit = amount(resources.limits.as_ref(), it);
        let request = amount(resources.requests.as_ref(), it).or(limit);
        limit.is_some() && limit == request
    })
}
