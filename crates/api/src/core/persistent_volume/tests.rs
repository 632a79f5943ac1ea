//! Manifest in; problems, defaults, warnings or cells out. Sources have their own tests.

use serde_json::{Value, json};

use super::{PersistentVolume, needs_transition_time, secrets_of_node};
use crate::kind::{Part, Resource};
use crate::testing::{check, check_created, check_row, check_update, created, defaulted};

fn volume(changes: Value) -> Value {
    let mut spec = json!({
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "csi": {"driver": "disk.example.com", "volumeHandle": "h"},
    });
    spec.as_object_mut().unwrap().extend(changes.as_object().cloned().unwrap_or_default());
    json!({"metadata": {"name": "disk-1"}, "spec": spec})
}

fn affinity(key: &str, value: &str) -> Value {
    json!({"required": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]},
    ]}})
}

#[test]
fn a_volume_is_kept_and_has_files_unless_it_says_otherwise() {
    check_created::<PersistentVolume>(
        volume(
            json!({"capacity": {"storage": "1024Mi"}, "csi": null, "iscsi": {"targetPortal": "p", "iqn": "i", "lun": 0}}),
        ),
        "/spec",
        json!({
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "iscsi": {"targetPortal": "p", "iqn": "i", "lun": 0, "iscsiInterface": "default"},
            "persistentVolumeReclaimPolicy": "Retain",
            "volumeMode": "Filesystem",
        }),
    );
    let mut manifest = volume(json!({}));
    manifest["status"] = json!({"phase": "Bound", "reason": "x"});
    check_created::<PersistentVolume>(manifest, "/status", json!({"phase": "Pending"}));
}

#[test]
fn a_volume_has_size_and_ways_of_access() {
    check::<PersistentVolume>(volume(json!({})), &[]);
    check::<PersistentVolume>(
        volume(json!({"accessModes": [], "capacity": {}})),
        &[
            "spec.accessModes: Required value",
            "spec.capacity: Required value",
            "spec.capacity: Unsupported value: {}: supported values: \"storage\"",
        ],
    );
    check::<PersistentVolume>(
        volume(json!({
            "accessModes": ["ReadWriteOncePod", "ReadWriteMany", "Sometimes"],
            "capacity": {"storage": "0", "cpu": "-1"},
            "persistentVolumeReclaimPolicy": "Burn",
        })),
        &[
            "spec.accessModes: Unsupported value: \"Sometimes\": supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\"",
            "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
            "spec.capacity: Unsupported value: {\"cpu\":\"-1\",\"storage\":\"0\"}: supported values: \"storage\"",
            "spec.capacity[cpu]: Invalid value: -1: must be a valid resource quantity",
            "spec.capacity[cpu]: Invalid value: \"-1\": must be greater than zero",
            "spec.capacity[storage]: Invalid value: \"0\": must be greater than zero",
            "spec.persistentVolumeReclaimPolicy: Unsupported value: \"Burn\": supported values: \"Delete\", \"Recycle\", \"Retain\"",
        ],
    );
}

#[test]
fn a_local_volume_says_where_it_is() {
    let local = |affinity: Value| {
        volume(json!({"csi": null, "local": {"path": "/a"}, "nodeAffinity": affinity}))
    };
    check::<PersistentVolume>(local(affinity("kubernetes.io/hostname", "node-a")), &[]);
    check::<PersistentVolume>(
        local(Value::Null),
        &["spec.nodeAffinity: Required value: Local volume requires node affinity"],
    );
    check::<PersistentVolume>(
        local(json!({})),
        &["spec.nodeAffinity.required: Required value: must specify required node constraints"],
    );
    check::<PersistentVolume>(
        local(json!({"required": {"nodeSelectorTerms": []}})),
        &[
            "spec.nodeAffinity.required.nodeSelectorTerms: Required value: must have at least one node selector term",
        ],
    );
}

#[test]
fn the_root_of_a_machine_is_not_recycled() {
    for path in ["/", "//", "/./"] {
        check::<PersistentVolume>(
            volume(
                json!({"csi": null, "hostPath": {"path": path}, "persistentVolumeReclaimPolicy": "Recycle"}),
            ),
            &[
                "spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'",
            ],
        );
    }
    check::<PersistentVolume>(
        volume(
            json!({"csi": null, "hostPath": {"path": "/a"}, "persistentVolumeReclaimPolicy": "Recycle"}),
        ),
        &[],
    );
}

