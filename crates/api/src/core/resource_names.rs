//! Names of resources: which ones Kubernetes itself gives a meaning, and what they may be used for.

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::is_qualified_name;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::{check, quantities};

const HUGE_PAGES: &str = "hugepages-";
/// Before a resource of others, in a quota.
pub(crate) const REQUESTS: &str = "requests.";

const OF_CONTAINERS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Objects that a quota counts.
const COUNTS: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// What else a quota bounds.
const OF_QUOTAS: [&str; 10] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];

pub(crate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

pub(crate) fn huge_page_size(name: &str) -> Option<&str> {
    name.strip_prefix(HUGE_PAGES)
}

pub(crate) fn is_huge_pages(name: &str) -> bool {
    name.starts_with(HUGE_PAGES)
}

/// What a node can promise to more than one pod at a time.
pub(crate) fn is_overcommittable(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

/// Of somebody else, who says what it is.
pub fn is_extended(name: &str) -> bool {
    let is_quotable = || is_qualified_name(&format!("{REQUESTS}{name}")).is_empty();
    !is_native(name) && !name.starts_with(REQUESTS) && is_quotable()
}

pub(crate) fn is_of_quotas(name: &str) -> bool {
    let pages = name.strip_prefix(REQUESTS).unwrap_or(name);
    COUNTS.contains(&name) || OF_QUOTAS.contains(&name) || is_huge_pages(pages)
}

fn is_standard(name: &str) -> bool {
    is_of_quotas(name) || name == "storage"
}

/// What there are only whole ones of.
fn is_integer(name: &str) -> bool {
    COUNTS.contains(&name) || is_extended(name)
}

pub(crate) fn validate(name: &str, path: &Path, errors: &mut FieldErrors) {
    let problems = is_qualified_name(name);
    check::format(name, &problems, path, errors);
    if problems.is_empty() && !name.contains('/') && !is_standard(name) {
        errors.invalid(path, name, "must be a standard resource type or fully qualified");
    }
}

pub(crate) fn validate_of_container(name: &str, path: &Path, errors: &mut FieldErrors) {
    validate(name, path, errors);
    if !name.contains('/') {
        if !OF_CONTAINERS.contains(&name) && !is_huge_pages(name) {
            errors.invalid(path, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.invalid(path, name, "doesn't follow extended resource name standard");
    }
}

/// What all containers of a pod can be given together.
pub(crate) fn is_of_pods(name: &str) -> bool {
    ["cpu", "memory"].contains(&name) || is_huge_pages(name)
}

pub(crate) fn validate_of_pod(name: &str, path: &Path, errors: &mut FieldErrors) {
    let n_problems = errors.iter().count();
    validate(name, path, errors);
    let is_name = errors.iter().count() == n_problems;
    if is_name && !is_of_pods(name) {
        errors.not_supported(path, name, &["cpu", HUGE_PAGES, "memory"]);
    }
}

pub(crate) fn validate_of_quota(name: &str, path: &Path, errors: &mut FieldErrors) {
    validate(name, path, errors);
    if !name.contains('/') && !is_of_quotas(name) {
        errors.invalid(path, name, "must be a standard resource for quota");
    }
}

/// How much of the resource there may be said to be.
pub(crate) fn validate_amount(
    name: &str,
    quantity: &Quantity,
    path: &Path,
    errors: &mut FieldErrors,
) {
    quantities::non_negative(quantity, path, errors);
    if is_integer(name) && !quantities::is_whole(quantities::amount(Some(quantity))) {
        errors.invalid(path, quantity.0.as_str(), "must be an integer");
    }
}
