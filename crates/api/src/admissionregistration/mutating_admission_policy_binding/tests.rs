//! Manifest in; problems, defaults or cells out. What this kind has in common with bindings of
//! policies that validate is tested there.

use serde_json::{Value, json};

use super::{MutatingAdmissionPolicyBinding, v1alpha1, v1beta1};
use crate::kind::{Part, Resource};
use crate::testing::{check, check_row, check_there_and_back, check_update, created, defaulted};
use crate::version::Version;

fn example() -> Value {
    serde_json::from_str(include_str!("example.json")).unwrap()
}

#[test]
fn a_binding_is_of_a_policy_and_not_for_deletions() {
    check::<MutatingAdmissionPolicyBinding>(example(), &[]);
    check::<MutatingAdmissionPolicyBinding>(json!({}), &["spec.policyName: Required value"]);
    let mut manifest = example();
    manifest["spec"]["matchResources"]["resourceRules"][0]["operations"] = json!(["DELETE"]);
    check::<MutatingAdmissionPolicyBinding>(
        manifest.clone(),
        &[
            "spec.matchResources.resourceRules.operations: Unsupported value: \"DELETE\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"UPDATE\"",
        ],
    );
    let stored = created::<MutatingAdmissionPolicyBinding>(manifest);
    check_update(&stored, example(), Part::Main, &[]);
    assert!(created::<MutatingAdmissionPolicyBinding>(example()).is_new_generation(&stored));
    assert!(stored.warnings().is_empty());
}

#[test]
fn other_versions_lose_nothing() {
    let hub = created::<MutatingAdmissionPolicyBinding>(example());
    check_there_and_back::<v1beta1::MutatingAdmissionPolicyBinding, MutatingAdmissionPolicyBinding>(
        &hub,
    );
    check_there_and_back::<v1alpha1::MutatingAdmissionPolicyBinding, MutatingAdmissionPolicyBinding>(
        &hub,
    );
}

#[test]
fn a_missing_parameter_denies_in_v1alpha1_alone() {
    let manifest = |version: &str| {
        json!({
            "apiVersion": format!("admissionregistration.k8s.io/{version}"),
            "kind": "MutatingAdmissionPolicyBinding",
            "spec": {"policyName": "p", "paramRef": {"name": "n"}},
        })
    };
    let action = |it: MutatingAdmissionPolicyBinding| {
        it.spec.and_then(|it| it.param_ref).and_then(|it| it.parameter_not_found_action)
    };
    let old = defaulted::<v1alpha1::MutatingAdmissionPolicyBinding>(manifest("v1alpha1"));
    assert_eq!(action(old.into_hub()).as_deref(), Some("Deny"));
    let new = defaulted::<v1beta1::MutatingAdmissionPolicyBinding>(manifest("v1beta1"));
    assert_eq!(action(new.into_hub()), None);
}

#[test]
fn columns_show_the_policy() {
    let mut manifest = example();
    manifest["metadata"]["creationTimestamp"] = json!("2024-01-02T03:04:05Z");
    manifest["spec"]["paramRef"] = json!(null);
    check_row::<MutatingAdmissionPolicyBinding>(
        manifest,
        "2024-01-02T03:05:05Z",
        json!(["team-test.example.com", "team.example.com", "<unset>", "60s"]),
    );
}
