//! Claims and volumes in, the classes that they use out; and what becomes of a class.

use std::sync::Arc;

use api::core::{PersistentVolume, PersistentVolumeClaim};
use api::storage::VolumeAttributesClass;
use proptest::prelude::*;
use reconcile::testing::converges;
use serde_json::{Value, json};

use super::plan::{FINALIZER, classes_of_claim, classes_of_volume, users};
use crate::protection::{explain, plan};

fn claim(spec: &Value, status: &Value) -> PersistentVolumeClaim {
    let meta = json!({"namespace": "shop", "name": "data"});
    serde_json::from_value(json!({"metadata": meta, "spec": spec, "status": status})).unwrap()
}

fn volume(class: &Value) -> PersistentVolume {
    let spec = json!({"volumeAttributesClassName": class});
    serde_json::from_value(json!({"metadata": {"name": "disk"}, "spec": spec})).unwrap()
}

#[test]
fn a_claim_uses_the_class_that_it_wants_has_and_is_given() {
    let check = |spec: Value, status: Value, expected: &[&str]| {
        assert_eq!(classes_of_claim(&claim(&spec, &status)), expected, "{spec} {status}");
    };
    let wants = |name: &str| json!({"volumeAttributesClassName": name});
    check(json!({}), json!({}), &[]);
    check(wants("gold"), json!({}), &["gold"]);
    check(wants(""), json!({"currentVolumeAttributesClassName": ""}), &[]);
    check(wants("gold"), json!({"currentVolumeAttributesClassName": "gold"}), &["gold"]);
    let given = json!({"targetVolumeAttributesClassName": "silver", "status": "InProgress"});
    let status = json!({"currentVolumeAttributesClassName": "iron", "modifyVolumeStatus": given});
    check(wants("gold"), status, &["gold", "iron", "silver"]);
}

#[test]
fn a_volume_uses_its_class() {
    assert_eq!(classes_of_volume(&volume(&json!("gold"))), ["gold"]);
    assert!(classes_of_volume(&volume(&json!(""))).is_empty());
    assert!(classes_of_volume(&volume(&Value::Null)).is_empty());
}

#[test]
fn who_keeps_a_class_is_named() {
    let claims = [Arc::new(claim(&json!({}), &json!({})))];
    let all = users(&claims, &[Arc::new(volume(&json!("gold")))]);
    let text = "it is deleted when nothing uses it any more; claims and volumes: shop/data, disk";
    assert_eq!(explain("claims and volumes", &all), Some(("InUse", text.to_owned())));
    assert_eq!(explain("claims and volumes", &[]), None);
}

fn class(is_deleting: bool, finalizers: &[&str]) -> VolumeAttributesClass {
    let deletion = is_deleting.then_some("2026-01-01T00:00:00Z");
    let meta = json!({"name": "gold", "finalizers": finalizers, "deletionTimestamp": deletion});
    serde_json::from_value(json!({"metadata": meta, "driverName": "d"})).unwrap()
}

proptest! {
    #[test]
    fn one_write_is_enough_and_a_class_in_use_keeps_its_finalizer(
        is_used: bool,
        is_deleting: bool,
        finalizers in prop::collection::vec(prop::sample::select(vec![FINALIZER, "mine"]), 0..3),
    ) {
        let plan = |it: &VolumeAttributesClass| -> Vec<_> {
            let wanted = plan(it, FINALIZER, is_used);
            wanted.map(|it| it.metadata.finalizers).into_iter().collect()
        };
        let apply = |it: &mut VolumeAttributesClass, wanted| it.metadata.finalizers = wanted;
        let rested = converges(plan, apply, class(is_deleting, &finalizers), 1).unwrap();
        let is_held = rested.metadata.finalizers.unwrap_or_default().iter().any(|it| it == FINALIZER);
        let was_held = finalizers.contains(&FINALIZER);
        prop_assert_eq!(is_held, !is_deleting || (was_held && is_used));
    }
}
