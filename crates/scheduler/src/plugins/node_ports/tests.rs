//! Host ports wanted and taken in, refusals out.

use serde_json::{Value, json};

use super::NodePorts;
use crate::fixture::{node, pod, refusal};
use crate::pod::PodRequirements;

fn wanting(port: Value) -> PodRequirements {
    pod(json!({ "containers": [{ "name": "main", "ports": [port] }] }))
}

fn check(taken: Value, wanted: Value, is_allowed: bool) {
    let mut node = node("a", json!({}));
    node.take(&wanting(taken));
    let said = refusal(&NodePorts, &wanting(wanted), &node);
    let refused = "node(s) didn't have free ports for the requested pod ports";
    assert_eq!(said, if is_allowed { "" } else { refused });
}

#[test]
fn a_port_is_taken_per_protocol_and_address() {
    let port = |port: i32, protocol: &str, address: &str| json!({ "containerPort": 1, "hostPort": port, "protocol": protocol, "hostIP": address });
    check(port(80, "TCP", ""), port(80, "TCP", ""), false);
    check(port(80, "TCP", ""), port(81, "TCP", ""), true);
    check(port(80, "TCP", ""), port(80, "UDP", ""), true);
    check(port(80, "TCP", "10.0.0.1"), port(80, "TCP", "10.0.0.2"), true);
    check(port(80, "TCP", "10.0.0.1"), port(80, "TCP", "0.0.0.0"), false);
    check(port(80, "TCP", "0.0.0.0"), port(80, "TCP", "10.0.0.1"), false);
}

#[test]
fn ports_of_containers_alone_are_never_in_the_way() {
    check(json!({ "containerPort": 80 }), json!({ "containerPort": 80 }), true);
}

#[test]
fn a_pod_that_leaves_frees_its_port() {
    let wanted = wanting(json!({ "containerPort": 80, "hostPort": 80 }));
    let mut node = node("a", json!({}));
    node.take(&wanted);
    node.give_back(&wanted);
    assert_eq!(refusal(&NodePorts, &wanted, &node), "");
}