#[test]
fn classes_have_names() {
    check::<PersistentVolume>(
        volume(json!({"volumeMode": "Tape", "volumeAttributesClassName": ""})),
        &[
            "spec.volumeMode: Unsupported value: \"Tape\": supported values: \"Block\", \"Filesystem\"",
            "spec.volumeAttributesClassName: Required value: an empty string is disallowed",
        ],
    );
    check::<PersistentVolume>(
        volume(json!({
            "csi": null, "nfs": {"server": "s", "path": "/"}, "volumeAttributesClassName": "gold",
        })),
        &["spec.csi: Required value: has to be specified when using volumeAttributesClassName"],
    );
}

#[test]
fn mount_options_are_for_what_is_mounted() {
    let annotated = |changes: Value| {
        let mut manifest = volume(changes);
        manifest["metadata"]["annotations"] =
            json!({"volume.beta.kubernetes.io/mount-options": "ro"});
        manifest
    };
    check::<PersistentVolume>(
        annotated(json!({})),
        &[
            "metadata.annotations.volume.beta.kubernetes.io/mount-options: Forbidden: may not specify mount options for this volume type",
        ],
    );
    check::<PersistentVolume>(
        annotated(json!({"csi": null, "nfs": {"server": "s", "path": "/"}})),
        &[],
    );
}

#[test]
fn the_source_stays_and_the_rest_may_change() {
    let stored = created::<PersistentVolume>(volume(json!({})));
    check_update(
        &stored,
        volume(json!({
            "capacity": {"storage": "2Gi"},
            "claimRef": {"namespace": "default", "name": "data"},
            "persistentVolumeReclaimPolicy": "Delete",
            "nodeAffinity": affinity("zone", "a"),
            "csi": {
                "driver": "disk.example.com", "volumeHandle": "h",
                "controllerExpandSecretRef": {"name": "s", "namespace": "n"},
            },
        })),
        Part::Main,
        &[],
    );
    check_update(
        &stored,
        volume(
            json!({"csi": {"driver": "disk.example.com", "volumeHandle": "other"}, "volumeMode": "Block"}),
        ),
        Part::Main,
        &[
            "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\nchanged: csi",
            "volumeMode: Invalid value: \"Block\": field is immutable",
        ],
    );
}

