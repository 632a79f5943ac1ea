//! Requests in, refusals out.

use api::core::Pod;
use apimachinery::User;
use serde_json::json;

use super::NamespaceExists;
use crate::attributes::Operation;
use crate::plugins::fixture::{Case, Objects, decode, pod};

#[test]
fn a_namespace_is_there() {
    let user = User::new("alice", &[]);
    let object: Pod = decode(&pod(&json!({"containers": []})));
    let there = || Objects::default().with("namespaces", &json!({"metadata": {"name": "ns"}}));
    for operation in [Operation::Create, Operation::Update, Operation::Delete] {
        let case = Case::of(operation, "/pods", &user);
        assert!(case.run(NamespaceExists, there(), (Some(&object), None)).is_ok());
        let refusal = case.run(NamespaceExists, Objects::default(), (Some(&object), None));
        assert_eq!(refusal.unwrap_err().message(), "namespaces \"ns\" not found");
    }
    let connect = Case::of(Operation::Connect, "/pods/exec", &user);
    assert!(connect.run(NamespaceExists, Objects::default(), (None, None)).is_ok());
}
