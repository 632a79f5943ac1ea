//! Restarts, corrections and leaving.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use linux::netlink::route::{Address, Link, LinkChange, Route};
use linux::sysctl;
use node_api::network::{HostPort, Protocol};

use crate::paths::delete_table;
use crate::places::{GATEWAY, Node, Server, ask, ip};

fn host_port(host_port: u16) -> HostPort {
    HostPort { protocol: Protocol::Tcp, host_address: None, host_port, container_port: 8080 }
}

#[test]
fn a_restart_keeps_addresses_and_connections() {
    let Some(mut node) = Node::start() else { return };
    let (a, b) = (node.attach("a", &[]), node.attach("b", &[host_port(80)]));
    node.add_service("10.96.0.10", b.address, 9090);
    let listener = b.namespace.run(|| TcpListener::bind("0.0.0.0:9090").unwrap()).unwrap();
    let mut client = a.namespace.run(|| TcpStream::connect("10.96.0.10:9090").unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    node.open();
    client.write_all(b"still here").unwrap();
    let mut buffer = [0; 10];
    server.read_exact(&mut buffer).unwrap();
    assert_eq!(&buffer, b"still here");
    assert_eq!(node.try_attach("b", b.namespace.path(), &[host_port(80)]).unwrap(), b.address);
    assert_eq!(node.attach("c", &[]).address.to_string(), "10.244.1.4");
    let namespace = linux::network_namespace::NetworkNamespace::create().unwrap();
    assert!(node.try_attach("d", namespace.path(), &[host_port(80)]).is_err());
}

#[test]
fn after_a_restart_strangers_are_freed() {
    let Some(mut node) = Node::start() else { return };
    let (a, b) = (node.attach("a", &[host_port(80)]), node.attach("b", &[host_port(81)]));
    node.open();
    node.keep_only(&[("a", &a.namespace), ("never there", &b.namespace)]);
    let _servers =
        [Server::start(&a.namespace, "0.0.0.0:8080"), Server::start(&b.namespace, "0.0.0.0:8080")];
    assert_eq!(ask(&node.namespace, "127.0.0.1:80").unwrap(), GATEWAY);
    assert!(ask(&node.namespace, "127.0.0.1:81").is_err());
    let links = node.routes().links().unwrap();
    assert_eq!(links.iter().filter(|it| it.name.starts_with("veth")).count(), 1);
    let _c = node.attach("c", &[host_port(81)]);
}

/// Does it to the node, opens again, and looks whether all still works.
fn check(what: &str, damage: impl FnOnce(&Node)) {
    let Some(mut node) = Node::start() else { return };
    let (a, b) = (node.attach("a", &[]), node.attach("b", &[host_port(80)]));
    damage(&node);
    node.open();
    let _server = Server::start(&b.namespace, "0.0.0.0:8080");
    assert_eq!(ask(&a.namespace, "10.244.1.3:8080").unwrap(), "10.244.1.2", "{what}");
    assert_eq!(ask(&node.namespace, "10.244.1.3:8080").unwrap(), GATEWAY, "{what}");
    assert_eq!(ask(&node.namespace, "127.0.0.1:80").unwrap(), GATEWAY, "{what}");
    let mut addresses = node.routes().addresses().unwrap();
    let bridge = node.routes().link("xebec0").unwrap().unwrap();
    addresses.retain(|it| it.link == bridge.index && it.address.is_ipv4());
    assert_eq!(addresses.len(), 1, "{what}: {addresses:?}");
}

#[test]
fn opening_again_corrects_what_others_broke() {
    let find = |node: &Node, name: &str| node.routes().link(name).unwrap().unwrap();
    let veth = |node: &Node, octet: u8| {
        let links = node.routes().links().unwrap();
        let is_it = |it: &&Link| {
            it.name.starts_with("veth") && it.address.is_some_and(|it| it.0[5] == octet)
        };
        links.iter().find(is_it).unwrap().clone()
    };
    let down = LinkChange { is_up: Some(false), ..LinkChange::default() };
    check("nothing", |_| {});
    check("no bridge", |node| node.routes().delete_link(&find(node, "xebec0")).unwrap());
    check("another address", |node| {
        let bridge = find(node, "xebec0");
        node.routes().delete_address(&bridge, ip(GATEWAY), 32).unwrap();
        node.routes().add_address(&bridge, ip("10.9.9.9"), 24).unwrap();
    });
    check("bridge down", |node| node.routes().change_link(&find(node, "xebec0"), down).unwrap());
    check("link down", |node| node.routes().change_link(&veth(node, 3), down).unwrap());
    check("no route", |node| {
        let link = veth(node, 3);
        let is_it = |it: &Route| it.link == Some(link.index) && it.destination.address.is_ipv4();
        let route = node.routes().routes().unwrap().into_iter().find(is_it).unwrap();
        node.routes().delete_route(&route).unwrap();
    });
    check("no rules", delete_table);
    check("no forwarding", |node| {
        node.namespace.run(|| sysctl::write("net/ipv4/ip_forward", "0").unwrap()).unwrap();
    });
}

#[test]
fn an_attachment_corrects_rules_that_others_removed() {
    let Some(node) = Node::start() else { return };
    let a = node.attach("a", &[host_port(80)]);
    delete_table(&node);
    let b = node.attach("b", &[host_port(81)]);
    let _servers =
        [Server::start(&a.namespace, "0.0.0.0:8080"), Server::start(&b.namespace, "0.0.0.0:8080")];
    assert_eq!(ask(&node.namespace, "127.0.0.1:80").unwrap(), GATEWAY);
    assert_eq!(ask(&node.namespace, "127.0.0.1:81").unwrap(), GATEWAY);
    delete_table(&node);
    node.detach("b");
    assert_eq!(ask(&node.namespace, "127.0.0.1:80").unwrap(), GATEWAY);
}

/// All that can be left in a network namespace.
fn traces(node: &Node) -> (Vec<Link>, Vec<Address>, Vec<Route>, usize, Option<String>) {
    use linux::netlink::{Family, Message, Socket};
    let mut routes = node.routes();
    let mut socket = Socket::open_in(Family::Netfilter, &node.namespace.path()).unwrap();
    let tables = socket.dump(&Message::new("list tables", (10 << 8) | 1, 0, &[0; 4])).unwrap();
    let forwarding = node.namespace.run(|| sysctl::read("net/ipv4/ip_forward").unwrap()).unwrap();
    (
        routes.links().unwrap(),
        routes.addresses().unwrap(),
        routes.routes().unwrap(),
        tables.len(),
        forwarding,
    )
}

#[test]
fn purging_leaves_nothing_behind() {
    for forwarding in ["0", "1"] {
        let Some(mut node) = Node::start() else { return };
        assert_eq!(node.network().purge().len(), 0);
        node.namespace.run(|| sysctl::write("net/ipv4/ip_forward", forwarding).unwrap()).unwrap();
        let before = traces(&node);
        assert_eq!((before.3, before.4.as_deref()), (0, Some(forwarding)));
        node.open();
        let _pods = [node.attach("a", &[]), node.attach("b", &[host_port(80)])];
        node.open();
        assert_ne!(traces(&node), before);
        assert_eq!(node.network().purge().len(), 0);
        assert_eq!(traces(&node), before);
        assert!(!node.directory.path().join("network").exists());
        assert_eq!(node.network().purge().len(), 0);
    }
}
