//! Manifest in; problems, defaults or cells out. What this kind has in common with policies that
//! validate is tested there.

use serde_json::{Value, json};

use super::{MutatingAdmissionPolicy, v1alpha1, v1beta1};
use crate::kind::{Part, Resource};
use crate::testing::{
    check, check_created, check_row, check_there_and_back, check_update, created, defaulted,
};
use crate::version::Version;

fn example() -> Value {
    serde_json::from_str(include_str!("example.json")).unwrap()
}

fn refused(mutation: Value, expected: &[&str]) {
    let mut manifest = example();
    manifest["spec"]["mutations"] = json!([mutation]);
    check::<MutatingAdmissionPolicy>(manifest, expected);
}

#[test]
fn a_policy_is_for_something_and_does_something() {
    check::<MutatingAdmissionPolicy>(example(), &[]);
    check_created::<MutatingAdmissionPolicy>(json!({}), "/spec/failurePolicy", json!("Fail"));
    check::<MutatingAdmissionPolicy>(
        json!({"metadata": {"name": "p"}}),
        &[
            "spec.matchConstraints: Required value",
            "spec.mutations: Required value: mutations must contain at least one item",
            "spec.reinvocationPolicy: Required value",
        ],
    );
    let mut manifest = example();
    manifest["spec"]["matchConstraints"]["resourceRules"][0]["operations"] = json!(["DELETE"]);
    manifest["spec"]["reinvocationPolicy"] = json!("Often");
    check::<MutatingAdmissionPolicy>(
        manifest,
        &[
            "spec.matchConstraints.resourceRules.operations: Unsupported value: \"DELETE\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"UPDATE\"",
            "spec.reinvocationPolicy: Unsupported value: \"Often\": supported values: \"IfNeeded\", \"Never\"",
        ],
    );
}

#[test]
fn a_mutation_is_what_its_type_says() {
    refused(json!({}), &["spec.mutations[0].patchType: Required value"]);
    refused(
        json!({"patchType": "Merge"}),
        &[
            "spec.mutations[0].patchType: Unsupported value: \"Merge\": supported values: \"ApplyConfiguration\", \"JSONPatch\"",
        ],
    );
    refused(
        json!({"patchType": "JSONPatch", "applyConfiguration": {"expression": "x"}}),
        &[
            "spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch",
            "spec.mutations[0].applyConfiguration: Invalid value: \"{applyConfiguration}\": must not be specified when patchType is JSONPatch",
        ],
    );
    refused(
        json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": " "}}),
        &["spec.mutations[0].applyConfiguration.expression: Required value"],
    );
}

#[test]
fn what_stays_is_not_looked_at_again() {
    let mut old = example();
    old["spec"]["matchConditions"] = json!([{"name": "", "expression": "true"}]);
    let stored = created::<MutatingAdmissionPolicy>(old.clone());
    check_update(&stored, old, Part::Main, &[]);
    let changed = created::<MutatingAdmissionPolicy>(example());
    assert!(changed.is_new_generation(&stored));
    assert!(stored.warnings().is_empty());
}

#[test]
fn other_versions_lose_nothing() {
    let hub = created::<MutatingAdmissionPolicy>(example());
    check_there_and_back::<v1beta1::MutatingAdmissionPolicy, MutatingAdmissionPolicy>(&hub);
    check_there_and_back::<v1alpha1::MutatingAdmissionPolicy, MutatingAdmissionPolicy>(&hub);
    let mut manifest = example();
    manifest["apiVersion"] = json!("admissionregistration.k8s.io/v1beta1");
    let written: MutatingAdmissionPolicy =
        defaulted::<v1beta1::MutatingAdmissionPolicy>(manifest.clone()).into_hub();
    assert_eq!(written, hub);
    // Upstream stores this one.
    let converted = MutatingAdmissionPolicy::convert_stored(
        "admissionregistration.k8s.io/v1beta1",
        manifest.to_string().as_bytes(),
    );
    let converted = MutatingAdmissionPolicy::decode(&converted.unwrap().unwrap()).unwrap();
    assert_eq!(converted.metadata, hub.metadata);
    assert_eq!(converted.spec.unwrap().mutations, hub.spec.unwrap().mutations);
}

#[test]
fn columns_count_the_mutations() {
    let mut manifest = example();
    manifest["metadata"]["creationTimestamp"] = json!("2024-01-02T03:04:05Z");
    check_row::<MutatingAdmissionPolicy>(
        manifest,
        "2024-01-02T03:05:05Z",
        json!(["team.example.com", 2, "v1/ConfigMap", "60s"]),
    );
}
