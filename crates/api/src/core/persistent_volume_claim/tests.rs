//! Manifest in; problems, defaults, warnings or cells out.

use serde_json::{Value, json};

use super::PersistentVolumeClaim;
use crate::kind::{Part, Resource};
use crate::testing::{check, check_created, check_row, check_update, created, defaulted};

fn claim(changes: Value) -> Value {
    let mut spec = json!({
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "2Gi"}},
    });
    spec.as_object_mut().unwrap().extend(changes.as_object().cloned().unwrap_or_default());
    json!({"metadata": {"name": "data"}, "spec": spec})
}

fn sized(size: &str) -> Value {
    claim(json!({"resources": {"requests": {"storage": size}}}))
}

fn with_status(mut manifest: Value, status: Value) -> Value {
    manifest["status"] = status;
    manifest
}

#[test]
fn a_claim_is_for_files_and_waits() {
    let manifest = with_status(claim(json!({})), json!({"phase": "Bound"}));
    check_created::<PersistentVolumeClaim>(
        manifest.clone(),
        "/status",
        json!({"phase": "Pending"}),
    );
    check_created::<PersistentVolumeClaim>(manifest, "/spec/volumeMode", json!("Filesystem"));
}

#[test]
fn a_claim_says_how_much_and_how() {
    check::<PersistentVolumeClaim>(claim(json!({})), &[]);
    check::<PersistentVolumeClaim>(
        json!({"spec": {}}),
        &[
            "spec.accessModes: Required value: at least 1 access mode is required",
            "spec.resources[storage]: Required value",
        ],
    );
    check::<PersistentVolumeClaim>(
        claim(json!({
            "accessModes": ["ReadWriteOncePod", "ReadOnlyMany"],
            "resources": {"requests": {"storage": "0"}},
            "selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]},
            "volumeMode": "Tape",
        })),
        &[
            "spec.selector.matchExpressions[0].operator: Invalid value: \"Near\": not a valid selector operator",
            "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
            "spec.resources[storage]: Invalid value: \"0\": must be greater than zero",
            "spec.volumeMode: Unsupported value: \"Tape\": supported values: \"Block\", \"Filesystem\"",
        ],
    );
}

#[test]
fn both_forms_of_a_source_are_kept_equal() {
    let snapshot =
        json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"});
    let check_source = |changes: Value, source: Value, reference: Value| {
        let manifest = claim(changes);
        check_created::<PersistentVolumeClaim>(manifest.clone(), "/spec/dataSource", source);
        check_created::<PersistentVolumeClaim>(manifest, "/spec/dataSourceRef", reference);
    };
    check_source(json!({"dataSource": snapshot}), snapshot.clone(), snapshot.clone());
    check_source(json!({"dataSourceRef": snapshot}), snapshot.clone(), snapshot.clone());
    let other = json!({"apiGroup": "example.com", "kind": "Book", "name": "b"});
    check_source(json!({"dataSource": other}), Value::Null, Value::Null);
    check_source(json!({"dataSourceRef": other}), other.clone(), other);
    let elsewhere = json!({"kind": "PersistentVolumeClaim", "name": "c", "namespace": "other"});
    check_source(json!({"dataSourceRef": elsewhere}), Value::Null, Value::Null);
}

#[test]
fn a_source_is_a_claim_or_of_a_group() {
    check::<PersistentVolumeClaim>(
        claim(json!({"dataSourceRef": {"kind": "Book", "name": ""}})),
        &[
            "spec.dataSource.name: Required value",
            "spec.dataSource: Invalid value: \"Book\": must be 'PersistentVolumeClaim' when referencing the default apiGroup",
            "spec.dataSourceRef.name: Required value",
            "spec.dataSourceRef: Invalid value: \"Book\": must be 'PersistentVolumeClaim' when referencing the default apiGroup",
        ],
    );
    check::<PersistentVolumeClaim>(
        claim(json!({
            "dataSource": {"kind": "PersistentVolumeClaim", "name": "a"},
            "dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "b"},
        })),
        &["spec: Invalid value: {}: must match dataSourceRef"],
    );
}

#[test]
fn a_claim_is_bound_once_and_then_stays_as_it_is() {
    let stored = created::<PersistentVolumeClaim>(claim(json!({})));
    check_update(&stored, claim(json!({"volumeName": "disk-1"})), Part::Main, &[]);
    let stored = created::<PersistentVolumeClaim>(claim(json!({"volumeName": "disk-1"})));
    let immutable = |fields: &str| {
        format!(
            "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\nchanged: {fields}"
        )
    };
    check_update(
        &stored,
        claim(json!({"volumeName": "disk-2", "volumeMode": "Block"})),
        Part::Main,
        &[
            &immutable("volumeMode, volumeName"),
            "volumeMode: Invalid value: \"Block\": field is immutable",
        ],
    );
    // Not bound yet: neither size nor attributes change.
    check_update(
        &stored,
        claim(json!({
            "volumeName": "disk-1", "volumeAttributesClassName": "gold",
            "resources": {"requests": {"storage": "3Gi"}},
        })),
        Part::Main,
        &[&immutable("resources, volumeAttributesClassName")],
    );
    let same = claim(
        json!({"volumeName": "disk-1", "resources": {"requests": {"storage": "2147483648"}}}),
    );
    check_update(&stored, same, Part::Main, &[]);
}

