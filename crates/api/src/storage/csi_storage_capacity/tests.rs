//! Manifest in; problems, warnings or cells out.

use serde_json::{Value, json};

use super::CSIStorageCapacity;
use crate::kind::{Part, Resource};
use crate::testing::{check, check_created, check_row, check_update, created, defaulted};

fn capacity(changes: Value) -> Value {
    let mut capacity = json!({"metadata": {"name": "zone-a"}, "storageClassName": "fast"});
    let changes = changes.as_object().cloned().unwrap_or_default();
    capacity.as_object_mut().unwrap().extend(changes);
    capacity
}

#[test]
fn it_is_of_a_class_and_not_less_than_nothing() {
    check::<CSIStorageCapacity>(capacity(json!({"capacity": "0"})), &[]);
    check::<CSIStorageCapacity>(
        capacity(json!({"capacity": "-1", "maximumVolumeSize": "-1"})),
        &["capacity: Invalid value: \"-1\": must be greater than or equal to 0"],
    );
    check::<CSIStorageCapacity>(
        capacity(json!({
            "nodeTopology": {"matchExpressions": [{"key": "zone", "operator": "Near"}]},
        })),
        &[
            "nodeTopology.matchExpressions[0].operator: Invalid value: \"Near\": not a valid selector operator",
        ],
    );
    let mut errors = apimachinery::FieldErrors::new();
    defaulted::<CSIStorageCapacity>(json!({"storageClassName": ""})).validate(&mut errors);
    assert!(errors.iter().all(|it| it.path.as_str() == "storageClassName") && !errors.is_empty());
}

#[test]
fn amounts_are_written_as_upstream_writes_them() {
    check_created::<CSIStorageCapacity>(
        capacity(json!({"capacity": "1024Mi"})),
        "/capacity",
        json!("1Gi"),
    );
}

#[test]
fn what_the_driver_was_asked_about_stays() {
    let stored = created::<CSIStorageCapacity>(capacity(json!({"capacity": "1Gi"})));
    check_update(&stored, capacity(json!({"capacity": "2Gi"})), Part::Main, &[]);
    check_update(
        &stored,
        capacity(json!({"storageClassName": "slow", "nodeTopology": {"matchLabels": {"a": "b"}}})),
        Part::Main,
        &[
            "nodeTopology: Invalid value: {\"matchLabels\":{\"a\":\"b\"}}: field is immutable",
            "storageClassName: Invalid value: \"slow\": field is immutable",
        ],
    );
}

#[test]
fn old_labels_of_nodes_are_warned_of() {
    let topology = json!({
        "matchLabels": {"beta.kubernetes.io/os": "linux"},
        "matchExpressions": [{"key": "beta.kubernetes.io/arch", "operator": "Exists"}],
    });
    let warnings =
        created::<CSIStorageCapacity>(capacity(json!({"nodeTopology": topology}))).warnings();
    assert_eq!(
        warnings,
        [
            "nodeTopology.matchExpressions[0].key: beta.kubernetes.io/arch is deprecated since v1.14; use \"kubernetes.io/arch\" instead",
            "nodeTopology.matchLabels.beta.kubernetes.io/os: deprecated since v1.14; use \"kubernetes.io/os\" instead",
        ]
    );
}

#[test]
fn columns_show_what_is_left() {
    let now = "2024-01-02T03:05:05Z";
    check_row::<CSIStorageCapacity>(capacity(json!({})), now, json!(["zone-a", "fast", "<unset>"]));
    check_row::<CSIStorageCapacity>(
        capacity(json!({"capacity": "1Gi"})),
        now,
        json!(["zone-a", "fast", "1Gi"]),
    );
}
