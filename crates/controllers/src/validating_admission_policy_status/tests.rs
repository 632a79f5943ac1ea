//! Which kinds are checked, and when.

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::plan::{is_due, resources};

fn policy(rules: Value, generation: i64, observed: Option<i64>) -> ValidatingAdmissionPolicy {
    serde_json::from_value(json!({
        "metadata": {"name": "p", "generation": generation},
        "spec": {"matchConstraints": {"resourceRules": rules}},
        "status": {"observedGeneration": observed},
    }))
    .unwrap()
}

fn rule(groups: &[&str], versions: &[&str], resources: &[&str]) -> Value {
    json!({"apiGroups": groups, "apiVersions": versions, "resources": resources,
           "operations": ["*"]})
}

fn check(rules: Value, expected: &[&str]) {
    let found = resources(&policy(rules, 1, None));
    let found: Vec<String> =
        found.iter().map(|it| format!("{}/{}/{}", it.group, it.version, it.resource)).collect();
    assert_eq!(found, expected);
}

#[test]
fn resources_without_wildcards_are_checked() {
    check(
        json!([rule(&["apps"], &["v1"], &["deployments", "deployments/scale", "daemonsets"])]),
        &["apps/v1/daemonsets", "apps/v1/deployments"],
    );
    check(json!([rule(&["*"], &["v1"], &["deployments"])]), &[]);
    check(json!([rule(&["apps"], &["*"], &["deployments"])]), &[]);
    check(
        json!([rule(&["apps"], &["v1"], &["*"]), rule(&[""], &["v1"], &["pods"])]),
        &["/v1/pods"],
    );
}

#[test]
fn no_more_than_ten_kinds_are_checked() {
    let names: Vec<String> = (0..20).map(|n| format!("r{n:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let all = resources(&policy(json!([rule(&["g"], &["v1"], &names)]), 1, None));
    assert_eq!(all.len(), 10);
}

#[test]
fn what_was_checked_is_not_checked_again() {
    assert!(is_due(&policy(json!([]), 1, None)));
    assert!(!is_due(&policy(json!([]), 1, Some(1))));
    assert!(is_due(&policy(json!([]), 2, Some(1))));
}

proptest! {
    #[test]
    fn kinds_are_the_same_each_time_sorted_and_few_and_one_look_is_enough(
        rules in prop::collection::vec(
            (
                prop::collection::vec("a|apps|\\*", 0..3),
                prop::collection::vec("v1|v2|\\*", 0..3),
                prop::collection::vec("[a-d]|[a-d]/status|\\*|\\*/\\*", 0..5),
            ),
            0..4,
        ),
        generation in 0..4_i64,
        observed in prop::option::of(0..4_i64),
    ) {
        let words = |it: &[String]| it.iter().map(String::as_str).map(str::to_owned).collect::<Vec<_>>();
        let rules: Vec<Value> = rules
            .iter()
            .map(|(groups, versions, resources)| {
                json!({"apiGroups": words(groups), "apiVersions": words(versions),
                       "resources": words(resources), "operations": ["*"]})
            })
            .collect();
        let mut policy = policy(json!(rules), generation, observed);
        let found = resources(&policy);
        prop_assert_eq!(&found, &resources(&policy));
        prop_assert!(found.len() <= 10);
        prop_assert!(found.windows(2).all(|it| it[0] < it[1]), "{found:?}");
        prop_assert!(found.iter().all(|it| !it.resource.contains(['*', '/'])));
        if is_due(&policy) {
            policy.status.get_or_insert_default().observed_generation = policy.metadata.generation;
        }
        prop_assert!(!is_due(&policy), "it comes to rest");
    }
}
