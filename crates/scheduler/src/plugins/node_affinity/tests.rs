//! Selectors and labels in, refusals and preferences out.

use serde_json::{Value, json};

use super::NodeAffinity;
use crate::fixture::{node, pod, refusal, scores};
use crate::node::NodeState;

const REFUSED: &str = "node(s) didn't match Pod's node affinity/selector";

fn labeled(name: &str, labels: Value) -> NodeState {
    node(name, json!({ "metadata": { "labels": labels } }))
}

fn required(terms: Value) -> Value {
    json!({ "affinity": { "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms },
    } } })
}

fn check(spec: Value, labels: Value, is_allowed: bool) {
    let said = refusal(&NodeAffinity, &pod(spec), &labeled("n1", labels));
    assert_eq!(said, if is_allowed { "" } else { REFUSED });
}

/// One expression about the label `size`.
fn expression(operator: &str, values: &[&str]) -> Value {
    let expression = json!({ "key": "size", "operator": operator, "values": values });
    required(json!([{ "matchExpressions": [expression] }]))
}

#[test]
fn every_label_of_the_selector_is_needed() {
    let spec = json!({ "nodeSelector": { "a": "1", "b": "2" } });
    check(spec.clone(), json!({ "a": "1", "b": "2", "c": "3" }), true);
    check(spec.clone(), json!({ "a": "1" }), false);
    check(spec, json!({ "a": "1", "b": "3" }), false);
}

#[test]
fn operators_mean_what_they_mean_in_node_selectors() {
    check(expression("In", &["5", "9"]), json!({ "size": "9" }), true);
    check(expression("In", &["5"]), json!({}), false);
    check(expression("NotIn", &["5"]), json!({ "size": "5" }), false);
    check(expression("NotIn", &["5"]), json!({}), true);
    check(expression("Exists", &[]), json!({ "size": "" }), true);
    check(expression("DoesNotExist", &[]), json!({ "size": "" }), false);
    check(expression("Gt", &["5"]), json!({ "size": "9" }), true);
    check(expression("Gt", &["9"]), json!({ "size": "9" }), false);
    check(expression("Lt", &["9"]), json!({ "size": "5" }), true);
    check(expression("Lt", &["9"]), json!({ "size": "small" }), false);
    check(expression("Near", &["9"]), json!({ "size": "9" }), false);
}

#[test]
fn one_term_is_enough_and_an_empty_one_matches_nothing() {
    let of = |value: &str| json!({ "matchExpressions": [{ "key": "zone", "operator": "In", "values": [value] }] });
    check(required(json!([of("a"), of("b")])), json!({ "zone": "b" }), true);
    check(required(json!([of("a"), of("b")])), json!({ "zone": "c" }), false);
    check(required(json!([{}])), json!({ "zone": "a" }), false);
}

#[test]
fn the_only_field_is_the_name() {
    let field = |key: &str| {
        required(json!([{ "matchFields": [{ "key": key, "operator": "In", "values": ["n1"] }] }]))
    };
    check(field("metadata.name"), json!({}), true);
    check(field("metadata.uid"), json!({}), false);
}

#[test]
fn the_node_with_most_of_what_is_preferred_has_100() {
    let preferred = |label: &str, weight: i32| {
        let expression = json!({ "key": label, "operator": "Exists" });
        json!({ "weight": weight, "preference": { "matchExpressions": [expression] } })
    };
    let pod = pod(json!({ "affinity": { "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [preferred("a", 30), preferred("b", 10)],
    } } }));
    let nodes = [
        labeled("both", json!({ "a": "", "b": "" })),
        labeled("a", json!({ "a": "" })),
        labeled("none", json!({})),
    ];
    assert_eq!(scores(&NodeAffinity, &pod, &nodes), [100, 75, 0]);
    assert_eq!(scores(&NodeAffinity, &pod, &nodes[2..]), [0]);
}