#[test]
fn a_bound_claim_grows_and_shrinks_to_more_than_there_is() {
    let status = json!({"phase": "Bound", "capacity": {"storage": "1Gi"}});
    let stored = defaulted::<PersistentVolumeClaim>(with_status(claim(json!({})), status));
    check_update(&stored, sized("3Gi"), Part::Main, &[]);
    check_update(&stored, sized("1536Mi"), Part::Main, &[]);
    check_update(
        &stored,
        sized("1Gi"),
        Part::Main,
        &["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"],
    );
}

#[test]
fn a_class_is_given_once() {
    let stored = created::<PersistentVolumeClaim>(claim(json!({})));
    check_update(&stored, claim(json!({"storageClassName": "fast"})), Part::Main, &[]);
    let stored = created::<PersistentVolumeClaim>(claim(json!({"storageClassName": "fast"})));
    check_update(
        &stored,
        claim(json!({"storageClassName": "slow"})),
        Part::Main,
        &[
            "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\nchanged: storageClassName",
        ],
    );
}

#[test]
fn a_class_may_move_from_the_annotation_to_the_field() {
    let key = "volume.beta.kubernetes.io/storage-class";
    let annotated = |class: &str, changes: Value| {
        let mut manifest = claim(changes);
        manifest["metadata"]["annotations"] = json!({key: class});
        manifest
    };
    let stored = created::<PersistentVolumeClaim>(annotated("fast", json!({})));
    check_update(&stored, claim(json!({"storageClassName": "fast"})), Part::Main, &[]);
    check_update(
        &stored,
        annotated("slow", json!({})),
        Part::Main,
        &[&format!("metadata.annotations.{key}: Invalid value: \"slow\": field is immutable")],
    );
}

#[test]
fn attributes_of_a_volume_are_changed_for_others() {
    let status = json!({"phase": "Bound", "currentVolumeAttributesClassName": "gold"});
    let stored = with_status(claim(json!({"volumeAttributesClassName": "gold"})), status);
    let stored = defaulted::<PersistentVolumeClaim>(stored);
    let changed = |class: Value| claim(json!({"volumeAttributesClassName": class}));
    check_update(&stored, changed(json!("silver")), Part::Main, &[]);
    let refused = |what: &str| {
        format!(
            "spec.volumeAttributesClassName: Forbidden: update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil"
        )
    };
    check_update(&stored, changed(Value::Null), Part::Main, &[&refused("nil")]);
    check_update(&stored, changed(json!("")), Part::Main, &[&refused("empty string")]);
}

#[test]
fn the_status_says_how_far_a_change_of_size_is() {
    let stored = created::<PersistentVolumeClaim>(claim(json!({})));
    let written = |status: Value| with_status(claim(json!({"volumeName": "x"})), status);
    check_update(
        &stored,
        written(json!({
            "phase": "Bound",
            "capacity": {"storage": "1Gi"},
            "allocatedResources": {"storage": "2Gi", "example.com/a": "1"},
            "allocatedResourceStatuses": {"storage": "NodeResizePending"},
        })),
        Part::Status,
        &[],
    );
    check_update(
        &stored,
        written(json!({
            "capacity": {"storage": "-1"},
            "allocatedResources": {"cpu": "1", "storage": "-1"},
            "allocatedResourceStatuses": {"storage": "Growing"},
        })),
        Part::Status,
        &[
            "status.capacity[storage]: Invalid value: -1: must be a valid resource quantity",
            "status.allocatedResourceStatuses: Unsupported value: \"storage\": supported values: \"ControllerResizeInProgress\", \"ControllerResizeInfeasible\", \"NodeResizeInProgress\", \"NodeResizeInfeasible\", \"NodeResizePending\"",
            "status.allocatedResources: Unsupported value: \"cpu\": supported values: \"storage\"",
            "status.allocatedResources[storage]: Invalid value: -1: must be a valid resource quantity",
        ],
    );
    let mut written = defaulted::<PersistentVolumeClaim>(written(json!({"phase": "Bound"})));
    written.prepare_update(&stored, Part::Status);
    assert_eq!(written.spec, stored.spec);
}

#[test]
fn parts_of_bytes_are_warned_of() {
    assert_eq!(
        created::<PersistentVolumeClaim>(sized("1500m")).warnings(),
        [
            "spec.resources.requests[storage]: fractional byte value \"1500m\" is invalid, must be an integer"
        ]
    );
    assert!(created::<PersistentVolumeClaim>(sized("1Gi")).warnings().is_empty());
}

#[test]
fn columns_show_what_there_is_and_not_what_was_asked_for() {
    let now = "2024-01-02T03:05:05Z";
    let of = |changes: Value, status: Value| {
        let mut manifest = with_status(claim(changes), status);
        manifest["metadata"]["creationTimestamp"] = json!("2024-01-02T03:04:05Z");
        manifest
    };
    check_row::<PersistentVolumeClaim>(
        of(json!({}), json!({})),
        now,
        json!(["data", "Pending", "", "", "", "", "<unset>", "60s", "Filesystem"]),
    );
    let status = json!({
        "phase": "Bound", "capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"],
    });
    check_row::<PersistentVolumeClaim>(
        of(json!({"volumeName": "disk-1", "storageClassName": "fast"}), status),
        now,
        json!(["data", "Bound", "disk-1", "5Gi", "RWO", "fast", "<unset>", "60s", "Filesystem"]),
    );
}
