//! Roles in, rules out.

use std::sync::Arc;

use api::rbac::ClusterRole;
use proptest::prelude::*;
use reconcile::testing::converges;
use serde_json::{Value, json};

use super::plan::{plan, sorted};

/// `name label=value verb,verb`: a role with one rule for each verb.
fn role(text: &str) -> Arc<ClusterRole> {
    let words: Vec<&str> = text.split(' ').collect();
    let labels: Value = words[1].split_once('=').map(|(key, it)| json!({key: it})).into();
    let rules: Vec<Value> = words[2].split(',').map(|it| json!({"verbs": [it]})).collect();
    let metadata = json!({"name": words[0], "labels": labels});
    Arc::new(serde_json::from_value(json!({"metadata": metadata, "rules": rules})).unwrap())
}

fn aggregated(selectors: Value, verbs: &str) -> ClusterRole {
    let mut role = ClusterRole::clone(&role(&format!("all a=b {verbs}")));
    let rule = json!({"clusterRoleSelectors": selectors});
    role.aggregation_rule = Some(serde_json::from_value(rule).unwrap());
    role
}

fn check(role: &ClusterRole, others: &[&str], expected: Option<&str>) {
    let mut all: Vec<Arc<ClusterRole>> = others.iter().map(|it| self::role(it)).collect();
    all.push(Arc::new(role.clone()));
    let planned = plan(role, &sorted(all));
    let verbs = planned.map(|it| it.iter().map(|it| it.verbs.join("+")).collect::<Vec<_>>());
    assert_eq!(verbs.map(|it| it.join(",")).as_deref(), expected);
}

fn labeled(key: &str, value: &str) -> Value {
    json!({"matchLabels": {key: value}})
}

#[test]
fn rules_come_in_the_order_of_the_roles_names_and_once_each() {
    let others = ["b a=b get,list", "a a=b watch,get", "c x=y delete"];
    check(&aggregated(json!([labeled("a", "b")]), "get"), &others, Some("watch,get,list"));
    check(&aggregated(json!([labeled("a", "b")]), "watch,get,list"), &others, None);
}

#[test]
fn selectors_come_one_after_the_other() {
    let others = ["a a=b get", "z x=y delete,get"];
    let selectors = json!([labeled("x", "y"), labeled("a", "b")]);
    check(&aggregated(selectors, "get"), &others, Some("delete,get"));
}

#[test]
fn a_role_is_no_part_of_itself_and_without_others_allows_nothing() {
    check(&aggregated(json!([labeled("a", "b")]), "get"), &[], Some(""));
    check(&aggregated(json!([]), "get"), &["a a=b get"], Some(""));
}

#[test]
fn roles_without_a_rule_of_aggregation_are_left_alone() {
    check(&role("plain a=b get"), &["a a=b list"], None);
    let wrong = json!([{"matchExpressions": [{"key": "a", "operator": "Near"}]}]);
    check(&aggregated(wrong, "get"), &["a a=b list"], None);
}

#[test]
fn absent_lists_are_as_good_as_empty_ones() {
    let mut role = aggregated(json!([labeled("a", "b")]), "get");
    role.rules.as_mut().unwrap()[0].api_groups = Some(Vec::new());
    check(&role, &["a a=b get"], None);
}

proptest! {
    #[test]
    fn one_write_is_enough(roles in proptest::collection::vec("[a-d] (a=b|x=y) [g-j](,[g-j]){0,3}", 0..6)) {
        let all = sorted(roles.iter().map(|it| role(it)).collect());
        let planned = |it: &ClusterRole| plan(it, &all).into_iter().collect::<Vec<_>>();
        let start = aggregated(json!([labeled("a", "b")]), "get");
        let end = converges(planned, |role, rules| role.rules = Some(rules), start, 1).unwrap();
        let verbs = |it: &ClusterRole| -> Vec<String> {
            it.rules.iter().flatten().map(|it| it.verbs.join("+")).collect()
        };
        let mut seen = verbs(&end);
        let n = seen.len();
        seen.sort();
        seen.dedup();
        prop_assert_eq!(seen.len(), n, "each rule once");
    }
}
