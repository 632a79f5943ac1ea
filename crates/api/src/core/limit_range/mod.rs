//! LimitRange: what containers, pods and claims of a namespace may ask for, and what they get if
//! they ask for nothing.

#[cfg(test)]
mod tests;
mod validation;

use apimachinery::FieldErrors;
use k8s_openapi::api::core::v1::LimitRangeItem;

use crate::kind::Resource;
use crate::quantities::{ResourceList, round_up};

pub use k8s_openapi::api::core::v1::LimitRange;

/// What a limit may be for; others may be for anything that has a qualified name.
pub const CONTAINER: &str = "Container";
pub const POD: &str = "Pod";
pub const CLAIM: &str = "PersistentVolumeClaim";

impl Resource for LimitRange {
    codec!();

    fn apply_defaults(&mut self) {
        for item in self.spec.iter_mut().flat_map(|it| &mut it.limits) {
            apply_defaults_to(item);
        }
    }

    fn validate(&self, errors: &mut FieldErrors) {
        validation::validate(self, errors);
    }
}

/// Of a container: what it may at most have it gets, and what it gets or must have it requests.
fn apply_defaults_to(item: &mut LimitRangeItem) {
    if item.type_ == CONTAINER {
        let (max, min) = (item.max.clone(), item.min.clone());
        let limits = item.default.get_or_insert_default();
        add_absent(limits, max.as_ref());
        let limits = limits.clone();
        let requests = item.default_request.get_or_insert_default();
        add_absent(requests, Some(&limits));
        add_absent(requests, min.as_ref());
    }
    for list in [
        &mut item.max,
        &mut item.min,
        &mut item.default,
        &mut item.default_request,
        &mut item.max_limit_request_ratio,
    ] {
        list.iter_mut().for_each(round_up);
    }
}

fn add_absent(list: &mut ResourceList, others: Option<&ResourceList>) {
    for (resource, quantity) in others.into_iter().flatten() {
        list.entry(resource.clone()).or_insert_with(|| quantity.clone());
    }
}
