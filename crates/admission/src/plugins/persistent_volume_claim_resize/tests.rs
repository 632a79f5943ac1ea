//! A claim before and after in; the refusal out.

use api::core::PersistentVolumeClaim;
use apimachinery::User;
use serde_json::{Value, json};

use super::PersistentVolumeClaimResize;
use crate::attributes::Operation;
use crate::plugins::fixture::{Case, Objects, decode};

const NOT_BOUND: &str = "Only bound persistent volume claims can be expanded";
const FIXED: &str = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";

fn claim(size: &str, class: Option<&str>, phase: &str) -> PersistentVolumeClaim {
    decode(&json!({
        "metadata": {"name": "data", "namespace": "ns"},
        "spec": {"resources": {"requests": {"storage": size}}, "storageClassName": class},
        "status": {"phase": phase},
    }))
}

fn check(old: PersistentVolumeClaim, new: PersistentVolumeClaim, expected: Result<(), &str>) {
    let class = |name: &str, grows: Value| json!({"metadata": {"name": name}, "provisioner": "p", "allowVolumeExpansion": grows});
    let objects = Objects::default()
        .with("storageclasses", &class("grows", json!(true)))
        .with("storageclasses", &class("fixed", json!(false)))
        .with("storageclasses", &class("silent", Value::Null));
    let user = User::new("alice", &[]);
    let case =
        Case { name: "data", ..Case::of(Operation::Update, "/persistentvolumeclaims", &user) };
    let outcome = case.run(PersistentVolumeClaimResize, objects, (Some(&new), Some(&old)));
    let outcome = outcome.map(drop).map_err(|it| it.to_string());
    let forbidden = |why| format!("persistentvolumeclaims \"data\" is forbidden: {why}");
    assert_eq!(outcome, expected.map_err(forbidden));
}

#[test]
fn a_class_says_whether_its_volumes_grow() {
    let grow = |class: Option<&str>, expected| {
        check(claim("1Gi", class, "Bound"), claim("2Gi", class, "Bound"), expected);
    };
    grow(Some("grows"), Ok(()));
    for class in [Some("fixed"), Some("silent"), Some("absent"), Some(""), None] {
        grow(class, Err(FIXED));
    }
    check(claim("1Gi", None, "Bound"), claim("2Gi", Some("grows"), "Bound"), Err(FIXED));
}

#[test]
fn a_claim_is_bound_before_it_grows() {
    let grows = Some("grows");
    check(claim("1Gi", grows, "Pending"), claim("2Gi", grows, "Pending"), Err(NOT_BOUND));
}

#[test]
fn who_does_not_grow_is_not_asked() {
    check(claim("2Gi", None, "Pending"), claim("2048Mi", None, "Pending"), Ok(()));
    check(claim("2Gi", None, "Pending"), claim("1Gi", None, "Pending"), Ok(()));
}
