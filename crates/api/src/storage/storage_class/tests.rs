//! Manifest in; problems, defaults, warnings or cells out.

use serde_json::{Value, json};

use super::StorageClass;
use crate::kind::{Part, Resource};
use crate::testing::{check, check_created, check_row, check_update, created};

fn class(changes: Value) -> Value {
    let mut class = json!({"metadata": {"name": "fast"}, "provisioner": "disk.example.com"});
    let changes = changes.as_object().cloned().unwrap_or_default();
    class.as_object_mut().unwrap().extend(changes);
    class
}

#[test]
fn volumes_are_made_at_once_and_go_with_their_claims() {
    check_created::<StorageClass>(class(json!({})), "/reclaimPolicy", json!("Delete"));
    check_created::<StorageClass>(class(json!({})), "/volumeBindingMode", json!("Immediate"));
}

#[test]
fn a_class_has_a_provisioner_and_known_ways() {
    check::<StorageClass>(class(json!({"provisioner": "Kubernetes.io/Host-Path"})), &[]);
    check::<StorageClass>(
        class(json!({"provisioner": "", "reclaimPolicy": "Recycle", "volumeBindingMode": "Later"})),
        &[
            "provisioner: Required value",
            "reclaimPolicy: Unsupported value: \"Recycle\": supported values: \"Delete\", \"Retain\"",
            "volumeBindingMode: Unsupported value: \"Later\": supported values: \"Immediate\", \"WaitForFirstConsumer\"",
        ],
    );
}

#[test]
fn parameters_have_bounds() {
    check::<StorageClass>(
        class(json!({"parameters": {"": "x"}})),
        &["parameters: Invalid value: \"\": field can not be empty."],
    );
    check::<StorageClass>(
        class(json!({"parameters": {"a": "x".repeat(256 * 1024)}})),
        &["parameters: Too long: may not be more than 262144 bytes"],
    );
    let many: serde_json::Map<String, Value> =
        (0..513).map(|it| (it.to_string(), json!(""))).collect();
    check::<StorageClass>(
        class(json!({"parameters": many})),
        &["parameters: Too long: may not be more than 512 bytes"],
    );
}

#[test]
fn a_topology_is_said_once() {
    let term =
        |values: Value| json!({"matchLabelExpressions": [{"key": "zone", "values": values}]});
    check::<StorageClass>(class(json!({"allowedTopologies": [term(json!(["a"]))]})), &[]);
    let nothing = "allowedTopologies[0].matchLabelExpressions: Duplicate value: \"\"";
    check::<StorageClass>(class(json!({"allowedTopologies": [{}]})), &[nothing]);
    check::<StorageClass>(
        class(json!({"allowedTopologies": [
            term(json!(["a", "b"])), term(json!(["b", "a"])), term(json!([])),
            {"matchLabelExpressions": [
                {"key": "z", "values": ["a", "a"]}, {"key": "z", "values": ["b"]},
            ]},
        ]})),
        &[
            "allowedTopologies[1].matchLabelExpressions: Duplicate value: \"\"",
            "allowedTopologies[2].matchLabelExpressions[0].values: Required value",
            "allowedTopologies[3].matchLabelExpressions[0].values[1]: Duplicate value: \"a\"",
            "allowedTopologies[3].matchLabelExpressions[1].key: Duplicate value: \"z\"",
        ],
    );
}

#[test]
fn what_volumes_were_made_by_does_not_change() {
    let stored = created::<StorageClass>(class(json!({"parameters": {"type": "ssd"}})));
    let allowed = json!({"parameters": {"type": "ssd"}, "allowVolumeExpansion": true, "mountOptions": ["ro"]});
    check_update(&stored, class(allowed), Part::Main, &[]);
    check_update(
        &stored,
        class(
            json!({"provisioner": "other", "reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer"}),
        ),
        Part::Main,
        &[
            "parameters: Invalid value: null: field is immutable",
            "provisioner: Invalid value: \"other\": field is immutable",
            "reclaimPolicy: Invalid value: \"Retain\": field is immutable",
            "volumeBindingMode: Invalid value: \"WaitForFirstConsumer\": field is immutable",
        ],
    );
}

#[test]
fn old_labels_of_nodes_are_warned_of() {
    let term = json!({"matchLabelExpressions": [{"key": "failure-domain.beta.kubernetes.io/zone", "values": ["a"]}]});
    let warnings = created::<StorageClass>(class(json!({"allowedTopologies": [term]}))).warnings();
    assert_eq!(
        warnings,
        [
            "allowedTopologies[0].matchLabelExpressions[0].key: deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
        ]
    );
}

#[test]
fn the_default_class_is_marked() {
    let row = |annotations: Value, name: &str| {
        check_row::<StorageClass>(
            class(json!({"metadata": {
                "name": "fast", "annotations": annotations,
                "creationTimestamp": "2024-01-02T03:04:05Z",
            }})),
            "2024-01-02T03:05:05Z",
            json!([name, "disk.example.com", "Delete", "Immediate", false, "60s"]),
        );
    };
    row(json!({}), "fast");
    row(json!({"storageclass.kubernetes.io/is-default-class": "false"}), "fast");
    row(json!({"storageclass.kubernetes.io/is-default-class": "true"}), "fast (default)");
    row(json!({"storageclass.beta.kubernetes.io/is-default-class": "true"}), "fast (default)");
}
