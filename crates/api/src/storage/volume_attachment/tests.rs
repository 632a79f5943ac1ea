//! Manifest in; problems or cells out.

use serde_json::{Value, json};

use super::VolumeAttachment;
use crate::kind::{Part, Resource};
use crate::testing::{check, check_created, check_row, check_update, created, defaulted};

fn attachment(source: Value) -> Value {
    json!({
        "metadata": {"name": "a"},
        "spec": {"attacher": "disk.example.com", "nodeName": "node-a", "source": source},
    })
}

fn of_volume() -> Value {
    attachment(json!({"persistentVolumeName": "disk-1"}))
}

#[test]
fn it_is_of_one_volume() {
    let exactly_one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    check::<VolumeAttachment>(of_volume(), &[]);
    check::<VolumeAttachment>(
        attachment(json!({})),
        &[&format!("spec.source: Required value: {exactly_one}")],
    );
    check::<VolumeAttachment>(
        attachment(json!({"persistentVolumeName": "a", "inlineVolumeSpec": {}})),
        &[&format!("spec.source: Forbidden: {exactly_one}")],
    );
    check::<VolumeAttachment>(
        json!({"spec": {
            "attacher": "", "nodeName": "node-a", "source": {"persistentVolumeName": "disk-1"},
        }}),
        &["spec.attacher: Required value"],
    );
}

#[test]
fn a_volume_that_stands_in_it_is_of_a_driver_and_nothing_more() {
    let csi = json!({"driver": "disk.example.com", "volumeHandle": "h"});
    check::<VolumeAttachment>(
        attachment(json!({"inlineVolumeSpec": {"accessModes": ["ReadWriteOnce"], "csi": csi}})),
        &[],
    );
    check::<VolumeAttachment>(
        attachment(json!({"inlineVolumeSpec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "claimRef": {},
            "persistentVolumeReclaimPolicy": "Delete",
            "nodeAffinity": {},
            "nfs": {"server": "s", "path": "/"},
            "storageClassName": "fast",
            "volumeMode": "Block",
        }})),
        &[
            "spec.source.inlineVolumeSpec.claimRef: Forbidden: may not be specified in the context of inline volumes",
            "spec.source.inlineVolumeSpec.capacity: Forbidden: may not be specified in the context of inline volumes",
            "spec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of inline volumes",
            "spec.source.inlineVolumeSpec.persistentVolumeReclaimPolicy: Forbidden: may only be Retain in the context of inline volumes",
            "spec.source.inlineVolumeSpec.nodeAffinity: Forbidden: may not be specified in the context of inline volumes",
            "spec.source.inlineVolumeSpec.storageClassName: Forbidden: may not be specified in the context of inline volumes",
            "spec.source.inlineVolumeSpec.volumeMode: Forbidden: may not specify volumeMode other than Filesystem in the context of inline volumes",
        ],
    );
}

#[test]
fn only_whoever_attaches_says_that_it_is_attached() {
    let mut manifest = of_volume();
    manifest["status"] = json!({"attached": true});
    check_created::<VolumeAttachment>(manifest.clone(), "/status", json!({"attached": false}));
    let stored = created::<VolumeAttachment>(of_volume());
    manifest["metadata"]["labels"] = json!({"a": "b"});
    manifest["spec"]["nodeName"] = json!("node-b");
    let mut written = defaulted::<VolumeAttachment>(manifest);
    written.prepare_update(&stored, Part::Status);
    assert!(written.status.as_ref().unwrap().attached);
    assert_eq!((&written.spec, &written.metadata), (&stored.spec, &stored.metadata));
}

#[test]
fn the_volume_and_the_node_stay() {
    let stored = created::<VolumeAttachment>(of_volume());
    check_update(
        &stored,
        attachment(json!({"persistentVolumeName": "disk-2"})),
        Part::Main,
        &[
            "spec: Invalid value: {\"attacher\":\"disk.example.com\",\"nodeName\":\"node-a\",\"source\":{\"persistentVolumeName\":\"disk-2\"}}: field is immutable",
        ],
    );
}

#[test]
fn what_went_wrong_is_told_within_bounds() {
    let stored = created::<VolumeAttachment>(of_volume());
    let mut manifest = of_volume();
    manifest["status"] = json!({
        "attached": false,
        "attachmentMetadata": {"a": "x".repeat(256 * 1024)},
        "attachError": {"message": "x".repeat(1025)},
        "detachError": {"errorCode": -1},
    });
    check_update(
        &stored,
        manifest,
        Part::Status,
        &[
            "status.attachmentMetadata: Too long: may not be more than 262144 bytes",
            "status.attachError.message: Too long: may not be more than 262144 bytes",
            "status.detachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive",
        ],
    );
}

#[test]
fn columns_show_where_the_volume_is() {
    let mut manifest = of_volume();
    manifest["metadata"]["creationTimestamp"] = json!("2024-01-02T03:04:05Z");
    manifest["status"] = json!({"attached": true});
    check_row::<VolumeAttachment>(
        manifest,
        "2024-01-02T03:05:05Z",
        json!(["a", "disk.example.com", "disk-1", "node-a", true, "60s"]),
    );
}
