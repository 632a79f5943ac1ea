//! Requests and limits.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::quantity::Amount;
use apimachinery::validation::is_qualified_name;

use crate::check;

const STANDARD: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
const HUGE_PAGES: &str = "hugepages-";

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// What a node can promise to more than one pod at a time.
fn is_overcommittable(name: &str) -> bool {
    is_native(name) && !name.starts_with(HUGE_PAGES)
}

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
    check::format(name, &is_qualified_name(name), path, errors);
    if !name.contains('/') && !STANDARD.contains(&name) && !name.starts_with(HUGE_PAGES) {
        errors.invalid(path, name, "must be a standard resource type or fully qualified");
        errors.invalid(path, name, "must be a standard resource for containers");
    }
    let Ok(amount) = Amount::parse(&quantity.0) else {
        let detail = "quantities must match the regular expression \
            '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
        return errors.invalid(path, quantity.0.as_str(), detail);
    };
    if amount < Amount::ZERO {
        errors.invalid(path, quantity.0.as_str(), "must be greater than or equal to 0");
    }
    if !is_native(name) && amount.millis() % 1000 != 0 {
        errors.invalid(path, quantity.0.as_str(), "must be an integer");
    }
}
