//! Classes and a claim in; the class of the claim out.

use api::core::PersistentVolumeClaim;
use apimachinery::User;
use serde_json::{Value, json};

use super::DefaultStorageClass;
use crate::attributes::Operation;
use crate::plugins::fixture::{Case, Objects, decode};

fn classes(all: &[(&str, &str, bool)]) -> Objects {
    all.iter().fold(Objects::default(), |objects, (name, created, is_default)| {
        let annotations =
            json!({"storageclass.kubernetes.io/is-default-class": is_default.to_string()});
        let metadata =
            json!({"name": name, "creationTimestamp": created, "annotations": annotations});
        objects.with("storageclasses", &json!({"metadata": metadata, "provisioner": "p"}))
    })
}

fn check(objects: Objects, claim: Value, expected: Value) {
    let user = User::new("alice", &[]);
    let claim: PersistentVolumeClaim = decode(&claim);
    let case = Case::of(Operation::Create, "/persistentvolumeclaims", &user);
    let claim = case.run(DefaultStorageClass, objects, (Some(&claim), None)).unwrap();
    assert_eq!(claim["spec"]["storageClassName"], expected);
}

const OLD: &str = "2024-01-01T00:00:00Z";
const NEW: &str = "2024-01-02T00:00:00Z";

#[test]
fn the_youngest_default_is_given() {
    let all =
        || classes(&[("a", OLD, true), ("c", NEW, true), ("b", NEW, true), ("d", NEW, false)]);
    check(all(), json!({"spec": {}}), json!("b"));
    check(all(), json!({}), json!("b"));
}

#[test]
fn without_a_default_nothing_is_given() {
    check(classes(&[("a", OLD, false)]), json!({"spec": {}}), Value::Null);
    check(Objects::default(), json!({"spec": {}}), Value::Null);
}

#[test]
fn who_asked_for_a_class_or_for_none_keeps_to_it() {
    let all = || classes(&[("a", OLD, true)]);
    check(all(), json!({"spec": {"storageClassName": "z"}}), json!("z"));
    check(all(), json!({"spec": {"storageClassName": ""}}), json!(""));
    let annotations = json!({"volume.beta.kubernetes.io/storage-class": "z"});
    check(all(), json!({"metadata": {"annotations": annotations}, "spec": {}}), Value::Null);
}
