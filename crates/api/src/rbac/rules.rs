//! Checks of policy rules, the same in Role and ClusterRole.

use k8s_openapi::api::rbac::v1::PolicyRule;

use apimachinery::field::Path;
use apimachinery::{FieldErrors, Scope};

pub(super) fn validate(rules: Option<&Vec<PolicyRule>>, scope: Scope, errors: &mut FieldErrors) {
    for (index, rule) in rules.into_iter().flatten().enumerate() {
        validate_rule(rule, scope, &Path::new("rules").index(index), errors);
    }
}

fn validate_rule(rule: &PolicyRule, scope: Scope, path: &Path, errors: &mut FieldErrors) {
    let is_empty = |it: &Option<Vec<String>>| it.as_ref().is_none_or(Vec::is_empty);
    if rule.verbs.is_empty() {
        errors.required(&path.child("verbs"), "verbs must contain at least one value");
    }
    if let Some(urls) = rule.non_resource_urls.as_ref().filter(|it| !it.is_empty()) {
        let path = path.child("nonResourceURLs");
        if scope == Scope::Namespaced {
            let detail = "namespaced rules cannot apply to non-resource URLs";
            errors.invalid(&path, urls.clone(), detail);
        }
        let has_resources = !is_empty(&rule.api_groups)
            || !is_empty(&rule.resources)
            || !is_empty(&rule.resource_names);
        if has_resources {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            errors.invalid(&path, urls.clone(), detail);
        }
        return;
    }
    if is_empty(&rule.api_groups) {
        let detail = "resource rules must supply at least one api group";
        errors.required(&path.child("apiGroups"), detail);
    }
    if is_empty(&rule.resources) {
        let detail = "resource rules must supply at least one resource";
        errors.required(&path.child("resources"), detail);
    }
}
