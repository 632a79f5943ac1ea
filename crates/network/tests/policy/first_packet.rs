//! A pod's first packet already meets its policies.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use linux::network_namespace::NetworkNamespace;
use network::policy::model::{Pod, Protocol};
use serde_json::json;

use crate::places::{Cluster, key, node_name};
use crate::probes::{asks, serve, serve_tcp};

#[test]
fn a_pod_that_comes_under_a_policy_never_sends_nor_hears_what_it_forbids() {
    let Some(cluster) = Cluster::start() else { return };
    serve(&cluster);
    let open = SocketAddr::new(cluster.places[&key("y", "a")].addresses[0], 80);
    cluster.set_policy("x", "p", Some(json!({"policyTypes": ["Ingress", "Egress"]})));
    cluster.tell();
    let place = NetworkNamespace::create().unwrap();
    let path = place.path();
    // It tries without pause, from before it has a network.
    let trying = thread::spawn(move || {
        let ask = move || {
            let until = |_: &u32| {
                thread::sleep(Duration::from_millis(1));
                asks(Protocol::Udp, open, Duration::from_millis(2))
            };
            (0..1000).find(until)
        };
        linux::network_namespace::run_in(&path, ask).unwrap()
    });
    thread::sleep(Duration::from_millis(50));
    let pod = cluster.nodes[0].attach_at("x", "new", place);
    // Its labels come late.
    thread::sleep(Duration::from_millis(200));
    let known = Pod {
        uid: "x/new".into(),
        labels: [("pod", "new")].into_iter().collect(),
        node: node_name(1).as_str().into(),
        ..Pod::default()
    };
    for node in &cluster.nodes {
        node.enforced.lock().state.set_pod(&key("x", "new"), Some(known.clone()));
    }
    cluster.tell();
    assert_eq!(trying.join().unwrap(), None, "it was answered");
    // It is held back by the policy and by nothing else.
    let asks_now = || asks(Protocol::Udp, open, Duration::from_secs(2));
    cluster.set_policy("x", "p", None);
    cluster.tell();
    assert!(pod.namespace.run(asks_now).unwrap());
    cluster.nodes[0].detach("x", "new");
}

#[test]
fn a_pod_of_another_namespace_is_open_at_once() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.set_policy("x", "p", Some(json!({"policyTypes": ["Ingress", "Egress"]})));
    cluster.tell();
    let pod = cluster.nodes[0].attach("y", "new");
    let address = SocketAddr::new(pod.addresses[0], 80);
    serve_tcp(&pod.namespace, address);
    let client = &cluster.places[&key("y", "b")].namespace;
    assert!(client.run(|| asks(Protocol::Tcp, address, Duration::from_secs(2))).unwrap());
}
