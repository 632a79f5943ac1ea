//! Taints and tolerations in, refusals and preferences out.

use serde_json::{Value, json};

use super::TaintToleration;
use crate::fixture::{node, pod, refusal, scores};
use crate::node::NodeState;

/// `key=value:Effect`
fn tainted(taints: &[&str]) -> NodeState {
    let taints: Vec<Value> = taints
        .iter()
        .map(|it| {
            let (rest, effect) = it.rsplit_once(':').unwrap();
            let (key, value) = rest.split_once('=').unwrap();
            json!({ "key": key, "value": value, "effect": effect })
        })
        .collect();
    node("a", json!({ "spec": { "taints": taints } }))
}

fn check(taint: &str, toleration: Value, is_allowed: bool) {
    let said =
        refusal(&TaintToleration, &pod(json!({ "tolerations": [toleration] })), &tainted(&[taint]));
    assert_eq!(said.is_empty(), is_allowed, "{taint}: {said}");
}

#[test]
fn the_first_taint_that_is_not_tolerated_is_the_reason() {
    let node = tainted(&["soft=:PreferNoSchedule", "a=1:NoSchedule", "b=2:NoExecute"]);
    let said = refusal(&TaintToleration, &pod(json!({})), &node);
    assert_eq!(said, "node(s) had untolerated taint {a: 1}");
    let tolerant = pod(json!({ "tolerations": [{ "key": "a", "value": "1" }] }));
    let said = refusal(&TaintToleration, &tolerant, &node);
    assert_eq!(said, "node(s) had untolerated taint {b: 2}");
}

#[test]
fn a_toleration_matches_by_key_value_and_effect() {
    check("a=1:NoSchedule", json!({ "key": "a", "value": "1" }), true);
    check("a=1:NoSchedule", json!({ "key": "a", "operator": "Equal", "value": "2" }), false);
    check("a=1:NoSchedule", json!({ "key": "a", "operator": "Exists" }), true);
    check("a=1:NoSchedule", json!({ "key": "b", "operator": "Exists" }), false);
    check(
        "a=1:NoSchedule",
        json!({ "key": "a", "operator": "Exists", "effect": "NoExecute" }),
        false,
    );
    check("a=1:NoExecute", json!({ "operator": "Exists" }), true);
    check("a=1:NoSchedule", json!({ "key": "a", "operator": "Near", "value": "1" }), false);
}

#[test]
fn soft_taints_only_cost_points() {
    let nodes = [
        tainted(&[]),
        tainted(&["a=:PreferNoSchedule"]),
        tainted(&["a=:PreferNoSchedule", "b=:PreferNoSchedule"]),
    ];
    assert_eq!(refusal(&TaintToleration, &pod(json!({})), &nodes[2]), "");
    assert_eq!(scores(&TaintToleration, &pod(json!({})), &nodes), [100, 50, 0]);
    let tolerant = pod(json!({ "tolerations": [{ "operator": "Exists" }] }));
    assert_eq!(scores(&TaintToleration, &tolerant, &nodes), [100, 100, 100]);
}
