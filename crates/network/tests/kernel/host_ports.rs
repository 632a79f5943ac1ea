//! Host ports: from the world, from the node and its loopback, from pods, from the pod itself.

use node_api::network::{HostPort, Protocol};

use crate::places::{GATEWAY, NODE, Node, Server, WORLD, ask, deliver, receive, udp};

fn port(protocol: Protocol, address: Option<&str>, host_port: u16) -> HostPort {
    let host_address = address.map(|it| it.parse().unwrap());
    HostPort { protocol, host_address, host_port, container_port: 8080 }
}

#[test]
fn a_host_port_is_reached_from_everywhere() {
    let Some(node) = Node::start() else { return };
    let world = node.connect_world();
    let pod = node.attach("a", &[port(Protocol::Tcp, None, 80)]);
    let other = node.attach("b", &[]);
    let _server = Server::start(&pod.namespace, "0.0.0.0:8080");
    assert_eq!(ask(&world, "192.0.2.1:80").unwrap(), WORLD);
    assert_eq!(ask(&node.namespace, "192.0.2.1:80").unwrap(), NODE);
    assert_eq!(ask(&node.namespace, "10.244.1.1:80").unwrap(), GATEWAY);
    assert_eq!(ask(&node.namespace, "127.0.0.1:80").unwrap(), GATEWAY);
    assert_eq!(ask(&other.namespace, "192.0.2.1:80").unwrap(), other.address.to_string());
    assert_eq!(ask(&pod.namespace, "192.0.2.1:80").unwrap(), GATEWAY);
    // Other ports are the node's own.
    let err = ask(&world, "192.0.2.1:81").unwrap_err();
    assert_eq!(err.kind(), std::io::ErrorKind::ConnectionRefused);
    node.detach("a");
    let err = ask(&world, "192.0.2.1:80").unwrap_err();
    assert_eq!(err.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn a_host_port_is_on_the_address_it_was_asked_for() {
    let Some(node) = Node::start() else { return };
    let world = node.connect_world();
    let ports = [
        port(Protocol::Tcp, Some("127.0.0.1"), 80),
        port(Protocol::Tcp, Some(NODE), 81),
        port(Protocol::Tcp, Some("0.0.0.0"), 82),
    ];
    let pod = node.attach("a", &ports);
    let _server = Server::start(&pod.namespace, "0.0.0.0:8080");
    let check = |from, to: &str, expected: Option<&str>| {
        let result = ask(from, to);
        assert_eq!(result.as_deref().ok(), expected, "{to}: {result:?}");
    };
    check(&node.namespace, "127.0.0.1:80", Some(GATEWAY));
    check(&world, "192.0.2.1:80", None);
    check(&node.namespace, "127.0.0.1:81", None);
    check(&world, "192.0.2.1:81", Some(WORLD));
    check(&node.namespace, "127.0.0.1:82", Some(GATEWAY));
    check(&world, "192.0.2.1:82", Some(WORLD));
}

#[test]
fn udp_goes_both_ways_and_is_apart_from_tcp() {
    let Some(node) = Node::start() else { return };
    let world = node.connect_world();
    let a = node.attach("a", &[port(Protocol::Udp, None, 53)]);
    let b = node.attach("b", &[port(Protocol::Tcp, None, 53)]);
    let server = udp(&a.namespace, "0.0.0.0:8080");
    let _server = Server::start(&b.namespace, "0.0.0.0:8080");
    for (place, address) in [(&world, "192.0.2.1:53"), (&node.namespace, "127.0.0.1:53")] {
        let client = udp(place, "0.0.0.0:0");
        client.send_to(b"question", address).unwrap();
        let (text, sender) = receive(&server).unwrap();
        assert_eq!(text, "question");
        server.send_to(b"answer", sender).unwrap();
        let (text, sender) = receive(&client).unwrap();
        assert_eq!((text.as_str(), sender.to_string().as_str()), ("answer", address));
    }
    assert_eq!(ask(&world, "192.0.2.1:53").unwrap(), WORLD);
}

/// A client that keeps sending from one port is one flow to the kernel, which remembers where it
/// went.
#[test]
fn a_udp_client_follows_the_host_port_from_pod_to_pod() {
    let Some(node) = Node::start() else { return };
    let world = node.connect_world();
    for client in [udp(&world, &format!("{WORLD}:0")), udp(&node.namespace, "0.0.0.0:0")] {
        client.connect("192.0.2.1:53").unwrap();
        // Nobody is there yet; that is told, once.
        client.send(b"too early").unwrap();
        let _ = receive(&client).unwrap_err();
        for name in ["a", "b"] {
            let pod = node.attach(name, &[port(Protocol::Udp, None, 53)]);
            let server = udp(&pod.namespace, "0.0.0.0:8080");
            deliver(&client, name, &server);
            node.detach(name);
        }
    }
}

#[test]
fn a_port_that_is_taken_is_refused_and_leaves_nothing_behind() {
    let Some(node) = Node::start() else { return };
    let first = node.attach("a", &[port(Protocol::Tcp, None, 80)]);
    let n_links = node.routes().links().unwrap().len();
    let result =
        node.try_attach("b", first.namespace.path(), &[port(Protocol::Tcp, Some("127.0.0.1"), 80)]);
    let err = result.unwrap_err();
    assert_eq!(err.to_string(), "host port 80/TCP is taken by default/a");
    assert!(matches!(err, node_api::Error::HostPortTaken { port: 80, protocol: "TCP", .. }));
    assert_eq!(node.routes().links().unwrap().len(), n_links);
    node.detach("a");
    let _second = node.attach("b", &[port(Protocol::Tcp, Some("127.0.0.1"), 80)]);
}
