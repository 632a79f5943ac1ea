//! Manifest in; problems or cells out.

use serde_json::{Value, json};

use super::Workload;
use crate::kind::{Part, Resource};
use crate::testing::{check, check_created, check_row, check_update, created};

fn workload(templates: Value) -> Value {
    json!({"metadata": {"name": "w", "namespace": "n"}, "spec": {"podGroupTemplates": templates}})
}

fn example() -> Value {
    serde_json::from_str(include_str!("example.json")).unwrap()
}

#[test]
fn a_workload_has_templates_with_names_and_policies() {
    check::<Workload>(example(), &[]);
    check::<Workload>(workload(json!([])), &["spec.podGroupTemplates: Required value"]);
    check::<Workload>(
        workload(json!([{"name": ""}, {"name": "", "schedulingPolicy": {"basic": {}}}])),
        &[
            "spec.podGroupTemplates[1]: Duplicate value: {\"name\":\"\",\"schedulingPolicy\":{\"basic\":{}}}",
            "spec.podGroupTemplates[0].name: Required value",
            "spec.podGroupTemplates[0].schedulingPolicy: Invalid value: \"\": must specify one of: `basic`, `gang`",
            "spec.podGroupTemplates[1].name: Required value",
        ],
    );
    let many: Vec<Value> = (0..9)
        .map(|it| json!({"name": format!("t{it}"), "schedulingPolicy": {"basic": {}}}))
        .collect();
    check::<Workload>(
        workload(json!(many)),
        &["spec.podGroupTemplates: Too many: 9: must have at most 8 items"],
    );
}

#[test]
fn a_controller_has_a_kind_and_a_name() {
    let mut manifest = example();
    manifest["spec"]["controllerRef"] = json!({"kind": "", "name": "a/b"});
    check::<Workload>(
        manifest,
        &[
            "spec.controllerRef.kind: Required value",
            "spec.controllerRef.name: Invalid value: \"a/b\": may not contain '/'",
        ],
    );
}

#[test]
fn a_workload_does_not_change() {
    let stored = created::<Workload>(example());
    check_update(&stored, example(), Part::Main, &[]);
    check_update(
        &stored,
        workload(json!([{"name": "a"}])),
        Part::Main,
        &[
            "spec.controllerRef: Invalid value: null: field is immutable",
            "spec.podGroupTemplates: Invalid value: null: field is immutable",
        ],
    );
    assert_eq!(
        stored.warnings(),
        ["spec: accepted, but groups of pods are not scheduled together on this server"]
    );
}

#[test]
fn fields_of_features_that_are_off_are_dropped() {
    let mut manifest = example();
    manifest["spec"]["podGroupTemplates"][0]["priority"] = json!(1);
    manifest["spec"]["podGroupTemplates"][0]["disruptionMode"] = json!("Pod");
    check_created::<Workload>(
        manifest,
        "/spec/podGroupTemplates/0",
        json!({"name": "driver", "schedulingConstraints": null, "schedulingPolicy": {"basic": {}}}),
    );
}

#[test]
fn columns_show_name_and_age() {
    let mut manifest = example();
    manifest["metadata"]["creationTimestamp"] = json!("2024-01-02T03:04:05Z");
    check_row::<Workload>(manifest, "2024-01-02T03:05:05Z", json!(["train", "60s"]));
}
