//! Pods with IPv6 addresses, alone or beside IPv4: who reaches whom, and as whom; host ports; what
//! pods cannot do; restarts and leaving.

use std::io::ErrorKind;
use std::net::IpAddr;

use linux::netlink::route::{Destination, LinkChange, Route, RouteSocket, Scope};
use linux::network_namespace::NetworkNamespace;
use linux::sysctl;
use node_api::network::{HostPort, Protocol};

use crate::places::{
    Families, GATEWAY, GATEWAY_6, NODE, NODE_6, Node, OTHER_NODES_POD_6, Server, WORLD, WORLD_6,
    ask, deliver, ip, receive, udp,
};

const POD: &str = "fd00:10:244:1::2";
const OTHER_POD: &str = "fd00:10:244:1::3";

fn port(protocol: Protocol, address: Option<&str>, host_port: u16) -> HostPort {
    let host_address = address.map(ip);
    HostPort { protocol, host_address, host_port, container_port: 8080 }
}

fn check(from: &NetworkNamespace, to: &str, expected: &str) {
    let seen = ask(from, to);
    assert_eq!(seen.as_deref().ok(), Some(expected), "to {to}: {seen:?}");
}

#[test]
fn pods_have_an_address_of_each_family_in_the_order_of_the_ranges() {
    let check = |families: Families, expected: &[&str], gateways: &[&str]| {
        let Some(node) = Node::start_with(families) else { return };
        let expected: Vec<IpAddr> = expected.iter().map(|it| ip(it)).collect();
        let gateways: Vec<IpAddr> = gateways.iter().map(|it| ip(it)).collect();
        assert_eq!(node.attach("a", &[]).addresses, expected);
        assert_eq!(node.network().gateways(), gateways);
    };
    check(Families::V4, &["10.244.1.2"], &[GATEWAY]);
    check(Families::V6, &[POD], &[GATEWAY_6]);
    check(Families::Both, &["10.244.1.2", POD], &[GATEWAY, GATEWAY_6]);
}

#[test]
fn pods_node_and_world_reach_each_other_in_every_family() {
    for families in [Families::V6, Families::Both] {
        let Some(node) = Node::start_with(families) else { return };
        let world = node.connect_world();
        let (a, b) = (node.attach("a", &[]), node.attach("b", &[]));
        let _servers = [
            Server::start(&b.namespace, "[::]:80"),
            Server::start(&node.namespace, &format!("[{GATEWAY_6}]:53")),
            Server::start(&world, &format!("[{WORLD_6}]:80")),
            Server::start(&world, &format!("[{OTHER_NODES_POD_6}]:80")),
        ];
        check(&a.namespace, &format!("[{OTHER_POD}]:80"), POD);
        check(&b.namespace, &format!("[{OTHER_POD}]:80"), OTHER_POD);
        check(&b.namespace, "[::1]:80", "::1");
        check(&a.namespace, &format!("[{GATEWAY_6}]:53"), POD);
        check(&node.namespace, &format!("[{OTHER_POD}]:80"), GATEWAY_6);
        check(&a.namespace, &format!("[{WORLD_6}]:80"), NODE_6);
        check(&a.namespace, &format!("[{OTHER_NODES_POD_6}]:80"), POD);
        // Of its addresses the world takes the one that is most like the other's (RFC 6724).
        check(&world, &format!("[{OTHER_POD}]:80"), OTHER_NODES_POD_6);
        if families == Families::Both {
            // The listener is of both families; it names IPv4 clients in its own way.
            let _server = Server::start(&b.namespace, "10.244.1.3:81");
            check(&a.namespace, "10.244.1.3:81", "10.244.1.2");
        }
    }
}

#[test]
fn a_service_of_ipv6_is_reached_even_from_the_pod_behind_it() {
    let Some(node) = Node::start_with(Families::Both) else { return };
    let (a, b) = (node.attach("a", &[]), node.attach("b", &[]));
    let _server = Server::start(&b.namespace, "[::]:8080");
    node.add_service("fd00:10:96::a", ip(OTHER_POD), 8080);
    check(&a.namespace, "[fd00:10:96::a]:80", POD);
    check(&b.namespace, "[fd00:10:96::a]:80", GATEWAY_6);
}

