//! Absurd policies in a real kernel: they cost in proportion to what was written, and hold.

use std::net::SocketAddr;
use std::time::Duration;

use network::policy::model::Protocol;
use serde_json::{Value, json};

use crate::places::{Cluster, key};
use crate::probes::{asks, serve};

fn check(cluster: &Cluster, what: &str, spec: Value, expected: bool) {
    cluster.set_policy("x", "absurd", Some(spec));
    cluster.tell();
    let address = SocketAddr::new(cluster.places[&key("x", "a")].addresses[0], 80);
    let client = &cluster.places[&key("y", "b")].namespace;
    let patience = if expected { Duration::from_secs(5) } else { Duration::from_millis(300) };
    let answered = client.run(|| asks(Protocol::Tcp, address, patience)).unwrap();
    assert_eq!(answered, expected, "{what}");
}

#[test]
fn absurd_policies_are_bounded_and_hold() {
    let Some(cluster) = Cluster::start() else { return };
    serve(&cluster);
    let of = |peers: Vec<Value>| json!({"ingress": [{"from": peers}]});
    let selector = |it: u32| json!({"podSelector": {"matchLabels": {"app": it.to_string()}}});
    let many: Vec<_> = (0..10_000).map(selector).collect();
    check(&cluster, "10,000 selectors of nobody", of(many.clone()), false);
    let one = json!({"namespaceSelector": {"matchLabels": {"ns": "y"}}});
    check(&cluster, "and one of somebody", of([many, vec![one]].concat()), true);
    let block = |it: u32| {
        let cidr = format!("{}.{}.{}.0/24", it % 9 + 1, it / 9 % 200, it / 1800);
        json!({"ipBlock": {"cidr": cidr, "except": [cidr.replace(".0/24", ".128/25")]}})
    };
    let blocks: Vec<_> = (0..10_000).map(block).collect();
    check(&cluster, "10,000 ranges of others", of(blocks.clone()), false);
    let overlapping: Vec<_> =
        (8..=30).map(|it| json!({"ipBlock": {"cidr": format!("10.244.0.0/{it}")}})).collect();
    check(&cluster, "ranges in ranges", of([blocks, overlapping].concat()), true);
    let all = json!({"ipBlock": {"cidr": "0.0.0.0/0", "except": ["0.0.0.0/1", "128.0.0.0/1"]}});
    check(&cluster, "all without all", of(vec![all]), false);
    let ports: Vec<_> =
        (0..10_000).map(|it| json!({"port": it * 6 + 1, "endPort": it * 6 + 4})).collect();
    check(&cluster, "10,000 ranges of ports", json!({"ingress": [{"ports": ports}]}), true);
    cluster.set_policy("x", "absurd", None);
    cluster.tell();
    assert!(!cluster.has_tables());
}
