//! Manifest in; problems, defaults or cells out. What templates have in common with claims is
//! tested there.

use serde_json::{Value, json};

use super::{ResourceClaimTemplate, v1beta1, v1beta2};
use crate::kind::{Part, Resource};
use crate::testing::{
    check, check_created, check_row, check_there_and_back, check_update, created,
};

fn example() -> Value {
    serde_json::from_str(include_str!("example.json")).unwrap()
}

#[test]
fn claims_have_defaults_in_a_template_too() {
    let mut manifest = example();
    manifest["spec"]["spec"]["devices"]["requests"][0]["exactly"]["allocationMode"] = json!(null);
    let pointer = "/spec/spec/devices/requests/0/exactly/count";
    check_created::<ResourceClaimTemplate>(manifest, pointer, json!(1));
}

#[test]
fn a_template_says_labels_and_annotations_alone() {
    check::<ResourceClaimTemplate>(example(), &[]);
    let mut manifest = example();
    manifest["spec"]["metadata"] = json!({"name": "n", "uid": "u", "labels": {"a b": "c"}});
    manifest["spec"]["spec"]["devices"]["requests"] = json!([{"name": "a"}]);
    let mut errors = apimachinery::FieldErrors::new();
    created::<ResourceClaimTemplate>(manifest).validate(&mut errors);
    let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert!(found[0].starts_with("spec.metadata.labels: Invalid value: \"a b\""), "{found:?}");
    assert_eq!(
        found[1..],
        [
            "spec.metadata.name: Forbidden: cannot be set",
            "spec.metadata.uID: Forbidden: cannot be set",
            "spec.spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required",
        ]
    );
}

#[test]
fn a_template_does_not_change() {
    let stored = created::<ResourceClaimTemplate>(example());
    check_update(&stored, example(), Part::Main, &[]);
    check_update(
        &stored,
        json!({"metadata": {"name": "gpu"}, "spec": {"spec": {}}}),
        Part::Main,
        &["spec: Invalid value: {\"metadata\":{},\"spec\":{\"devices\":{}}}: field is immutable"],
    );
    assert_eq!(stored.warnings(), ["spec: accepted, but devices are not allocated on this server"]);
}

#[test]
fn other_versions_lose_nothing() {
    let hub = created::<ResourceClaimTemplate>(example());
    check_there_and_back::<v1beta1::ResourceClaimTemplate, ResourceClaimTemplate>(&hub);
    check_there_and_back::<v1beta2::ResourceClaimTemplate, ResourceClaimTemplate>(&hub);
}

#[test]
fn columns_show_name_and_age() {
    let mut manifest = example();
    manifest["metadata"]["creationTimestamp"] = json!("2024-01-02T03:04:05Z");
    check_row::<ResourceClaimTemplate>(manifest, "2024-01-02T03:05:05Z", json!(["gpu", "60s"]));
}
