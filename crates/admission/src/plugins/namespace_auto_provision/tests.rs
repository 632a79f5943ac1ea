//! Requests in, namespaces made.

use std::future::ready;
use std::sync::{Arc, Mutex};

use api::core::Pod;
use apimachinery::{ApiError, GroupResource, User};
use futures_util::future::BoxFuture;
use serde_json::json;

use super::{NamespaceAutoProvision, Provisioner};
use crate::attributes::Operation;
use crate::plugins::fixture::{Case, Objects, decode, pod};

#[derive(Default)]
struct Maker {
    made: Mutex<Vec<String>>,
    fails: Option<fn() -> ApiError>,
}

impl Provisioner for Maker {
    fn make<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<(), ApiError>> {
        self.made.lock().unwrap().push(namespace.to_owned());
        Box::pin(ready(self.fails.map_or(Ok(()), |it| Err(it()))))
    }
}

fn made(operation: Operation, objects: Objects, maker: Maker) -> Result<Vec<String>, ApiError> {
    let user = User::new("alice", &[]);
    let object: Pod = decode(&pod(&json!({"containers": []})));
    let maker = Arc::new(maker);
    let plugin = NamespaceAutoProvision::new(maker.clone());
    Case::of(operation, "/pods", &user).run(plugin, objects, (Some(&object), None))?;
    let made = maker.made.lock().unwrap().clone();
    Ok(made)
}

#[test]
fn a_missing_namespace_is_made() {
    let there = || Objects::default().with("namespaces", &json!({"metadata": {"name": "ns"}}));
    assert_eq!(made(Operation::Create, Objects::default(), Maker::default()).unwrap(), ["ns"]);
    assert!(made(Operation::Create, there(), Maker::default()).unwrap().is_empty());
    assert!(made(Operation::Update, Objects::default(), Maker::default()).unwrap().is_empty());
}

#[test]
fn who_comes_second_goes_on_and_who_cannot_make_it_is_refused() {
    let second = Maker {
        fails: Some(|| ApiError::already_exists(&GroupResource::new("", "namespaces"), "ns")),
        ..Maker::default()
    };
    assert_eq!(made(Operation::Create, Objects::default(), second).unwrap(), ["ns"]);
    let broken = Maker { fails: Some(|| ApiError::bad_request("no")), ..Maker::default() };
    let refusal = made(Operation::Create, Objects::default(), broken).unwrap_err();
    assert_eq!(refusal.message(), "pods \"web\" is forbidden: no");
}
