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

#[test]
fn a_port_of_the_node_is_one_pods() {
    let with = |ports: Value| json!({ "containers": [{ "name": "c", "ports": ports }] });
    let there: PodSpec = serde_json::from_value(with(json!([
        { "containerPort": 1, "hostPort": 80 },
        { "containerPort": 1, "hostPort": 53, "hostIP": "10.0.0.1", "protocol": "UDP" },
    ])))
    .unwrap();
    let mut used = Used::default();
    used.add(&Pod { spec: Some(there), ..Pod::default() });
    let allocatable = BTreeMap::from([("pods".to_owned(), 9)]);
    let check = |port: Value, is_free: bool| {
        let spec = serde_json::from_value(with(json!([port]))).unwrap();
        let rejection = asked(&spec, &used, &allocatable, &Node::default()).err();
        let expected = "NodePorts: Predicate NodePorts failed: node(s) didn't have free ports for \
                        the requested pod ports";
        let text = rejection.map(|(reason, message)| format!("{reason}: {message}"));
        assert_eq!(text.as_deref(), (!is_free).then_some(expected), "{port}");
    };
    check(json!({ "containerPort": 80 }), true);
    check(json!({ "containerPort": 9, "hostPort": 80 }), false);
    check(json!({ "containerPort": 9, "hostPort": 80, "hostIP": "127.0.0.1" }), false);
    check(json!({ "containerPort": 9, "hostPort": 80, "protocol": "UDP" }), true);
    check(
        json!({ "containerPort": 9, "hostPort": 53, "hostIP": "10.0.0.2", "protocol": "UDP" }),
        true,
    );
    check(json!({ "containerPort": 9, "hostPort": 53, "protocol": "UDP" }), false);
}

#[test]
fn what_drives_pods_away_keeps_them_out_unless_the_node_itself_asks_for_them() {
    let node: Node = serde_json::from_value(json!({ "spec": { "taints": [
        { "key": "soft", "effect": "NoSchedule" }, { "key": "down", "effect": "NoExecute" }] } }))
    .unwrap();
    let allocatable = BTreeMap::from([("pods".to_owned(), 9)]);
    let asked = |tolerations: Value, source: &str| {
        let spec: PodSpec =
            serde_json::from_value(json!({ "containers": [], "tolerations": tolerations }))
                .unwrap();
        let mut pod = Pod { spec: Some(spec.clone()), ..Pod::default() };
        let annotation = ("kubernetes.io/config.source".to_owned(), source.to_owned());
        pod.metadata.annotations = Some([annotation].into());
        admit(&Candidate {
            pod: &pod,
            spec: &spec,
            machine: &Machine::default(),
            allowed_unsafe_sysctls: &[],
            used: &Used::default(),
            allocatable: &allocatable,
            node: Some(&node),
        })
        .map_err(|(reason, _)| reason)
    };
    assert_eq!(asked(json!([]), "api"), Err("TaintToleration".to_owned()));
    assert_eq!(asked(json!([]), "file"), Ok(()));
    assert_eq!(asked(json!([{ "key": "down", "operator": "Exists" }]), "api"), Ok(()));
}
