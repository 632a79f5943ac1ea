//! Manifest in; problems, cells or another version out.

use serde_json::{Value, json};

use super::{VolumeAttributesClass, v1beta1};
use crate::kind::{Part, Resource};
use crate::testing::{check, check_row, check_update, created, defaulted};
use crate::version::Version;

fn class(driver: &str, parameters: Value) -> Value {
    json!({"metadata": {"name": "gold"}, "driverName": driver, "parameters": parameters})
}

#[test]
fn a_class_says_something_to_a_driver() {
    check::<VolumeAttributesClass>(class("disk.example.com", json!({"iops": "1"})), &[]);
    check::<VolumeAttributesClass>(
        class("", json!({})),
        &[
            "driverName: Required value",
            "parameters: Required value: must contain at least one key/value pair",
        ],
    );
}

#[test]
fn what_volumes_were_given_does_not_change() {
    let stored = created::<VolumeAttributesClass>(class("a", json!({"iops": "1"})));
    check_update(&stored, class("a", json!({"iops": "1"})), Part::Main, &[]);
    check_update(
        &stored,
        class("b", json!({"iops": "2"})),
        Part::Main,
        &[
            "driverName: Forbidden: updates to driverName are forbidden.",
            "parameters: Forbidden: updates to parameters are forbidden.",
        ],
    );
}

#[test]
fn the_old_version_goes_there_and_back() {
    let old = defaulted::<v1beta1::VolumeAttributesClass>(class("a", json!({"iops": "1"})));
    let hub = old.clone().into_hub();
    assert_eq!(hub, created::<VolumeAttributesClass>(class("a", json!({"iops": "1"}))));
    assert_eq!(v1beta1::VolumeAttributesClass::from_hub(&hub), old);
    let stored = VolumeAttributesClass::convert_stored("storage.k8s.io/v1beta1", &old.encode());
    let stored = VolumeAttributesClass::decode(&stored.unwrap().unwrap()).unwrap();
    assert_eq!(stored, hub);
    assert!(VolumeAttributesClass::convert_stored("storage.k8s.io/v1alpha1", b"{}").is_none());
}

#[test]
fn columns_show_the_driver() {
    let mut manifest = class("disk.example.com", json!({"iops": "1"}));
    manifest["metadata"]["creationTimestamp"] = json!("2024-01-02T03:04:05Z");
    check_row::<VolumeAttributesClass>(
        manifest,
        "2024-01-02T03:05:05Z",
        json!(["gold", "disk.example.com", "60s"]),
    );
}
