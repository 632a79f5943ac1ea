//! Objects in, finalizers out.

use api::core::PersistentVolumeClaim;
use apimachinery::User;
use serde_json::{Value, json};

use super::{StorageObjectInUseProtection, finalizer};
use crate::attributes::Operation;
use crate::plugins::fixture::{Case, Nobody, Objects, decode};

#[test]
fn what_can_be_in_use_gets_a_finalizer() {
    let user = User::new("alice", &[]);
    let check = |resource: &str, expected: Option<&str>| {
        let case = Case::of(Operation::Create, resource, &user);
        let found = case.with((&Objects::default(), &Nobody), (None, None), |context| {
            finalizer(&context.request)
        });
        assert_eq!(found, expected, "{resource}");
    };
    check("/persistentvolumes", Some("kubernetes.io/pv-protection"));
    check("/persistentvolumeclaims", Some("kubernetes.io/pvc-protection"));
    check("/persistentvolumeclaims/status", None);
    check("storage.k8s.io/volumeattributesclasses", Some("kubernetes.io/vac-protection"));
    check("/pods", None);
}

#[test]
fn a_finalizer_is_there_once() {
    let user = User::new("alice", &[]);
    let case = Case::of(Operation::Create, "/persistentvolumeclaims", &user);
    let check = |finalizers: Value, expected: Value| {
        let metadata = json!({"name": "data", "finalizers": finalizers});
        let claim: PersistentVolumeClaim = decode(&json!({"metadata": metadata}));
        let made = case.run(StorageObjectInUseProtection, Objects::default(), (Some(&claim), None));
        assert_eq!(made.unwrap()["metadata"]["finalizers"], expected);
    };
    check(json!(null), json!(["kubernetes.io/pvc-protection"]));
    check(json!(["a/b"]), json!(["a/b", "kubernetes.io/pvc-protection"]));
    check(json!(["kubernetes.io/pvc-protection"]), json!(["kubernetes.io/pvc-protection"]));
}
