//! What a policy or a binding is for: requests by rule, namespaces and objects by label.

use k8s_openapi::api::admissionregistration::v1::MatchResources;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::validate_label_selector;

use super::rules;

pub(super) const MATCH_POLICIES: &[&str] = &["Equivalent", "Exact"];

pub(super) fn apply_defaults(resources: &mut MatchResources) {
    resources.match_policy.get_or_insert_with(|| "Equivalent".to_owned());
    resources.namespace_selector.get_or_insert_default();
    resources.object_selector.get_or_insert_default();
    let rules = resources.resource_rules.iter_mut().flatten();
    for rule in rules.chain(resources.exclude_resource_rules.iter_mut().flatten()) {
        rules::default_scope(&mut rule.scope);
    }
}

pub(super) fn validate(resources: &MatchResources, path: &Path, errors: &mut FieldErrors) {
    match resources.match_policy.as_deref() {
        None => errors.required(&path.child("matchPolicy"), ""),
        Some(policy) if !MATCH_POLICIES.contains(&policy) => {
            errors.not_supported(&path.child("matchPolicy"), policy, MATCH_POLICIES);
        }
        Some(_) => {}
    }
    for (field, selector) in [
        ("namespaceSelector", &resources.namespace_selector),
        ("objectSelector", &resources.object_selector),
    ] {
        match selector {
            None => errors.required(&path.child(field), ""),
            Some(selector) => validate_label_selector(selector, &path.child(field), errors),
        }
    }
    for (field, rules) in [
        ("resourceRules", &resources.resource_rules),
        ("excludeResourceRules", &resources.exclude_resource_rules),
    ] {
        for (index, rule) in rules.iter().flatten().enumerate() {
            rules::validate_named(rule, &path.child(field).index(index), errors);
        }
    }
}
