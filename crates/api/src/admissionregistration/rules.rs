//! Which requests a webhook or a policy is for: operations on resources of groups and versions.

use k8s_openapi::api::admissionregistration::v1::{NamedRuleWithOperations, RuleWithOperations};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::is_path_segment;
use std::collections::BTreeSet;

use crate::check;

const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
/// What is deleted cannot be changed any more.
const MUTATING_OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "UPDATE"];
const SCOPES: &[&str] = &["*", "Cluster", "Namespaced"];

/// Both kinds of rules, as far as they are alike.
struct Rule<'a> {
    operations: &'a [String],
    api_groups: &'a [String],
    api_versions: &'a [String],
    resources: &'a [String],
    scope: Option<&'a str>,
}

impl<'a> From<&'a RuleWithOperations> for Rule<'a> {
    fn from(rule: &'a RuleWithOperations) -> Self {
        Self {
            operations: rule.operations.as_deref().unwrap_or_default(),
            api_groups: rule.api_groups.as_deref().unwrap_or_default(),
            api_versions: rule.api_versions.as_deref().unwrap_or_default(),
            resources: rule.resources.as_deref().unwrap_or_default(),
            scope: rule.scope.as_deref(),
        }
    }
}

impl<'a> From<&'a NamedRuleWithOperations> for Rule<'a> {
    fn from(rule: &'a NamedRuleWithOperations) -> Self {
        Self {
            operations: rule.operations.as_deref().unwrap_or_default(),
            api_groups: rule.api_groups.as_deref().unwrap_or_default(),
            api_versions: rule.api_versions.as_deref().unwrap_or_default(),
            resources: rule.resources.as_deref().unwrap_or_default(),
            scope: rule.scope.as_deref(),
        }
    }
}

/// Of rules that say nothing of it.
pub(super) fn default_scope(scope: &mut Option<String>) {
    scope.get_or_insert_with(|| "*".to_owned());
}

pub(super) fn validate(rule: &RuleWithOperations, path: &Path, errors: &mut FieldErrors) {
    validate_rule(&rule.into(), path, errors);
}

pub(super) fn validate_named(
    rule: &NamedRuleWithOperations,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let mut seen = BTreeSet::new();
    for (index, name) in rule.resource_names.iter().flatten().enumerate() {
        let path = path.child("resourceNames").index(index);
        check::format(name, &is_path_segment(name), &path, errors);
        if !seen.insert(name) {
            errors.duplicate(&path, name.as_str());
        }
    }
    validate_rule(&rule.into(), path, errors);
}

/// Policies that mutate have nothing to do with deletions.
pub(super) fn validate_mutating(
    rules: Option<&Vec<NamedRuleWithOperations>>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let operations = rules.into_iter().flatten().filter_map(|it| it.operations.as_ref()).flatten();
    for operation in operations.filter(|it| !MUTATING_OPERATIONS.contains(&it.as_str())) {
        errors.not_supported(&path.child("operations"), operation.as_str(), MUTATING_OPERATIONS);
    }
}

fn validate_rule(rule: &Rule<'_>, path: &Path, errors: &mut FieldErrors) {
    let operations_path = path.child("operations");
    validate_list(rule.operations, "operations", &operations_path, errors);
    for (index, operation) in rule.operations.iter().enumerate() {
        if !OPERATIONS.contains(&operation.as_str()) {
            errors.not_supported(&operations_path.index(index), operation.as_str(), OPERATIONS);
        }
    }
    validate_list(rule.api_groups, "API groups", &path.child("apiGroups"), errors);
    let versions_path = path.child("apiVersions");
    validate_list(rule.api_versions, "API versions", &versions_path, errors);
    for (index, _) in rule.api_versions.iter().enumerate().filter(|(_, it)| it.is_empty()) {
        errors.required(&versions_path.index(index), "");
    }
    validate_resources(rule.resources, &path.child("resources"), errors);
    if let Some(scope) = rule.scope.filter(|it| !SCOPES.contains(it)) {
        errors.not_supported(&path.child("scope"), scope, SCOPES);
    }
}

/// There is something, and `*` is alone.
fn validate_list(values: &[String], what: &str, path: &Path, errors: &mut FieldErrors) {
    if values.is_empty() {
        errors.required(path, "");
    }
    if values.len() > 1 && values.iter().any(|it| it == "*") {
        let why = format!("if '*' is present, must not specify other {what}");
        errors.invalid(path, values.to_vec(), &why);
    }
}

/// `pods`, `pods/log`, `pods/*`, `*/scale`, `*`, `*/*`; nothing that another one says already.
fn validate_resources(resources: &[String], path: &Path, errors: &mut FieldErrors) {
    if resources.is_empty() {
        errors.required(path, "");
    }
    let mut whole_resources = BTreeSet::new();
    let mut whole_subresources = BTreeSet::new();
    // As upstream: the last one without a subresource decides.
    let mut has_plain = false;
    for (index, text) in resources.iter().enumerate() {
        let path = path.index(index);
        if text.is_empty() {
            errors.required(&path, "");
            continue;
        }
        let Some((resource, subresource)) = text.split_once('/') else {
            has_plain = text != "*";
            continue;
        };
        if whole_resources.contains(resource) {
            let why = format!("if '{resource}/*' is present, must not specify {text}");
            errors.invalid(&path, text.as_str(), &why);
        }
        if whole_subresources.contains(subresource) {
            let why = format!("if '*/{subresource}' is present, must not specify {text}");
            errors.invalid(&path, text.as_str(), &why);
        }
        if subresource == "*" {
            whole_resources.insert(resource);
        }
        if resource == "*" {
            whole_subresources.insert(subresource);
        }
    }
    let has = |wanted: &str| resources.iter().any(|it| it == wanted);
    if resources.len() > 1 && has("*/*") {
        let why = "if '*/*' is present, must not specify other resources";
        errors.invalid(path, resources.to_vec(), why);
    }
    if has("*") && has_plain {
        let why = "if '*' is present, must not specify other resources without subresources";
        errors.invalid(path, resources.to_vec(), why);
    }
}
