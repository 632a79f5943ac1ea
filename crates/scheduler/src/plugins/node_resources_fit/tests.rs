//! Requests and what nodes have left in, refusals and preferences out.

use serde_json::{Value, json};

use super::NodeResourcesFit;
use crate::fixture::{node, pod, refusal, requesting, scores};

fn check(requests: &Value, expected: &str) {
    let rest = json!({ "status": { "allocatable": { "ephemeral-storage": "1Gi", "example.com/gpu": "1" } } });
    assert_eq!(refusal(&NodeResourcesFit, &requesting(requests), &node("a", rest)), expected);
}

#[test]
fn what_fits_exactly_fits() {
    check(
        &json!({ "cpu": "4", "memory": "8Gi", "ephemeral-storage": "1Gi", "example.com/gpu": "1" }),
        "",
    );
    check(&json!({}), "");
}

#[test]
fn each_resource_that_lacks_is_a_reason() {
    check(&json!({ "cpu": "4001m" }), "Insufficient cpu");
    check(&json!({ "cpu": "5", "memory": "9Gi" }), "Insufficient cpu, Insufficient memory");
    check(&json!({ "ephemeral-storage": "2Gi" }), "Insufficient ephemeral-storage");
    check(&json!({ "example.com/gpu": "2" }), "Insufficient example.com/gpu");
    check(&json!({ "example.com/tpu": "1" }), "Insufficient example.com/tpu");
}

#[test]
fn pods_on_the_node_take_their_share_and_give_it_back() {
    let (half, mut node) = (requesting(&json!({ "cpu": "2500m" })), node("a", json!({})));
    node.take(&half);
    assert_eq!(refusal(&NodeResourcesFit, &half, &node), "Insufficient cpu");
    node.give_back(&half);
    assert_eq!(refusal(&NodeResourcesFit, &half, &node), "");
}

#[test]
fn a_node_takes_as_many_pods_as_it_says() {
    let mut one = node("a", json!({ "status": { "allocatable": { "pods": "1" } } }));
    one.take(&pod(json!({})));
    assert_eq!(refusal(&NodeResourcesFit, &pod(json!({})), &one), "Too many pods");
}

#[test]
fn the_emptier_node_has_more() {
    let mut half = node("half", json!({}));
    half.take(&requesting(&json!({ "cpu": "2", "memory": "4Gi" })));
    let wanted = requesting(&json!({ "cpu": "1", "memory": "2Gi" }));
    assert_eq!(scores(&NodeResourcesFit, &wanted, &[node("idle", json!({})), half]), [75, 25]);
}

#[test]
fn a_container_that_requests_nothing_counts_as_a_small_one() {
    let mut crowded = node("crowded", json!({}));
    // 10 containers without requests: 1 CPU and 2000 MiB, as scores see it.
    (0..10).for_each(|_| crowded.take(&pod(json!({}))));
    let scores = scores(&NodeResourcesFit, &pod(json!({})), &[node("idle", json!({})), crowded]);
    assert_eq!(scores, [97, 72]);
}
