//! Requests and what nodes have left in, preferences out.

use serde_json::json;

use super::NodeResourcesBalancedAllocation;
use crate::fixture::{node, pod, requesting, scores};
use crate::plugins::Plugin as _;

#[test]
fn the_node_whose_resources_would_be_used_alike_has_most() {
    let pod = requesting(&json!({ "cpu": "1", "memory": "2Gi" }));
    let even = node("even", json!({}));
    // 1/4 of the CPU and all of the memory.
    let memory_only = node("memory", json!({ "status": { "allocatable": { "memory": "2Gi" } } }));
    let scores = scores(&NodeResourcesBalancedAllocation, &pod, &[even, memory_only]);
    assert_eq!(scores, [100, 62]);
}

#[test]
fn what_is_on_the_node_already_counts() {
    let pod = requesting(&json!({ "cpu": "1" }));
    let mut busy = node("busy", json!({}));
    busy.take(&requesting(&json!({ "memory": "2Gi" })));
    let idle = node("idle", json!({}));
    assert_eq!(scores(&NodeResourcesBalancedAllocation, &pod, &[busy, idle]), [100, 87]);
}

#[test]
fn a_pod_that_requests_nothing_is_not_asked_about() {
    assert!(!NodeResourcesBalancedAllocation.applies(&pod(json!({}))));
}

#[test]
fn a_node_that_offers_none_counts_as_full() {
    let pod = requesting(&json!({ "cpu": "4", "memory": "1Gi" }));
    let none = node("none", json!({ "status": { "allocatable": { "memory": "0" } } }));
    assert_eq!(scores(&NodeResourcesBalancedAllocation, &pod, &[none]), [100]);
}
