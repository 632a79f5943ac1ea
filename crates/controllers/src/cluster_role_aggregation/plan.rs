//! What an aggregated role allows: the rules of all roles that it selects.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::rbac::ClusterRole;
use apimachinery::selector::Labels;
use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::owners;

/// A rule as far as it means something: lists that are empty or absent are the same.
type Meaning<'a> = [&'a [String]; 5];

fn meaning(rule: &PolicyRule) -> Meaning<'_> {
    [
        rule.api_groups.as_deref().unwrap_or_default(),
        rule.resources.as_deref().unwrap_or_default(),
        rule.resource_names.as_deref().unwrap_or_default(),
        rule.non_resource_urls.as_deref().unwrap_or_default(),
        &rule.verbs,
    ]
}

/// The rules that it should have, unless it has them: selector by selector, in the order of the
/// roles' names, each rule once. `roles` are all roles, by name. A selector that is none leaves the
/// role as it is.
pub(super) fn plan(role: &ClusterRole, roles: &[Arc<ClusterRole>]) -> Option<Vec<PolicyRule>> {
    let selectors = role.aggregation_rule.as_ref()?.cluster_role_selectors.as_deref();
    let mut known = BTreeSet::new();
    let mut rules = Vec::new();
    for selector in selectors.unwrap_or_default() {
        let selector = Labels::from_selector(Some(selector)).ok()?;
        let is_selected = |it: &&Arc<ClusterRole>| {
            let labels = it.metadata.labels.as_ref();
            let label = |name: &str| labels.and_then(|it| it.get(name)).map(String::as_str);
            it.metadata.name != role.metadata.name && selector.matches_with(label)
        };
        let selected = roles.iter().filter(is_selected);
        for rule in selected.flat_map(|it| it.rules.iter().flatten()) {
            if known.insert(meaning(rule)) {
                rules.push(rule.clone());
            }
        }
    }
    let now = role.rules.as_deref().unwrap_or_default();
    let is_same = now.iter().map(meaning).eq(rules.iter().map(meaning));
    (!is_same).then_some(rules)
}

/// Whether somebody who aggregates could tell the one from the other.
pub(super) fn is_same(before: &ClusterRole, after: &ClusterRole) -> bool {
    before.rules == after.rules
        && before.metadata.labels == after.metadata.labels
        && before.aggregation_rule == after.aggregation_rule
}

/// By name, as they are taken.
pub(super) fn sorted(mut roles: Vec<Arc<ClusterRole>>) -> Vec<Arc<ClusterRole>> {
    roles.sort_by(|a, b| owners::name(&a.metadata).cmp(owners::name(&b.metadata)));
    roles
}
