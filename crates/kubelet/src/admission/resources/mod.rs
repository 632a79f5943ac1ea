//! Whether what the pod asks for is left.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodSpec;

use super::{Candidate, Handler, Rejection, Used};

pub(super) struct Resources;

impl Handler for Resources {
    fn admit(&self, candidate: &Candidate<'_>) -> Result<(), Rejection> {
        fits(candidate.spec, candidate.used, candidate.allocatable)
    }
}

fn fits(spec: &PodSpec, used: &Used, allocatable: &BTreeMap<String, i64>) -> Result<(), Rejection> {
    let capacity = |name: &str| allocatable.get(name).copied().unwrap_or(0);
    if used.n_pods + 1 > capacity("pods") {
        return Err(rejection("pods", 1, used.n_pods, capacity("pods")));
    }
    for (name, requested) in api::core::pod::requests(spec) {
        let taken = used.resources.get(&name).copied().unwrap_or(0);
        if requested > 0 && taken.saturating_add(requested) > capacity(&name) {
            return Err(rejection(&name, requested, taken, capacity(&name)));
        }
    }
    Ok(())
}

fn rejection(resource: &str, requested: i64, used: i64, capacity: i64) -> Rejection {
    let message = format!(
        "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
    );
    (format!("OutOf{resource}"), message)
}
