//! Connections that began before a policy: they go on if it allows them, and end if it does not.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use apimachinery::ObjectKey;
use serde_json::json;

use crate::places::{Cluster, Place, key};
use crate::probes::{asks, serve, serve_udp};
use network::policy::model::Protocol;

const PATIENCE: Duration = Duration::from_millis(700);

struct Tcp(TcpStream);

impl Tcp {
    fn connect(from: &Place, to: SocketAddr) -> Self {
        let connect = || TcpStream::connect_timeout(&to, Duration::from_secs(5)).unwrap();
        let stream = from.namespace.run(connect).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(stream)
    }

    fn is_alive(&mut self) -> bool {
        self.0.write_all(b"?").is_ok() && self.0.read(&mut [0; 1]).is_ok_and(|it| it == 1)
    }
}

struct Udp(UdpSocket);

impl Udp {
    fn connect(from: &Place, to: SocketAddr) -> Self {
        let any: SocketAddr = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }.parse().unwrap();
        let socket = from.namespace.run(|| UdpSocket::bind(any).unwrap()).unwrap();
        socket.connect(to).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(socket)
    }

    fn is_alive(&self) -> bool {
        self.0.send(b"?").is_ok() && self.0.recv(&mut [0; 1]).is_ok()
    }
}

fn place<'a>(cluster: &'a Cluster, namespace: &str, name: &str) -> &'a Place {
    &cluster.places[&key(namespace, name)]
}

#[test]
fn what_a_new_policy_forbids_ends_and_what_it_allows_goes_on() {
    let Some(cluster) = Cluster::start() else { return };
    serve(&cluster);
    let server = place(&cluster, "x", "a");
    // On the same node, on another, by the Service, by IPv6.
    let service = SocketAddr::new(cluster.service_of(&ObjectKey::new("x", "a")), 80);
    let targets = [
        (place(&cluster, "x", "c"), SocketAddr::new(server.addresses[0], 80)),
        (place(&cluster, "y", "b"), SocketAddr::new(server.addresses[0], 80)),
        (place(&cluster, "y", "b"), service),
        (place(&cluster, "y", "b"), SocketAddr::new(server.addresses[1], 80)),
    ];
    let mut forbidden: Vec<_> = targets.iter().map(|(from, to)| Tcp::connect(from, *to)).collect();
    let forbidden_udp: Vec<_> = targets.iter().map(|(from, to)| Udp::connect(from, *to)).collect();
    let mut allowed = Tcp::connect(place(&cluster, "x", "b"), targets[0].1);
    let allowed_udp = Udp::connect(place(&cluster, "x", "b"), targets[0].1);
    let mut others =
        Tcp::connect(server, SocketAddr::new(place(&cluster, "y", "c").addresses[0], 80));
    assert!(forbidden.iter_mut().all(Tcp::is_alive) && forbidden_udp.iter().all(Udp::is_alive));
    assert!(allowed.is_alive() && allowed_udp.is_alive() && others.is_alive());

    let from_b = json!([{"from": [{"podSelector": {"matchLabels": {"pod": "b"}}}]}]);
    let spec = json!({"podSelector": {"matchLabels": {"pod": "a"}}, "ingress": from_b});
    cluster.set_policy("x", "p", Some(spec));
    cluster.tell();
    assert!(allowed.is_alive() && allowed_udp.is_alive(), "what is allowed goes on");
    assert!(others.is_alive(), "nothing is said of what goes out");
    for (index, connection) in forbidden.iter_mut().enumerate() {
        assert!(!connection.is_alive(), "TCP {index}");
    }
    for (index, flow) in forbidden_udp.iter().enumerate() {
        assert!(!flow.is_alive(), "UDP {index}");
    }
    // What is forbidden stays so whoever speaks first, and does not come back by itself.
    assert!(!forbidden[0].is_alive());
}

