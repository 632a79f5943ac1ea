//! Manifest in; problems, defaults or cells out. What policies have in common is tested here.

use serde_json::{Value, json};

use super::ValidatingAdmissionPolicy;
use crate::kind::{Part, Resource};
use crate::testing::{check, check_created, check_row, check_update, created};

fn rule(operations: &[&str]) -> Value {
    json!({
        "operations": operations, "apiGroups": ["apps"], "apiVersions": ["v1"],
        "resources": ["deployments"],
    })
}

/// A policy that nothing is wrong with, but for the changes.
fn policy(changes: Value) -> Value {
    let mut spec = json!({
        "matchConstraints": {"resourceRules": [rule(&["CREATE"])]},
        "validations": [{"expression": "true"}],
    });
    spec.as_object_mut().unwrap().extend(changes.as_object().cloned().unwrap_or_default());
    json!({"metadata": {"name": "p"}, "spec": spec})
}

fn refused(changes: Value, expected: &[&str]) {
    check::<ValidatingAdmissionPolicy>(policy(changes), expected);
}

#[test]
fn what_is_not_said_is_filled_in() {
    for (pointer, expected) in [
        ("/spec/failurePolicy", json!("Fail")),
        ("/spec/matchConstraints/matchPolicy", json!("Equivalent")),
        ("/spec/matchConstraints/namespaceSelector", json!({})),
        ("/spec/matchConstraints/objectSelector", json!({})),
        ("/spec/matchConstraints/resourceRules/0/scope", json!("*")),
        ("/status", json!({})),
    ] {
        check_created::<ValidatingAdmissionPolicy>(policy(json!({})), pointer, expected);
    }
}

#[test]
fn a_policy_is_for_something_and_says_something() {
    check::<ValidatingAdmissionPolicy>(
        json!({"metadata": {"name": "p"}}),
        &[
            "spec.matchConstraints: Required value",
            "spec.validations: Required value: validations or auditAnnotations must contain at least one item",
            "spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item",
        ],
    );
    refused(
        json!({
            "failurePolicy": "Retry",
            "matchConstraints": {"matchPolicy": "Near", "excludeResourceRules": [rule(&["EAT"])]},
        }),
        &[
            "spec.failurePolicy: Unsupported value: \"Retry\": supported values: \"Fail\", \"Ignore\"",
            "spec.matchConstraints.matchPolicy: Unsupported value: \"Near\": supported values: \"Equivalent\", \"Exact\"",
            "spec.matchConstraints.excludeResourceRules[0].operations[0]: Unsupported value: \"EAT\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"DELETE\", \"UPDATE\"",
            "spec.matchConstraints.resourceRules: Required value",
        ],
    );
    let mut named = rule(&["DELETE"]);
    named["resourceNames"] = json!(["a/b", "c", "c"]);
    refused(
        json!({"matchConstraints": {"resourceRules": [named]}}),
        &[
            "spec.matchConstraints.resourceRules[0].resourceNames[0]: Invalid value: \"a/b\": may not contain '/'",
            "spec.matchConstraints.resourceRules[0].resourceNames[2]: Duplicate value: \"c\"",
        ],
    );
}

#[test]
fn the_kind_of_parameters_has_a_version_and_a_name() {
    refused(
        json!({"paramKind": {}}),
        &["spec.paramKind.apiVersion: Required value", "spec.paramKind.kind: Required value"],
    );
    refused(
        json!({"paramKind": {"apiVersion": "a/b/c", "kind": "ConfigMap"}}),
        &[
            "spec.paramKind.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
        ],
    );
    refused(
        json!({"paramKind": {"apiVersion": "apps/", "kind": "ConfigMap"}}),
        &["spec.paramKind.apiVersion: Invalid value: \"apps/\": version must be specified"],
    );
    refused(json!({"paramKind": {"apiVersion": "apps/v1", "kind": "Deployment"}}), &[]);
}

#[test]
fn variables_are_identifiers() {
    refused(
        json!({"variables": [
            {"name": " ", "expression": ""}, {"name": "if", "expression": "true"},
            {"name": "1a", "expression": "true"}, {"name": "_a1", "expression": "true"},
        ]}),
        &[
            "spec.variables[0].name: Required value: name is not specified",
            "spec.variables[0].expression: Required value: expression is not specified",
            "spec.variables[1].name: Invalid value: \"if\": must be a valid CEL identifier",
            "spec.variables[2].name: Invalid value: \"1a\": must be a valid CEL identifier",
        ],
    );
}

