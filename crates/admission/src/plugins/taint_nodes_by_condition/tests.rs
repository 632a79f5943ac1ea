//! A new node in, its taints out.

use apimachinery::User;
use serde_json::{Value, json};

use super::TaintNodesByCondition;
use crate::attributes::Operation;
use crate::plugins::fixture::{Case, Objects, decode};

fn check(operation: Operation, taints: &Value, expected: &Value) {
    let user = User::new("alice", &[]);
    let node: api::core::Node =
        decode(&json!({"metadata": {"name": "n"}, "spec": {"taints": taints}}));
    let case = Case { operation, resource: "/nodes", namespace: "", name: "n", user: &user };
    let node = case.run(TaintNodesByCondition, Objects::default(), (Some(&node), None)).unwrap();
    assert_eq!(node["spec"]["taints"], *expected);
}

#[test]
fn only_a_new_node_is_tainted_and_only_once() {
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    check(Operation::Create, &json!([]), &json!([taint]));
    check(Operation::Create, &json!([taint]), &json!([taint]));
    check(Operation::Update, &json!([]), &Value::Null);
}
