//! Manifest in; problems or cells out.

use serde_json::{Value, json};

use super::{DeviceClass, v1beta1, v1beta2};
use crate::kind::{Part, Resource};
use crate::testing::{check, check_row, check_there_and_back, check_update, created};

fn class(spec: Value) -> Value {
    json!({"metadata": {"name": "c"}, "spec": spec})
}

fn example() -> Value {
    serde_json::from_str(include_str!("example.json")).unwrap()
}

#[test]
fn selectors_are_expressions_of_bounded_length() {
    check::<DeviceClass>(class(json!({})), &[]);
    check::<DeviceClass>(example(), &[]);
    check::<DeviceClass>(
        class(json!({"selectors": [{}, {"cel": {"expression": "x".repeat(10_241)}}]})),
        &[
            "spec.selectors[0].cel: Required value",
            "spec.selectors[1].cel.expression: Too long: may not be more than 10240 bytes",
        ],
    );
    let many = vec![json!({"cel": {"expression": "true"}}); 33];
    check::<DeviceClass>(
        class(json!({"selectors": many})),
        &["spec.selectors: Too many: 33: must have at most 32 items"],
    );
}

/// Expressions, and what an upstream server said of each.
#[test]
fn selectors_are_told_of_a_device() {
    let rows: Vec<(String, Vec<String>)> =
        serde_json::from_str(include_str!("selectors.json")).unwrap();
    for (expression, causes) in rows {
        let shown = |it: &String| format!("spec.selectors[0].cel.expression: {it}");
        let expected: Vec<String> = causes.iter().map(shown).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check::<DeviceClass>(
            class(json!({"selectors": [{"cel": {"expression": expression}}]})),
            &expected,
        );
    }
}

#[test]
fn parameters_are_an_object_of_a_driver() {
    check::<DeviceClass>(
        class(json!({"config": [
            {}, {"opaque": {"driver": "", "parameters": null}},
            {"opaque": {"driver": "d", "parameters": [1]}},
        ]})),
        &[
            "spec.config[0].opaque: Required value",
            "spec.config[1].opaque.driver: Required value",
            "spec.config[1].opaque.parameters: Required value",
            "spec.config[2].opaque.parameters: Invalid value: \"<value omitted>\": must be a valid JSON object",
        ],
    );
}

#[test]
fn parameters_that_were_too_long_may_stay() {
    let long = |text: &str| {
        class(json!({"config": [{"opaque": {"driver": "d", "parameters": {"a": text}}}]}))
    };
    let text = "x".repeat(11_000);
    let stored = created::<DeviceClass>(long(&text));
    check_update(&stored, long(&text), Part::Main, &[]);
    check_update(
        &stored,
        long(&format!("{text}y")),
        Part::Main,
        &["spec.config[0].opaque.parameters: Too long: may not be more than 10240 bytes"],
    );
    assert!(created::<DeviceClass>(class(json!({}))).is_new_generation(&stored));
}

#[test]
fn an_extended_resource_is_not_one_of_kubernetes() {
    for name in ["cpu", "kubernetes.io/gpu", "requests.example.com/gpu", "example.com/"] {
        let expected = format!(
            "spec.extendedResourceName: Invalid value: {name:?}: must be a valid extended resource name"
        );
        check::<DeviceClass>(class(json!({"extendedResourceName": name})), &[&expected]);
    }
}

#[test]
fn other_versions_lose_nothing() {
    let hub = created::<DeviceClass>(example());
    check_there_and_back::<v1beta1::DeviceClass, DeviceClass>(&hub);
    check_there_and_back::<v1beta2::DeviceClass, DeviceClass>(&hub);
}

#[test]
fn columns_show_name_and_age() {
    check_row::<DeviceClass>(
        json!({"metadata": {"name": "c", "creationTimestamp": "2024-01-02T03:04:05Z"}, "spec": {}}),
        "2024-01-02T03:05:05Z",
        json!(["c", "60s"]),
    );
}