#[test]
fn validations_have_expressions_and_messages_of_one_line() {
    refused(
        json!({"validations": [{
            "expression": " ", "message": "a\nb", "messageExpression": " ", "reason": "Because",
        }]}),
        &[
            "spec.validations[0].expression: Required value: expression is not specified",
            "spec.validations[0].messageExpression: Invalid value: \" \": must be non-empty if specified",
            "spec.validations[0].message: Invalid value: \"a\\nb\": must not contain line breaks",
            "spec.validations[0].reason: Unsupported value: \"Because\": supported values: \"Forbidden\", \"Invalid\", \"RequestEntityTooLarge\"",
        ],
    );
}

#[test]
fn audit_annotations_are_few_named_and_short() {
    let long = "x".repeat(5 * 1024 + 1);
    refused(
        json!({"auditAnnotations": [
            {"key": "a", "valueExpression": ""}, {"key": "a", "valueExpression": long},
        ]}),
        &[
            "spec.auditAnnotations[0].valueExpression: Required value: valueExpression is not specified",
            "spec.auditAnnotations[1].valueExpression: Required value: must not exceed 5120 bytes in length",
            "spec.auditAnnotations[1].key: Duplicate value: \"a\"",
        ],
    );
    let many: Vec<Value> =
        (0..21).map(|it| json!({"key": format!("k{it}"), "valueExpression": "'x'"})).collect();
    let object = created::<ValidatingAdmissionPolicy>(policy(json!({"auditAnnotations": many})));
    let mut errors = apimachinery::FieldErrors::new();
    object.validate_create(&mut errors);
    let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), 1);
    assert!(found[0].ends_with("must not have more than 20 auditAnnotations"), "{found:?}");
}

#[test]
fn conditions_that_stay_are_not_looked_at_again() {
    let old = policy(json!({"matchConditions": [{"name": "", "expression": "true"}]}));
    let stored = created::<ValidatingAdmissionPolicy>(old.clone());
    check_update(&stored, old.clone(), Part::Main, &[]);
    let mut other = old;
    other["spec"]["paramKind"] = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    check_update(&stored, other, Part::Main, &["spec.matchConditions[0].name: Required value"]);
}

#[test]
fn the_status_is_for_whoever_checks_types() {
    let stored = created::<ValidatingAdmissionPolicy>(policy(json!({})));
    let with = |warnings: Value| {
        let mut manifest = policy(json!({"failurePolicy": "Ignore"}));
        manifest["status"] = json!({"typeChecking": {"expressionWarnings": warnings}});
        manifest
    };
    let warning = |reference: &str, text: &str| json!([{"fieldRef": reference, "warning": text}]);
    check_update(
        &stored,
        with(warning("spec.validations[0].expression", "no such field")),
        Part::Status,
        &[],
    );
    check_update(
        &stored,
        with(warning("", "")),
        Part::Status,
        &[
            "status.typeChecking.expressionWarnings[0].warning: Required value",
            "status.typeChecking.expressionWarnings[0].fieldRef: Required value",
        ],
    );
    check_update(
        &stored,
        with(warning("spec[", "x")),
        Part::Status,
        &[
            "status.typeChecking.expressionWarnings[0].fieldRef: Invalid value: \"spec[\": invalid JSONPath: a bracket is not closed",
        ],
    );
    let text = with(json!([])).to_string();
    let mut written = ValidatingAdmissionPolicy::decode(text.as_bytes()).unwrap();
    written.apply_defaults();
    assert!(written.is_new_generation(&stored));
    written.prepare_update(&stored, Part::Status);
    assert_eq!(written.spec, stored.spec);
}

#[test]
fn columns_show_what_it_takes() {
    let row = |kind: Value, expected: Value| {
        let mut manifest = policy(json!({"paramKind": kind}));
        manifest["metadata"]["creationTimestamp"] = json!("2024-01-02T03:04:05Z");
        check_row::<ValidatingAdmissionPolicy>(manifest, "2024-01-02T03:05:05Z", expected);
    };
    row(json!(null), json!(["p", 1, "<unset>", "60s"]));
    row(
        json!({"apiVersion": "apps/v1", "kind": "Deployment"}),
        json!(["p", 1, "apps/v1/Deployment", "60s"]),
    );
}
