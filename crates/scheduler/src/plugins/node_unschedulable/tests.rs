//! Cordoned nodes in, refusals out.

use serde_json::json;

use super::NodeUnschedulable;
use crate::fixture::{node, pod, refusal};

#[test]
fn a_cordoned_node_takes_only_who_tolerates_it() {
    let cordoned = node("a", json!({ "spec": { "unschedulable": true } }));
    assert_eq!(
        refusal(&NodeUnschedulable, &pod(json!({})), &cordoned),
        "node(s) were unschedulable"
    );
    let key = "node.kubernetes.io/unschedulable";
    for toleration in [
        json!({ "key": key, "operator": "Exists", "effect": "NoSchedule" }),
        json!({ "key": key, "operator": "Exists" }),
        json!({ "operator": "Exists" }),
    ] {
        let tolerant = pod(json!({ "tolerations": [toleration] }));
        assert_eq!(refusal(&NodeUnschedulable, &tolerant, &cordoned), "");
    }
    let other = pod(json!({ "tolerations": [{ "key": "gpu", "operator": "Exists" }] }));
    assert_ne!(refusal(&NodeUnschedulable, &other, &cordoned), "");
}

#[test]
fn other_nodes_take_everybody() {
    assert_eq!(refusal(&NodeUnschedulable, &pod(json!({})), &node("a", json!({}))), "");
}
