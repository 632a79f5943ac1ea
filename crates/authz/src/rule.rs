//! When one RBAC rule allows a request, and when rules cover another rule. Pure.

use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::attributes::Attributes;

const ANY: &str = "*";

fn items(list: &Option<Vec<String>>) -> &[String] {
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

fn has_path(list: &[String], path: &str) -> bool {
    list.iter().any(|it| match it.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => it == path,
    })
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

/// The rules of one verb, group, resource and name (or path) each that `rule` consists of.
pub fn atoms(rule: &PolicyRule) -> Vec<PolicyRule> {
    let one = |text: &str| Some(vec![text.to_owned()]);
    let mut atoms = Vec::new();
    for verb in &rule.verbs {
        for group in items(&rule.api_groups) {
            for resource in items(&rule.resources) {
                let atom = PolicyRule {
                    api_groups: one(group),
                    resources: one(resource),
                    verbs: vec![verb.clone()],
                    ..PolicyRule::default()
                };
                let names = items(&rule.resource_names);
                if names.is_empty() {
                    atoms.push(atom);
                } else {
                    atoms.extend(
                        names
                            .iter()
                            .map(|it| PolicyRule { resource_names: one(it), ..atom.clone() }),
                    );
                }
            }
        }
        atoms.extend(items(&rule.non_resource_urls).iter().map(|it| PolicyRule {
            non_resource_urls: one(it),
            verbs: vec![verb.clone()],
            ..PolicyRule::default()
        }));
    }
    atoms
}

/// Whether one rule of `owned` allows everything that `atom` (one of `atoms`) allows.
pub fn is_covered(atom: &PolicyRule, owned: &[PolicyRule]) -> bool {
    owned.iter().any(|it| covers(it, atom))
}

fn covers(owned: &PolicyRule, atom: &PolicyRule) -> bool {
    let all = |list: &Option<Vec<String>>, check: &dyn Fn(&str) -> bool| {
        items(list).iter().all(|it| check(it))
    };
    let verbs = atom.verbs.iter().all(|it| has(&owned.verbs, it));
    if !items(&atom.non_resource_urls).is_empty() {
        let urls = items(&owned.non_resource_urls);
        return verbs && all(&atom.non_resource_urls, &|it| has_path(urls, it));
    }
    let names = items(&owned.resource_names);
    verbs
        && all(&atom.api_groups, &|it| has(items(&owned.api_groups), it))
        && all(&atom.resources, &|it| covers_resource(items(&owned.resources), it))
        && (names.is_empty()
            || (!items(&atom.resource_names).is_empty()
                && all(&atom.resource_names, &|it| names.iter().any(|name| name == it))))
}

fn covers_resource(owned: &[String], resource: &str) -> bool {
    has(owned, resource)
        || resource
            .split_once('/')
            .is_some_and(|(_, child)| owned.iter().any(|it| it.strip_prefix("*/") == Some(child)))
}

/// `{APIGroups:["apps"], Resources:["deployments"], Verbs:["get"]}`, as refusals show a rule.
pub fn render(rule: &PolicyRule) -> String {
    let mut parts = Vec::new();
    let mut push = |name: &str, list: &[String]| {
        if !list.is_empty() {
            let quoted: Vec<String> = list.iter().map(|it| format!("{it:?}")).collect();
            parts.push(format!("{name}:[{}]", quoted.join(", ")));
        }
    };
    push("APIGroups", items(&rule.api_groups));
    push("Resources", items(&rule.resources));
    push("ResourceNames", items(&rule.resource_names));
    push("NonResourceURLs", items(&rule.non_resource_urls));
    push("Verbs", &rule.verbs);
    format!("{{{}}}", parts.join(", "))
}
