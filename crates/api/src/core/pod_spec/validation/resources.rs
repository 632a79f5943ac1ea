//! Requests and limits.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::quantity::Amount;

use crate::core::resource_names::{self, is_overcommittable};

pub(crate) fn validate_resources(
    resources: &ResourceRequirements,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let empty = BTreeMap::new();
    let limits = resources.limits.as_ref().unwrap_or(&empty);
    let requests = resources.requests.as_ref().unwrap_or(&empty);
    validate_quantities(limits, &path.child("limits"), errors);
    let path_requests = path.child("requests");
    for (name, request) in requests {
        validate_quantity(name, request, &path_requests.key(name), errors);
        let limit = limits.get(name);
        let Some(limit) = limit else {
            if !is_overcommittable(name) {
                errors.required(
                    &path.child("limits"),
                    "Limit must be set for non overcommitable resources",
                );
            }
            continue;
        };
        let (Ok(wanted), Ok(most)) = (Amount::parse(&request.0), Amount::parse(&limit.0)) else {
            continue;
        };
        if wanted != most && !is_overcommittable(name) {
            let detail = format!("must be equal to {name} limit of {}", limit.0);
            errors.invalid(&path_requests, request.0.as_str(), &detail);
        } else if wanted > most {
            let detail = format!("must be less than or equal to {name} limit of {}", limit.0);
            errors.invalid(&path_requests, request.0.as_str(), &detail);
        }
    }
}

pub(crate) fn validate_quantities(
    quantities: &BTreeMap<String, Quantity>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    for (name, quantity) in quantities {
        validate_quantity(name, quantity, &path.key(name), errors);
    }
}

fn validate_quantity(name: &str, quantity: &Quantity, path: &Path, errors: &mut FieldErrors) {
    resource_names::validate_of_container(name, path, errors);
    resource_names::validate_amount(name, quantity, path, errors);
}
