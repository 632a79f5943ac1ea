//! Manifest in; problems, defaults or cells out. What bindings have in common is tested here.

use serde_json::{Value, json};

use super::ValidatingAdmissionPolicyBinding;
use crate::kind::{Part, Resource};
use crate::testing::{check, check_created, check_row, check_update, created};

/// A binding that nothing is wrong with, but for the changes.
fn binding(changes: Value) -> Value {
    let mut spec = json!({"policyName": "p", "validationActions": ["Deny"]});
    spec.as_object_mut().unwrap().extend(changes.as_object().cloned().unwrap_or_default());
    json!({"metadata": {"name": "b"}, "spec": spec})
}

fn refused(changes: Value, expected: &[&str]) {
    check::<ValidatingAdmissionPolicyBinding>(binding(changes), expected);
}

#[test]
fn it_names_a_policy_and_what_follows() {
    check::<ValidatingAdmissionPolicyBinding>(
        json!({"metadata": {"name": "b"}, "spec": {}}),
        &[
            "spec.policyName: Required value",
            "spec.validationActions: Required value: at least one validation action is required",
        ],
    );
    refused(json!({"validationActions": ["Audit", "Warn"]}), &[]);
    refused(
        json!({"validationActions": ["Deny", "Warn", "Warn", "Eat"]}),
        &[
            "spec.validationActions[2]: Duplicate value: \"Warn\"",
            "spec.validationActions[3]: Unsupported value: \"Eat\": supported values: \"Audit\", \"Deny\", \"Warn\"",
            "spec.validationActions: Invalid value: [\"Deny\",\"Warn\",\"Warn\",\"Eat\"]: must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)",
        ],
    );
}

#[test]
fn parameters_are_found_by_name_or_by_label() {
    refused(json!({"paramRef": {"name": "n", "parameterNotFoundAction": "Allow"}}), &[]);
    refused(
        json!({"paramRef": {}}),
        &[
            "spec.paramRef: Required value: one of name or selector must be specified",
            "spec.paramRef.parameterNotFoundAction: Required value",
        ],
    );
    refused(
        json!({"paramRef": {"name": "a/b", "selector": {}, "parameterNotFoundAction": "Skip"}}),
        &[
            "spec.paramRef.name: Invalid value: \"a/b\": may not contain '/'",
            "spec.paramRef.name: Forbidden: name and selector are mutually exclusive",
            "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive",
            "spec.paramRef.parameterNotFoundAction: Unsupported value: \"Skip\": supported values: \"Deny\", \"Allow\"",
        ],
    );
}

#[test]
fn what_it_is_for_has_the_defaults_of_a_policy() {
    let manifest = binding(json!({"matchResources": {}}));
    check_created::<ValidatingAdmissionPolicyBinding>(
        manifest.clone(),
        "/spec/matchResources/matchPolicy",
        json!("Equivalent"),
    );
    let stored = created::<ValidatingAdmissionPolicyBinding>(manifest);
    check_update(&stored, binding(json!({})), Part::Main, &[]);
    let changed = created::<ValidatingAdmissionPolicyBinding>(binding(json!({})));
    assert!(changed.is_new_generation(&stored));
    assert!(stored.warnings().is_empty());
}

#[test]
fn columns_show_where_parameters_are() {
    for (reference, expected) in [
        (json!(null), "<unset>"),
        (json!({"name": "n"}), "*/n"),
        (json!({"name": "n", "namespace": "s"}), "s/n"),
        (
            json!({"selector": {"matchLabels": {"a": "b"}, "matchExpressions": [
                {"key": "c", "operator": "In", "values": ["x", "y"]},
            ]}}),
            "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:c,Operator:In,Values:[x y],},},}",
        ),
    ] {
        let mut manifest = binding(json!({"paramRef": reference}));
        manifest["metadata"]["creationTimestamp"] = json!("2024-01-02T03:04:05Z");
        check_row::<ValidatingAdmissionPolicyBinding>(
            manifest,
            "2024-01-02T03:05:05Z",
            json!(["b", "p", expected, "60s"]),
        );
    }
}
