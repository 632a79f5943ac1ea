//! When one RBAC rule allows a request, and how it reads. Pure.

use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::attributes::Attributes;

pub(crate) const ANY: &str = "*";

pub(crate) fn items(list: &Option<Vec<String>>) -> &[String] {
    list.as_deref().unwrap_or_default()
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|it| it == ANY || it == wanted)
}

fn has_resource(list: &[String], resource: &str, subresource: &str) -> bool {
    list.iter().any(|it| match it.split_once('/') {
        None => it == ANY || (subresource.is_empty() && it == resource),
        Some((parent, child)) => {
            !subresource.is_empty() && child == subresource && (parent == ANY || parent == resource)
        }
    })
}

/// A path that ends with a star stands for all that begin like it.
pub(crate) fn has_path(list: &[String], path: &str) -> bool {
    list.iter()
        .any(|it| it == path || (it.ends_with('*') && path.starts_with(it.trim_end_matches('*'))))
}

/// Whether `rule` allows the request, wherever the rule was bound.
pub fn allows(rule: &PolicyRule, attributes: &Attributes) -> bool {
    if !has(&rule.verbs, &attributes.verb) {
        return false;
    }
    if !attributes.is_resource {
        return has_path(items(&rule.non_resource_urls), &attributes.path);
    }
    let names = items(&rule.resource_names);
    has(items(&rule.api_groups), &attributes.group)
        && has_resource(items(&rule.resources), &attributes.resource, &attributes.subresource)
        && (names.is_empty() || names.contains(&attributes.name))
}

/// `{APIGroups:["apps"], Resources:["deployments"], Verbs:["get" "list"]}`, as refusals show a
/// rule.
pub fn render(rule: &PolicyRule) -> String {
    let mut parts = Vec::new();
    let mut push = |name: &str, list: &[String]| {
        if !list.is_empty() {
            let quoted: Vec<String> = list.iter().map(|it| format!("{it:?}")).collect();
            parts.push(format!("{name}:[{}]", quoted.join(" ")));
        }
    };
    push("APIGroups", items(&rule.api_groups));
    push("Resources", items(&rule.resources));
    push("NonResourceURLs", items(&rule.non_resource_urls));
    push("ResourceNames", items(&rule.resource_names));
    push("Verbs", &rule.verbs);
    format!("{{{}}}", parts.join(", "))
}
