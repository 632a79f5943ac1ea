//! Owners before and after in, refusals out.

use std::future::ready;

use api::ApiObject;
use api::core::Pod;
use apimachinery::User;
use authz::{Attributes, Decision};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::OwnerReferencesPermissionEnforcement;
use crate::attributes::Operation;
use crate::authorizer::Authorizer;
use crate::chain::Plugin;
use crate::plugins::fixture::{Case, Objects, decode, now};

/// Allows what is written as `verb group/resource/subresource namespace/name`.
struct Allowed(&'static [&'static str]);

impl Authorizer for Allowed {
    fn decide<'a>(&'a self, _: &'a User, it: &'a Attributes) -> BoxFuture<'a, Decision> {
        let Attributes { verb, group, resource, subresource, namespace, name, .. } = it;
        let asked = format!("{verb} {group}/{resource}/{subresource} {namespace}/{name}");
        let reason = format!("no: {asked}");
        Box::pin(ready(match self.0.contains(&asked.as_str()) {
            true => Decision::Allow { reason },
            false => Decision::NoOpinion { reason },
        }))
    }
}

fn pod(owners: &Value) -> Pod {
    let metadata = json!({"name": "web", "namespace": "ns", "ownerReferences": owners});
    decode(&json!({"metadata": metadata, "spec": {"containers": []}}))
}

fn owner(api_version: &str, kind: &str, is_blocking: bool) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "name": "o", "uid": kind, "blockOwnerDeletion": is_blocking})
}

fn check(allowed: &'static [&'static str], new: Value, old: Option<Value>) -> Result<(), String> {
    let user = User::new("alice", &[]);
    let operation = if old.is_some() { Operation::Update } else { Operation::Create };
    let case = Case::of(operation, "/pods", &user);
    let (new, old) = (pod(&new), old.map(|it| pod(&it)));
    let old = old.as_ref().map(|it| it as &dyn ApiObject);
    let definition = json!({"metadata": {"name": "boats.example.com"}, "spec": {
        "group": "example.com", "scope": "Cluster", "names": {"plural": "boats", "kind": "Boat"},
        "versions": [{"name": "v1", "served": true, "storage": true}],
    }});
    let objects = Objects::default().with("customresourcedefinitions", &definition);
    case.with((&objects, &Allowed(allowed)), (Some(&new), old), |context| {
        let outcome = now(OwnerReferencesPermissionEnforcement.validate(context));
        outcome.map(|_| ()).map_err(|err| err.message().to_owned())
    })
}

#[test]
fn who_gives_an_object_away_may_delete_it() {
    let owned = || json!([owner("apps/v1", "ReplicaSet", false)]);
    let delete = &["delete /pods/ ns/web"];
    assert!(check(&[], owned(), None).is_ok(), "it could have been left");
    assert!(check(&[], owned(), Some(owned())).is_ok(), "nothing changes");
    assert!(check(delete, owned(), Some(json!([]))).is_ok());
    assert_eq!(
        check(&[], owned(), Some(json!([]))).unwrap_err(),
        "pods \"web\" is forbidden: cannot set an ownerRef on a resource you can't delete: no: delete /pods/ ns/web, <nil>"
    );
    assert!(check(&[], json!([]), Some(owned())).is_err());
}

#[test]
fn who_keeps_an_owner_may_set_its_finalizers() {
    let blocking = |api_version: &str, kind: &str| json!([owner(api_version, kind, true)]);
    let set = || blocking("apps/v1", "ReplicaSet");
    assert_eq!(
        check(&[], set(), None).unwrap_err(),
        "pods \"web\" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: no: update apps/replicasets/finalizers ns/o, <nil>"
    );
    assert!(check(&["update apps/replicasets/finalizers ns/o"], set(), None).is_ok());
    assert!(check(&["update */*/finalizers /*"], set(), None).is_ok());
    // Of the whole cluster.
    assert!(check(&["update /nodes/finalizers /o"], blocking("v1", "Node"), None).is_ok());
    let boats = || blocking("example.com/v1", "Boat");
    assert!(check(&["update example.com/boats/finalizers /o"], boats(), None).is_ok());
    assert!(check(&[], boats(), None).is_err());
    let unknown = check(&[], blocking("example.com/v2", "Boat"), None).unwrap_err();
    assert!(unknown.contains("cannot find RESTMapping for APIVersion example.com/v2 Kind Boat"));
    let delete = &["delete /pods/ ns/web"];
    let was = json!([owner("apps/v1", "ReplicaSet", false)]);
    assert!(check(delete, set(), Some(was)).is_err(), "it did not keep it before");
}
