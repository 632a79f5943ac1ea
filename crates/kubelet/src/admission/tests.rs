//! Pods in, reasons out.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod, PodSpec};
use serde_json::{Value, json};

use super::{Candidate, Rejection, Used, admit};
use crate::Machine;

fn asked(
    spec: &PodSpec,
    used: &Used,
    allocatable: &BTreeMap<String, i64>,
    node: &Node,
) -> Result<(), Rejection> {
    admit(&Candidate {
        pod: &Pod { spec: Some(spec.clone()), ..Pod::default() },
        spec,
        machine: &Machine::default(),
        allowed_unsafe_sysctls: &[],
        used,
        allocatable,
        node: Some(node),
    })
}

fn check(spec: Value, expected: Option<&str>) {
    let spec: PodSpec = serde_json::from_value(spec).unwrap();
    let mut used = Used::default();
    let there = serde_json::from_value(pod("1", "1Gi")).unwrap();
    used.add(&Pod { spec: Some(there), ..Pod::default() });
    let allocatable = [("cpu", 4000), ("memory", 4 << 30), ("pods", 2)];
    let allocatable =
        allocatable.into_iter().map(|(name, amount)| (name.to_owned(), amount)).collect();
    let node: Node = serde_json::from_value(
        json!({ "metadata": { "name": "n1", "labels": { "disk": "ssd", "size": "9" } } }),
    )
    .unwrap();
    let rejection = asked(&spec, &used, &allocatable, &node).err();
    let text = rejection.map(|(reason, message)| format!("{reason}: {message}"));
    assert_eq!(text.as_deref(), expected);
    if expected.is_none() {
        used.n_pods = 2;
        let (reason, _) = asked(&spec, &used, &allocatable, &node).unwrap_err();
        assert_eq!(reason, "OutOfpods");
    }
}

fn pod(cpu: &str, memory: &str) -> Value {
    let requests = json!({ "cpu": cpu, "memory": memory });
    json!({ "containers": [{ "name": "c", "resources": { "requests": requests } }] })
}

#[test]
fn a_pod_that_does_not_fit_is_told_what_is_missing() {
    check(pod("3", "1Gi"), None);
    check(
        pod("3500m", "1Gi"),
        Some(
            "OutOfcpu: Node didn't have enough resource: cpu, requested: 3500, used: 1000, capacity: 4000",
        ),
    );
    check(
        pod("1", "4Gi"),
        Some(
            "OutOfmemory: Node didn't have enough resource: memory, requested: 4294967296, used: 1073741824, capacity: 4294967296",
        ),
    );
}

#[test]
fn what_no_node_runs_is_said_before_what_does_not_fit_here() {
    let windows = json!({ "containers": [], "os": { "name": "windows" },
        "nodeSelector": { "disk": "hdd" } });
    check(
        windows,
        Some("PodOSNotSupported: Failed to admit pod as the OS field doesn't match node OS"),
    );
}

#[test]
fn labels_of_the_node_count() {
    let refused = Some(
        "NodeAffinity: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
    );
    let with = |selector: Value| json!({ "containers": [], "nodeSelector": selector });
    check(with(json!({ "disk": "ssd" })), None);
    check(with(json!({ "disk": "hdd" })), refused);
    let affinity = |expression: Value| {
        json!({ "containers": [], "affinity": { "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
                { "matchExpressions": [expression] }] } } } })
    };
    check(affinity(json!({ "key": "disk", "operator": "In", "values": ["ssd"] })), None);
    check(affinity(json!({ "key": "disk", "operator": "NotIn", "values": ["ssd"] })), refused);
    check(affinity(json!({ "key": "gpu", "operator": "Exists" })), refused);
    check(affinity(json!({ "key": "gpu", "operator": "DoesNotExist" })), None);
    check(affinity(json!({ "key": "size", "operator": "Gt", "values": ["5"] })), None);
    check(affinity(json!({ "key": "size", "operator": "Lt", "values": ["5"] })), refused);
}
