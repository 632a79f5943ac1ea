//! What is wrong with a ResourceQuota.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ResourceQuotaSpec, ScopedResourceSelectorRequirement};

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use super::ResourceQuota;
use crate::codec;
use crate::core::resource_names;
use crate::quantities::ResourceList;

const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "VolumeAttributesClass",
    "CrossNamespacePodAffinity",
];
const CONFLICTS: [[&str; 2]; 2] =
    [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];
const OF_PODS: [&str; 7] =
    ["pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];

pub(super) fn validate_spec(quota: &ResourceQuota, errors: &mut FieldErrors) {
    let Some(spec) = &quota.spec else { return };
    let path = Path::new("spec");
    validate_list(spec.hard.as_ref(), &path.child("hard"), errors);
    validate_scopes(spec, &path.child("scopes"), errors);
    validate_selector(spec, &path.child("scopeSelector").child("matchExpressions"), errors);
}

pub(super) fn validate_status(quota: &ResourceQuota, errors: &mut FieldErrors) {
    let Some(status) = &quota.status else { return };
    let path = Path::new("status");
    validate_list(status.hard.as_ref(), &path.child("hard"), errors);
    validate_list(status.used.as_ref(), &path.child("used"), errors);
}

fn validate_list(list: Option<&ResourceList>, path: &Path, errors: &mut FieldErrors) {
    for (resource, quantity) in list.into_iter().flatten() {
        let path = path.key(resource);
        resource_names::validate_of_quota(resource, &path, errors);
        resource_names::validate_amount(resource, quantity, &path, errors);
    }
}

/// How many of the resources cannot be told by the scope.
fn n_unfit(spec: &ResourceQuotaSpec, scope: &str) -> usize {
    let fits = |resource: &str| match scope {
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => OF_PODS.contains(&resource),
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => {
            matches!(resource, "persistentvolumeclaims" | "requests.storage")
        }
        _ => true,
    };
    let resources = spec.hard.iter().flat_map(|it| it.keys());
    resources.filter(|it| resource_names::is_of_quotas(it) && !fits(it)).count()
}

fn n_conflicts(scopes: &BTreeSet<&str>) -> usize {
    CONFLICTS.iter().filter(|pair| pair.iter().all(|it| scopes.contains(it))).count()
}

fn validate_scopes(spec: &ResourceQuotaSpec, path: &Path, errors: &mut FieldErrors) {
    let scopes = spec.scopes.as_deref().unwrap_or_default();
    let refuse = |n_times: usize, why: &str, errors: &mut FieldErrors| {
        (0..n_times).for_each(|_| errors.invalid(path, scopes.to_vec(), why));
    };
    for scope in scopes {
        let is_unknown = !SCOPES.contains(&scope.as_str());
        refuse(usize::from(is_unknown), "unsupported scope", errors);
        refuse(n_unfit(spec, scope), "unsupported scope applied to resource", errors);
    }
    let scopes = scopes.iter().map(String::as_str).collect();
    refuse(n_conflicts(&scopes), "conflicting scopes", errors);
}

fn validate_selector(spec: &ResourceQuotaSpec, path: &Path, errors: &mut FieldErrors) {
    let Some(selector) = &spec.scope_selector else { return };
    let requirements = selector.match_expressions.as_deref().unwrap_or_default();
    for requirement in requirements {
        let scope = requirement.scope_name.as_str();
        if !SCOPES.contains(&scope) {
            errors.invalid(&path.child("scopeName"), scope, "unsupported scope");
        }
        for _ in 0..n_unfit(spec, scope) {
            let detail = "unsupported scope applied to resource";
            errors.invalid(path, codec::tree(selector), detail);
        }
        validate_requirement(requirement, path, errors);
    }
    let scopes = requirements.iter().map(|it| it.scope_name.as_str()).collect();
    for _ in 0..n_conflicts(&scopes) {
        errors.invalid(path, codec::tree(&spec.scopes), "conflicting scopes");
    }
}

fn validate_requirement(
    requirement: &ScopedResourceSelectorRequirement,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let operator = requirement.operator.as_str();
    let has_values = !matches!(
        requirement.scope_name.as_str(),
        "BestEffort"
            | "NotBestEffort"
            | "Terminating"
            | "NotTerminating"
            | "CrossNamespacePodAffinity"
    );
    if !has_values && operator != "Exists" {
        errors.invalid(
            &path.child("operator"),
            operator,
            "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, \
             ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
             ResourceQuotaScopeCrossNamespacePodAffinity",
        );
    }
    let values = requirement.values.as_deref().unwrap_or_default();
    match operator {
        "In" | "NotIn" if values.is_empty() => errors.required(
            &path.child("values"),
            "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
        ),
        "Exists" | "DoesNotExist" if !values.is_empty() => errors.invalid(
            &path.child("values"),
            values.to_vec(),
            "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
        ),
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => errors.invalid(&path.child("operator"), other, "not a valid selector operator"),
    }
}

pub(super) fn validate_update(
    quota: &ResourceQuota,
    stored: &ResourceQuota,
    errors: &mut FieldErrors,
) {
    fn scopes(quota: &ResourceQuota) -> BTreeSet<&String> {
        quota.spec.iter().flat_map(|it| it.scopes.iter().flatten()).collect()
    }
    if scopes(quota) != scopes(stored) {
        let shown = codec::tree(&quota.spec.as_ref().and_then(|it| it.scopes.as_ref()));
        errors.invalid(&Path::new("spec").child("scopes"), shown, "field is immutable");
    }
}