#[test]
fn what_was_ended_is_not_begun_again_by_the_other_side() {
    let Some(cluster) = Cluster::start() else { return };
    let (server, client) = (place(&cluster, "x", "a"), place(&cluster, "y", "b"));
    let address = SocketAddr::new(server.addresses[0], 80);
    let listener = server.namespace.run(|| std::net::TcpListener::bind(address).unwrap()).unwrap();
    let mut client = Tcp::connect(client, address);
    let (mut stream, _) = listener.accept().unwrap();
    stream.write_all(b"1").unwrap();
    assert_eq!(client.0.read(&mut [0; 1]).unwrap(), 1);
    cluster.set_policy("x", "p", Some(json!({})));
    cluster.tell();
    // The server may go out to whom it likes; this is no such connection.
    stream.write_all(b"2").unwrap();
    assert!(client.0.read(&mut [0; 1]).is_err());
}

#[test]
fn a_label_that_goes_ends_connections_too() {
    let Some(cluster) = Cluster::start() else { return };
    serve(&cluster);
    let from_y = json!([{"from": [{"namespaceSelector": {"matchLabels": {"ns": "y"}}}]}]);
    cluster.set_policy("x", "p", Some(json!({"ingress": from_y})));
    cluster.tell();
    let address = SocketAddr::new(place(&cluster, "x", "a").addresses[0], 80);
    let mut connection = Tcp::connect(place(&cluster, "y", "b"), address);
    assert!(connection.is_alive());
    cluster.set_namespace("y", json!({}));
    cluster.tell();
    assert!(!connection.is_alive());
}

#[test]
fn the_own_node_always_comes_in_and_is_reached_but_for_dns() {
    let Some(cluster) = Cluster::start() else { return };
    serve(&cluster);
    cluster.set_nodes();
    let (node, gateway) = (&cluster.nodes[0], cluster.nodes[0].gateway());
    for port in [53, 5353] {
        serve_udp(&node.namespace, SocketAddr::new(gateway, port));
    }
    cluster.set_policy("x", "p", Some(json!({"policyTypes": ["Ingress", "Egress"]})));
    cluster.tell();
    let pod = place(&cluster, "x", "a");
    let patience = Duration::from_millis(500);
    let to_pod = SocketAddr::new(pod.addresses[0], 80);
    let from_node = |node: &crate::places::Node, protocol| {
        node.namespace.run(|| asks(protocol, to_pod, patience)).unwrap()
    };
    assert!(from_node(node, Protocol::Tcp) && from_node(node, Protocol::Udp), "probes");
    assert!(!from_node(&cluster.nodes[1], Protocol::Tcp), "another node is not its own");
    let from_pod = |port| {
        let to = SocketAddr::new(gateway, port);
        pod.namespace.run(|| asks(Protocol::Udp, to, patience)).unwrap()
    };
    assert!(from_pod(53) && from_pod(5353));

    // Now what listens there is known as cluster DNS.
    let port = network::policy::model::NamedPort {
        name: "dns".into(),
        protocol: Protocol::Udp,
        number: 53,
    };
    let server = network::policy::state::NameServer { address: gateway, ports: vec![port] };
    let set = |it: &crate::places::Node| {
        it.enforced.lock().state.set_name_servers([server.clone()].into());
    };
    cluster.nodes.iter().for_each(set);
    cluster.tell();
    assert!(!from_pod(53) && from_pod(5353));
    let dns = json!([{"to": [{
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
        "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
    }]}]);
    cluster.set_policy("x", "dns", Some(json!({"policyTypes": ["Egress"], "egress": dns})));
    cluster.tell();
    assert!(from_pod(53));
    // From a pod of the other node, it is a pod like any other.
    let far = place(&cluster, "x", "b");
    let to = SocketAddr::new(gateway, 53);
    let asks_dns = || far.namespace.run(|| asks(Protocol::Udp, to, patience)).unwrap();
    assert!(asks_dns());
    cluster.set_policy("x", "dns", None);
    cluster.tell();
    assert!(!asks_dns());
}

#[test]
fn a_pod_reaches_itself_by_its_service() {
    let Some(cluster) = Cluster::start() else { return };
    serve(&cluster);
    cluster.set_policy("x", "p", Some(json!({"policyTypes": ["Ingress", "Egress"]})));
    cluster.tell();
    let service = SocketAddr::new(cluster.service_of(&key("x", "a")), 80);
    let ask = || asks(Protocol::Tcp, service, Duration::from_secs(2));
    assert!(place(&cluster, "x", "a").namespace.run(ask).unwrap());
}
