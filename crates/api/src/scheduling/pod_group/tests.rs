//! Manifest in; problems or cells out.

use serde_json::{Value, json};

use super::PodGroup;
use crate::kind::{Part, Resource};
use crate::testing::{check, check_created, check_row, check_update, created, defaulted};

fn group(spec: Value) -> Value {
    json!({"metadata": {"name": "g", "namespace": "n"}, "spec": spec})
}

fn basic(changes: Value) -> Value {
    let mut spec = json!({"schedulingPolicy": {"basic": {}}});
    spec.as_object_mut().unwrap().extend(changes.as_object().cloned().unwrap_or_default());
    group(spec)
}

#[test]
fn a_group_has_one_policy() {
    check::<PodGroup>(basic(json!({})), &[]);
    check::<PodGroup>(
        group(json!({})),
        &["spec.schedulingPolicy: Invalid value: \"\": must specify one of: `basic`, `gang`"],
    );
    check::<PodGroup>(
        group(json!({"schedulingPolicy": {"basic": {}, "gang": {"minCount": -1}}})),
        &[
            "spec.schedulingPolicy: Invalid value: \"{basic, gang}\": must specify exactly one of: `basic`, `gang`",
            "spec.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1",
        ],
    );
    check::<PodGroup>(
        group(json!({"schedulingPolicy": {"gang": {}}})),
        &["spec.schedulingPolicy.gang.minCount: Required value"],
    );
}

#[test]
fn a_template_is_named_within_its_workload() {
    check::<PodGroup>(
        basic(json!({"podGroupTemplateRef": {}})),
        &["spec.podGroupTemplateRef: Invalid value: \"\": must specify one of: `workload`"],
    );
    check::<PodGroup>(
        basic(json!({"podGroupTemplateRef": {"workload": {}}})),
        &[
            "spec.podGroupTemplateRef.workload.workloadName: Required value",
            "spec.podGroupTemplateRef.workload.podGroupTemplateName: Required value",
        ],
    );
}

#[test]
fn fields_of_features_that_are_off_are_dropped_unless_they_are_in_use() {
    let off = basic(json!({
        "disruptionMode": "PodGroup", "priority": 1, "priorityClassName": "high",
        "schedulingConstraints": {"topology": [{"key": "zone"}]},
        "resourceClaims": [{"name": "a", "resourceClaimName": "b"}],
    }));
    let on = json!({"podGroupTemplateRef": null, "schedulingPolicy": {"basic": {}}});
    check_created::<PodGroup>(off.clone(), "/spec", on);
    let stored = defaulted::<PodGroup>(off.clone());
    check_update(&stored, off.clone(), Part::Main, &[]);
    let mut other = off;
    other["spec"]["priority"] = json!(2);
    other["spec"]["resourceClaims"] = json!([{"name": "c"}]);
    check_update(
        &stored,
        other,
        Part::Main,
        &[
            "spec.priority: Forbidden",
            "spec.resourceClaims: Invalid value: null: field is immutable",
        ],
    );
}

#[test]
fn how_a_group_is_scheduled_does_not_change() {
    let stored = created::<PodGroup>(basic(json!({})));
    check_update(
        &stored,
        group(json!({"schedulingPolicy": {"gang": {"minCount": 2}}})),
        Part::Main,
        &["spec.schedulingPolicy: Invalid value: null: field is immutable"],
    );
    assert_eq!(
        stored.warnings(),
        ["spec: accepted, but groups of pods are not scheduled together on this server"]
    );
}

#[test]
fn the_status_is_of_claims_that_there_are() {
    let mut manifest = basic(json!({}));
    manifest["status"] = json!({"resourceClaimStatuses": [{"name": "a"}]});
    let stored = created::<PodGroup>(basic(json!({})));
    check_update(&stored, manifest.clone(), Part::Status, &[]);
    let claims = json!({"resourceClaims": [{"name": "b", "resourceClaimName": "c"}]});
    let stored = defaulted::<PodGroup>(basic(claims));
    check_update(
        &stored,
        manifest,
        Part::Status,
        &[
            "status.resourceClaimStatuses[0].name: Invalid value: \"a\": must match the name of an entry in `spec.resourceClaims`",
        ],
    );
}

#[test]
fn columns_show_how_far_it_is() {
    let row = |conditions: Value, expected: &str| {
        let mut manifest: Value = serde_json::from_str(include_str!("example.json")).unwrap();
        manifest["metadata"]["creationTimestamp"] = json!("2024-01-02T03:04:05Z");
        manifest["status"] = json!({"conditions": conditions});
        check_row::<PodGroup>(
            manifest,
            "2024-01-02T03:05:05Z",
            json!(["train-workers", "Gang", "train", expected, "60s"]),
        );
    };
    let condition = |kind: &str, status: &str| {
        json!({
            "type": kind, "status": status, "reason": "Because", "message": "",
            "lastTransitionTime": "2024-01-02T03:04:05Z",
        })
    };
    row(json!([]), "Pending");
    row(json!([condition("PodGroupScheduled", "False")]), "Unschedulable");
    row(json!([condition("PodGroupScheduled", "True")]), "Scheduled");
    row(
        json!([condition("PodGroupScheduled", "True"), condition("DisruptionTarget", "True")]),
        "Because",
    );
}
