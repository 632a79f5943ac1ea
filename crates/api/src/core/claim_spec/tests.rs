//! Spec in; problems or warnings out.

use k8s_openapi::api::core::v1::PersistentVolumeClaimSpec;
use serde_json::{Value, json};

use apimachinery::FieldErrors;
use apimachinery::field::Path;

fn spec(changes: Value) -> PersistentVolumeClaimSpec {
    let mut spec = json!({
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    });
    spec.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    serde_json::from_value(spec).unwrap()
}

fn check(changes: Value, expected: &[&str]) {
    let mut errors = FieldErrors::new();
    super::validate(&spec(changes), &Path::new("spec"), &mut errors);
    let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_claim_says_how_it_is_used_and_how_large_it_is() {
    check(json!({}), &[]);
    check(
        json!({"accessModes": [], "resources": {}}),
        &[
            "spec.accessModes: Required value: at least 1 access mode is required",
            "spec.resources[storage]: Required value",
        ],
    );
    check(
        json!({"resources": {"requests": {"storage": "0"}}}),
        &["spec.resources[storage]: Invalid value: \"0\": must be greater than zero"],
    );
}

#[test]
fn modes_are_known_and_the_lonely_one_is_alone() {
    let supported = "supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\"";
    check(
        json!({"accessModes": ["ReadWriteOncePod", "ReadWriteMany", "Often"], "volumeMode": "Tape"}),
        &[
            &format!("spec.accessModes: Unsupported value: \"Often\": {supported}"),
            "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
            "spec.volumeMode: Unsupported value: \"Tape\": supported values: \"Block\", \"Filesystem\"",
        ],
    );
    check(json!({"accessModes": ["ReadWriteOncePod"], "volumeMode": "Block"}), &[]);
}

#[test]
fn both_sources_are_the_same_one() {
    let snapshot = json!({"apiGroup": "snapshot.example.com", "kind": "Snapshot", "name": "a"});
    check(json!({"dataSource": snapshot, "dataSourceRef": snapshot}), &[]);
    check(
        json!({"dataSource": snapshot, "dataSourceRef": {"kind": "Pod", "name": ""}}),
        &[
            "spec.dataSourceRef.name: Required value",
            "spec.dataSourceRef: Invalid value: \"Pod\": must be 'PersistentVolumeClaim' when referencing the default apiGroup",
            "spec: Invalid value: \"spec.dataSource\": must match dataSourceRef",
        ],
    );
    let mut elsewhere = snapshot.clone();
    elsewhere["namespace"] = json!("other");
    check(
        json!({"dataSource": snapshot, "dataSourceRef": elsewhere}),
        &[
            "spec: Invalid value: \"spec.dataSource\": may not be specified when dataSourceRef.namespace is specified",
        ],
    );
}

#[test]
fn parts_of_a_byte_are_warned_of() {
    let warnings = super::warnings(
        &spec(json!({"resources": {"requests": {"storage": "100m"}, "limits": {"storage": "1"}}})),
        &Path::new("spec"),
    );
    assert_eq!(
        warnings,
        [
            "spec.resources.requests[storage]: fractional byte value \"100m\" is invalid, must be an integer"
        ]
    );
}
