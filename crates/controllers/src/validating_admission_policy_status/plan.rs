//! Which kinds a policy is checked against. Pure.

use std::collections::BTreeSet;

use apimachinery::GroupVersionResource;
use k8s_openapi::api::admissionregistration::v1::{
    NamedRuleWithOperations, ValidatingAdmissionPolicy,
};

/// More kinds are not looked at.
const KINDS_MAX: usize = 10;

/// Whether nobody has checked what it says by now.
pub(super) fn is_due(policy: &ValidatingAdmissionPolicy) -> bool {
    let observed = policy.status.as_ref().and_then(|it| it.observed_generation);
    policy.metadata.generation.unwrap_or_default() > observed.unwrap_or_default()
}

/// The resources that rules name without wildcards, sorted.
pub(super) fn resources(policy: &ValidatingAdmissionPolicy) -> Vec<GroupVersionResource> {
    let constraints = policy.spec.as_ref().and_then(|it| it.match_constraints.as_ref());
    let rules = constraints.and_then(|it| it.resource_rules.as_ref()).into_iter().flatten();
    let named: BTreeSet<(String, String, String)> = rules.flat_map(named).collect();
    let all = named.into_iter().take(KINDS_MAX);
    all.map(|(group, version, resource)| GroupVersionResource::new(group, version, resource))
        .collect()
}

fn named(rule: &NamedRuleWithOperations) -> Vec<(String, String, String)> {
    let list = |it: &Option<Vec<String>>| it.clone().unwrap_or_default();
    let (groups, versions) = (list(&rule.api_groups), list(&rule.api_versions));
    if groups.iter().chain(&versions).any(|it| it.contains('*')) {
        return Vec::new();
    }
    let mut resources = list(&rule.resources);
    resources.retain(|it| !it.contains(['*', '/']));
    let mut all = Vec::new();
    for group in &groups {
        for version in &versions {
            let of = |it: &String| (group.clone(), version.clone(), it.clone());
            all.extend(resources.iter().map(of));
        }
    }
    all
}
