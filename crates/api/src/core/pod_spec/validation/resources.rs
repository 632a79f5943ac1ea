//! Requests and limits.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::quantity::Amount;

use crate::core::resource_names::{self, is_overcommittable};

/// Who may be asked for how much of what.
type ValidateName = fn(&str, &Path, &mut FieldErrors);

/// Of a container.
pub(crate) fn validate_resources(
    resources: &ResourceRequirements,
    path: &Path,
    errors: &mut FieldErrors,
) {
    validate(resources, resource_names::validate_of_container, path, errors);
}

/// Of all containers of a pod together.
pub(super) fn validate_of_pod(
    resources: &ResourceRequirements,
    path: &Path,
    errors: &mut FieldErrors,
) {
    validate(resources, resource_names::validate_of_pod, path, errors);
}

fn validate(
    resources: &ResourceRequirements,
    validate_name: ValidateName,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let empty = BTreeMap::new();
    let limits = resources.limits.as_ref().unwrap_or(&empty);
    let requests = resources.requests.as_ref().unwrap_or(&empty);
    let path_limits = path.child("limits");
    for (name, limit) in limits {
        let path = path_limits.key(name);
        validate_name(name, &path, errors);
        resource_names::validate_amount(name, limit, &path, errors);
        validate_pages(name, limit, &path, errors);
    }
    let path_requests = path.child("requests");
    for (name, request) in requests {
        let path = path_requests.key(name);
        validate_name(name, &path, errors);
        resource_names::validate_amount(name, request, &path, errors);
        validate_request(name, request, limits.get(name), (&path_requests, &path_limits), errors);
        validate_pages(name, request, &path, errors);
    }
    let mut names = limits.keys().chain(requests.keys());
    let has_pages = names.clone().any(|it| resource_names::is_huge_pages(it));
    if has_pages && !names.any(|it| it == "cpu" || it == "memory") {
        errors.forbidden(path, "HugePages require cpu or memory");
    }
}

fn validate_request(
    name: &str,
    request: &Quantity,
    limit: Option<&Quantity>,
    (path_requests, path_limits): (&Path, &Path),
    errors: &mut FieldErrors,
) {
    let Some(limit) = limit else {
        if !is_overcommittable(name) {
            errors.required(path_limits, "Limit must be set for non overcommitable resources");
        }
        return;
    };
    let (Ok(wanted), Ok(most)) = (Amount::parse(&request.0), Amount::parse(&limit.0)) else {
        return;
    };
    if wanted != most && !is_overcommittable(name) {
        let detail = format!("must be equal to {name} limit of {}", limit.0);
        errors.invalid(path_requests, request.0.as_str(), &detail);
    } else if wanted > most {
        let detail = format!("must be less than or equal to {name} limit of {}", limit.0);
        errors.invalid(path_requests, request.0.as_str(), &detail);
    }
}

/// Whole pages.
fn validate_pages(name: &str, quantity: &Quantity, path: &Path, errors: &mut FieldErrors) {
    let Some(size) = resource_names::huge_page_size(name) else { return };
    let Ok(amount) = Amount::parse(&quantity.0) else { return };
    let is_divisible = Amount::parse(size).is_ok_and(|it| {
        it > Amount::ZERO && it.millis() % 1000 == 0 && amount.value() % it.value() == 0
    });
    if !is_divisible {
        let detail = format!("{} is not positive integer multiple of {name}", quantity.0);
        errors.invalid(path, quantity.0.as_str(), &detail);
    }
}
