//! Which kinds are checked, and when.

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
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
