//! What a pod asks for in all. The way that an amount is written is kept: refusals show it.

use std::collections::BTreeMap;

use api::amounts::{self, Amounts};
use api::core::pod_spec::peak;
use k8s_openapi::api::core::v1::{PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::constraints::Asked;

/// What resources the pod itself may speak of, for all of its containers.
const OF_PODS: [&str; 2] = ["cpu", "memory"];

type List = fn(&ResourceRequirements) -> Option<&BTreeMap<String, Quantity>>;

pub(super) fn asked_by(spec: &PodSpec) -> Asked {
    Asked {
        requests: total(spec, |it| it.requests.as_ref()),
        limits: total(spec, |it| it.limits.as_ref()),
    }
}

fn total(spec: &PodSpec, list: List) -> Amounts {
    let mut total = peak(spec, |it| amounts::parse(it.resources.as_ref().and_then(list)));
    let of_pod = amounts::parse(spec.resources.as_ref().and_then(list));
    total.extend(of_pod.into_iter().filter(|it| OF_PODS.contains(&it.0.as_str())));
    total
}