#[test]
fn a_host_port_is_reached_in_both_families_from_everywhere() {
    let Some(node) = Node::start_with(Families::Both) else { return };
    let world = node.connect_world();
    let ports = [
        port(Protocol::Tcp, None, 80),
        port(Protocol::Tcp, Some("::"), 81),
        port(Protocol::Tcp, Some("0.0.0.0"), 82),
        port(Protocol::Tcp, Some(NODE_6), 83),
    ];
    let pod = node.attach("a", &ports);
    let other = node.attach("b", &[]);
    let _servers = [
        Server::start(&pod.namespace, &format!("[{POD}]:8080")),
        Server::start(&pod.namespace, "10.244.1.2:8080"),
    ];
    let check_refused = |to: &str| {
        let err = ask(&world, to).unwrap_err();
        assert_eq!(err.kind(), ErrorKind::ConnectionRefused, "{to}");
    };
    check(&world, &format!("[{NODE_6}]:80"), WORLD_6);
    check(&world, &format!("{NODE}:80"), WORLD);
    check(&node.namespace, &format!("[{NODE_6}]:80"), NODE_6);
    check(&node.namespace, &format!("[{GATEWAY_6}]:80"), GATEWAY_6);
    check(&other.namespace, &format!("[{NODE_6}]:80"), OTHER_POD);
    check(&pod.namespace, &format!("[{NODE_6}]:80"), GATEWAY_6);
    check(&world, &format!("[{NODE_6}]:81"), WORLD_6);
    check_refused(&format!("{NODE}:81"));
    check(&world, &format!("{NODE}:82"), WORLD);
    check_refused(&format!("[{NODE_6}]:82"));
    check(&world, &format!("[{NODE_6}]:83"), WORLD_6);
    // The kernel does not route answers to ::1: it is the node's own, and nobody waits in vain.
    let err = ask(&node.namespace, "[::1]:80").unwrap_err();
    assert_eq!(err.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn a_udp_client_follows_the_host_port_of_ipv6_from_pod_to_pod() {
    let Some(node) = Node::start_with(Families::V6) else { return };
    let world = node.connect_world();
    let client = udp(&world, &format!("[{WORLD_6}]:0"));
    client.connect(format!("[{NODE_6}]:53")).unwrap();
    client.send(b"too early").unwrap();
    let _ = receive(&client).unwrap_err();
    for name in ["a", "b"] {
        let pod = node.attach(name, &[port(Protocol::Udp, None, 53)]);
        let server = udp(&pod.namespace, "[::]:8080");
        deliver(&client, name, &server);
        node.detach(name);
    }
}

#[test]
fn who_asks_an_address_of_no_pod_is_told_at_once() {
    let Some(node) = Node::start_with(Families::V6) else { return };
    let _world = node.connect_world();
    let a = node.attach("a", &[]);
    for place in [&a.namespace, &node.namespace] {
        let kind = ask(place, &format!("[{OTHER_POD}]:80")).unwrap_err().kind();
        let is_told = matches!(kind, ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable);
        assert!(is_told, "{kind}");
    }
}

/// There is no `rp_filter` for IPv6: the rule alone stands between a pod and others' names.
#[test]
fn a_pod_cannot_send_from_an_address_that_is_not_its_own() {
    let Some(mut node) = Node::start_with(Families::Both) else { return };
    let _world = node.connect_world();
    let (a, b) = (node.attach("a", &[]), node.attach("b", &[]));
    let _third = node.attach("c", &[]);
    let mut routes = RouteSocket::open_in(&a.namespace.path()).unwrap();
    let link = routes.link("eth0").unwrap().unwrap();
    let server = udp(&b.namespace, "[::]:80");
    let to = format!("[{OTHER_POD}]:80");
    let stolen = ["fd00:10:244:1::4", "fd00:10:244:1::77", GATEWAY_6, NODE_6, "2001:db8:9::9"];
    let mut lie = || {
        for address in stolen {
            routes.add_address(&link, ip(address), 128).unwrap();
            udp(&a.namespace, &format!("[{address}]:0")).send_to(b"lie", &to).unwrap();
        }
        udp(&a.namespace, &format!("[{POD}]:0")).send_to(b"truth", &to).unwrap();
        receive(&server).unwrap().0
    };
    assert_eq!(lie(), "truth");
    // Without the rule it would be heard: the test is able to fail.
    delete_table(&node);
    assert_eq!(lie(), "lie");
    node.open();
}

fn delete_table(node: &Node) {
    use linux::netlink::nftables::{Nftables, TableFamily, TableId};
    let id = TableId::new(TableFamily::Ip6, crate::places::cluster().table("network"));
    node.namespace.run(|| Nftables::open(id).unwrap().purge().unwrap()).unwrap();
}

#[test]
fn pods_have_one_way_out_in_each_family_and_the_hosts_end_no_address() {
    let Some(node) = Node::start_with(Families::Both) else { return };
    let pod = node.attach("a", &[]);
    let mut routes = RouteSocket::open_in(&pod.namespace.path()).unwrap();
    let found = routes.routes().unwrap();
    let gateways: Vec<_> =
        found.iter().filter_map(|it| Some((it.destination, it.gateway?))).collect();
    let expected =
        [(Destination::DEFAULT, ip(GATEWAY)), (Destination::DEFAULT_IPV6, ip(GATEWAY_6))];
    assert_eq!(gateways, expected);
    let mut host = node.routes();
    let links = host.links().unwrap();
    let veth = links.iter().find(|it| it.name.starts_with("veth")).unwrap();
    let addresses = host.addresses().unwrap();
    let of_link: Vec<_> = addresses.iter().filter(|it| it.link == veth.index).collect();
    assert!(of_link.is_empty(), "{of_link:?}");
}

#[test]
fn a_family_that_pods_do_not_have_is_closed_to_them() {
    let Some(node) = Node::start_with(Families::V6) else { return };
    let pod = node.attach("a", &[]);
    // A pod that gives itself an address of IPv4, and knows its neighbor.
    let mut routes = RouteSocket::open_in(&pod.namespace.path()).unwrap();
    let link = routes.link("eth0").unwrap().unwrap();
    let veths = node.routes().links().unwrap();
    let veth = veths.iter().find(|it| it.name.starts_with("veth")).unwrap();
    routes.add_address(&link, ip("198.51.100.2"), 24).unwrap();
    let neighbor = linux::netlink::route::Neighbor {
        address: ip("198.51.100.1"),
        hardware_address: veth.address.unwrap(),
    };
    routes.put_neighbor(&link, neighbor).unwrap();
    node.routes().add_address(veth, ip("198.51.100.1"), 24).unwrap();
    let server = udp(&node.namespace, "0.0.0.0:80");
    let own = udp(&node.namespace, "0.0.0.0:0");
    udp(&pod.namespace, "198.51.100.2:0").send_to(b"from the pod", "198.51.100.1:80").unwrap();
    own.send_to(b"from the node", "127.0.0.1:80").unwrap();
    assert_eq!(receive(&server).unwrap().0, "from the node");
}

#[test]
fn opening_again_corrects_what_others_broke() {
    let check_damage = |what: &str, damage: fn(&Node)| {
        let Some(mut node) = Node::start_with(Families::Both) else { return };
        let (a, b) = (node.attach("a", &[]), node.attach("b", &[port(Protocol::Tcp, None, 80)]));
        damage(&node);
        node.open();
        let _server = Server::start(&b.namespace, "[::]:8080");
        check(&a.namespace, &format!("[{OTHER_POD}]:8080"), POD);
        check(&node.namespace, &format!("[{OTHER_POD}]:8080"), GATEWAY_6);
        check(&node.namespace, &format!("[{GATEWAY_6}]:80"), GATEWAY_6);
        let mut addresses = node.routes().addresses().unwrap();
        let bridge = node.routes().link("xebec0").unwrap().unwrap();
        addresses.retain(|it| it.link == bridge.index && it.scope == 0);
        assert_eq!(addresses.len(), 2, "{what}: {addresses:?}");
    };
    check_damage("nothing", |_| {});
    check_damage("bridge", |node| {
        let bridge = node.routes().link("xebec0").unwrap().unwrap();
        node.routes().delete_link(&bridge).unwrap();
    });
    check_damage("address", |node| {
        let bridge = node.routes().link("xebec0").unwrap().unwrap();
        node.routes().delete_address(&bridge, ip(GATEWAY_6), 128).unwrap();
        node.routes().add_address(&bridge, ip("fd00:9::9"), 64).unwrap();
    });
    check_damage("links down", |node| {
        let down = LinkChange { is_up: Some(false), ..LinkChange::default() };
        for link in node.routes().links().unwrap().iter().filter(|it| it.name != "lo") {
            node.routes().change_link(link, down).unwrap();
        }
    });
    check_damage("routes", |node| {
        let routes = node.routes().routes().unwrap();
        for route in routes.iter().filter(|it| it.protocol == 120) {
            node.routes().delete_route(route).unwrap();
        }
    });
    check_damage("rules", delete_table);
    check_damage("forwarding", |node| {
        let setting = "net/ipv6/conf/all/forwarding";
        node.namespace.run(|| sysctl::write(setting, "0").unwrap()).unwrap();
    });
}

#[test]
fn purging_puts_back_what_was_of_both_families() {
    let Some(node) = Node::start_with(Families::Both) else { return };
    let _pod = node.attach("a", &[]);
    let read = |name: &'static str| node.namespace.run(|| sysctl::read(name).unwrap()).unwrap();
    let forwarding =
        || ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"].map(read).map(Option::unwrap);
    assert_eq!(forwarding(), ["1", "1"]);
    assert_eq!(node.network().purge().len(), 0);
    assert_eq!(forwarding(), ["0", "0"]);
    let routes = node.routes().routes().unwrap();
    assert!(!routes.iter().any(|it| it.protocol == 120), "{routes:?}");
    let links = node.routes().links().unwrap();
    assert!(links.iter().all(|it| it.name == "lo" || it.group == 0), "{links:?}");
}

/// A machine that forwards stops listening to routers, unless it is told to go on.
#[test]
fn a_machine_that_learns_its_way_from_routers_goes_on_to() {
    let Some(mut node) = Node::start_with(Families::Both) else { return };
    assert_eq!(node.network().purge().len(), 0);
    let _world = node.connect_world();
    let learned = Route {
        destination: Destination { address: ip("2001:db8:5::"), prefix_length: 64 },
        link: node.routes().link("uplink").unwrap().map(|it| it.index),
        is_blackhole: false,
        gateway: Some(ip(WORLD_6)),
        is_onlink: false,
        source: None,
        scope: Scope::Universe,
        metric: 0,
        mtu: None,
        protocol: Route::ADVERTISED,
    };
    node.routes().put_route(&learned).unwrap();
    let setting = "net/ipv6/conf/uplink/accept_ra";
    let accepts = |node: &Node| node.namespace.run(|| sysctl::read(setting).unwrap()).unwrap();
    assert_eq!(accepts(&node).as_deref(), Some("1"));
    node.open();
    assert_eq!(accepts(&node).as_deref(), Some("2"));
    node.open();
    assert_eq!(node.network().purge().len(), 0);
    assert_eq!(accepts(&node).as_deref(), Some("1"));
    // Where it was told not to, somebody else does.
    node.namespace.run(|| sysctl::write(setting, "0").unwrap()).unwrap();
    node.open();
    assert_eq!(accepts(&node).as_deref(), Some("0"));
}