#[test]
fn an_affinity_changes_to_new_names_of_labels_alone() {
    let old = "failure-domain.beta.kubernetes.io/zone";
    let stored = created::<PersistentVolume>(volume(json!({"nodeAffinity": affinity(old, "a")})));
    let changed = |key: &str, value: &str| volume(json!({"nodeAffinity": affinity(key, value)}));
    check_update(&stored, changed("topology.kubernetes.io/zone", "a"), Part::Main, &[]);
    for (key, value) in [("topology.kubernetes.io/zone", "b"), ("kubernetes.io/os", "a")] {
        let shown = affinity(key, value);
        let expected = format!(
            "nodeAffinity: Invalid value: {shown}: field is immutable, except for updating from beta label to GA"
        );
        check_update(&stored, changed(key, value), Part::Main, &[&expected]);
    }
    // No key is no name of a label; upstream says only that.
    let stored = created::<PersistentVolume>(volume(json!({"nodeAffinity": affinity("z", "a")})));
    let path = "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key";
    let problem = |why: &str| format!("{path}: Invalid value: \"\": {why}");
    check_update(
        &stored,
        changed("", "a"),
        Part::Main,
        &[
            &problem("name part must be non-empty"),
            &problem(
                "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            ),
        ],
    );
}

#[test]
fn values_that_were_taken_once_stay() {
    let bad = affinity("zone", "not a label");
    let stored = defaulted::<PersistentVolume>(volume(json!({"nodeAffinity": bad})));
    check_update(&stored, volume(json!({"nodeAffinity": bad})), Part::Main, &[]);
    let mut errors = apimachinery::FieldErrors::new();
    stored.validate_create(&mut errors);
    let paths: Vec<&str> = errors.iter().map(|it| it.path.as_str()).collect();
    let path = "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].values[0]";
    assert_eq!(paths, [path]);
}

#[test]
fn attributes_are_not_taken_away() {
    let stored = created::<PersistentVolume>(volume(json!({"volumeAttributesClassName": "gold"})));
    check_update(&stored, volume(json!({"volumeAttributesClassName": "silver"})), Part::Main, &[]);
    check_update(
        &stored,
        volume(json!({})),
        Part::Main,
        &[
            "spec.volumeAttributesClassName: Forbidden: update from non-nil value to nil is forbidden",
        ],
    );
}

#[test]
fn the_time_of_a_phase_is_the_servers_unless_a_client_says_one() {
    let time = "2024-01-02T03:04:05Z";
    let with_status = |status: Value| {
        let mut manifest = volume(json!({}));
        manifest["status"] = status;
        manifest
    };
    let stored = defaulted::<PersistentVolume>(with_status(
        json!({"phase": "Available", "lastPhaseTransitionTime": time}),
    ));
    let written = |status: Value| {
        let mut volume = defaulted::<PersistentVolume>(with_status(status));
        volume.prepare_update(&stored, Part::Status);
        let needs = needs_transition_time(&volume, Some(&stored));
        let time = volume.status.unwrap().last_phase_transition_time;
        (time.map(|it| it.0.to_string()), needs)
    };
    let old = Some(time.to_owned());
    assert_eq!(written(json!({"phase": "Available"})), (old, false));
    assert_eq!(written(json!({"phase": "Bound"})), (None, true));
    let same = json!({"phase": "Bound", "lastPhaseTransitionTime": time});
    assert_eq!(written(same), (None, true));
    let later = "2024-01-02T03:05:05Z";
    let own = json!({"phase": "Bound", "lastPhaseTransitionTime": later});
    assert_eq!(written(own), (Some(later.to_owned()), false));
    assert!(needs_transition_time(&created(volume(json!({}))), None));
}

#[test]
fn what_is_no_longer_mounted_is_warned_of() {
    let mut manifest = volume(json!({
        "csi": null, "rbd": {"monitors": ["m"], "image": "i"},
        "persistentVolumeReclaimPolicy": "Recycle",
        "nodeAffinity": affinity("beta.kubernetes.io/os", "linux"),
    }));
    manifest["metadata"]["annotations"] = json!({"volume.beta.kubernetes.io/storage-class": "a"});
    assert_eq!(
        created::<PersistentVolume>(manifest).warnings(),
        [
            "metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use \"storageClassName\" attribute instead",
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.",
            "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key: beta.kubernetes.io/os is deprecated since v1.14; use \"kubernetes.io/os\" instead",
            "spec.rbd: deprecated in v1.28, non-functional in v1.31+",
        ]
    );
}

#[test]
fn columns_show_whose_it_is() {
    let mut manifest = volume(json!({
        "accessModes": ["ReadWriteMany", "ReadWriteOnce", "ReadWriteOnce"],
        "claimRef": {"namespace": "default", "name": "data"},
        "storageClassName": "fast",
    }));
    manifest["metadata"]["creationTimestamp"] = json!("2024-01-02T03:04:05Z");
    manifest["status"] = json!({"phase": "Bound"});
    let now = "2024-01-02T03:05:05Z";
    check_row::<PersistentVolume>(
        manifest.clone(),
        now,
        json!([
            "disk-1",
            "1Gi",
            "RWO,RWX",
            "Retain",
            "Bound",
            "default/data",
            "fast",
            "<unset>",
            "",
            "60s",
            "Filesystem"
        ]),
    );
    manifest["metadata"]["deletionTimestamp"] = json!(now);
    assert_eq!(defaulted::<PersistentVolume>(manifest).row(now.parse().unwrap())[4], "Terminating");
}

#[test]
fn a_node_needs_the_secrets_that_are_not_for_controllers() {
    let secrets = |changes: Value| {
        let volume = defaulted::<PersistentVolume>(volume(changes));
        let found = secrets_of_node(&volume);
        found.into_iter().map(|(namespace, name)| format!("{namespace}/{name}")).collect::<Vec<_>>()
    };
    let secret = |name: &str| json!({"namespace": "ns", "name": name});
    let csi = json!({
        "driver": "d", "volumeHandle": "h",
        "controllerPublishSecretRef": secret("a"), "controllerExpandSecretRef": secret("b"),
        "nodePublishSecretRef": secret("c"), "nodeStageSecretRef": secret("d"),
        "nodeExpandSecretRef": secret("e"),
    });
    assert_eq!(secrets(json!({"csi": csi})), ["ns/c", "ns/d", "ns/e"]);
    let old = json!({"monitors": [], "image": "i", "secretRef": {"name": "s"}});
    let claim = json!({"namespace": "team", "name": "data"});
    assert_eq!(secrets(json!({"csi": null, "rbd": old, "claimRef": claim})), ["team/s"]);
}
