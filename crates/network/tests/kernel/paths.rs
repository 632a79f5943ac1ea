//! Who reaches whom, and as whom.

use linux::netlink::route::{Destination, Ipv4Setting, LinkChange, RouteSocket};
use linux::network_namespace::NetworkNamespace;
use linux::sysctl;

use crate::places::{GATEWAY, NODE, Node, OTHER_NODES_POD, Server, WORLD, ask, ip, receive, udp};

#[test]
fn pods_and_node_reach_each_other_by_their_own_addresses() {
    let Some(node) = Node::start() else { return };
    let (a, b) = (node.attach("a", &[]), node.attach("b", &[]));
    assert_eq!(
        (a.address.to_string(), b.address.to_string()),
        ("10.244.1.2".into(), "10.244.1.3".into())
    );
    assert_eq!(node.network().gateways(), [ip(GATEWAY)]);
    let _servers = [
        Server::start(&b.namespace, "0.0.0.0:80"),
        Server::start(&node.namespace, &format!("{GATEWAY}:53")),
    ];
    let check = |from: &NetworkNamespace, to: &str, expected: &str| {
        assert_eq!(ask(from, to).unwrap(), expected, "to {to}");
    };
    check(&a.namespace, "10.244.1.3:80", "10.244.1.2");
    check(&b.namespace, "10.244.1.3:80", "10.244.1.3");
    check(&b.namespace, "127.0.0.1:80", "127.0.0.1");
    check(&a.namespace, "10.244.1.1:53", "10.244.1.2");
    check(&node.namespace, "10.244.1.3:80", GATEWAY);
    check(&node.namespace, "10.244.1.1:53", GATEWAY);
}

/// The way back must go through the node's stack, whatever the setting for bridges: else the client
/// would see the pod answer in place of the Service.
#[test]
fn a_service_is_reached_from_every_pod_even_from_the_one_behind_it() {
    for call_iptables in ["0", "1"] {
        let Some(node) = Node::start() else { return };
        let setting = "net/bridge/bridge-nf-call-iptables";
        node.namespace
            .run(|| match sysctl::read(setting).unwrap() {
                Some(_) => sysctl::write(setting, call_iptables).unwrap(),
                None => println!("SKIPPED: this kernel has no {setting}"),
            })
            .unwrap();
        let (a, b) = (node.attach("a", &[]), node.attach("b", &[]));
        let _server = Server::start(&b.namespace, "0.0.0.0:8080");
        node.add_service("10.96.0.10", b.address, 8080);
        assert_eq!(ask(&a.namespace, "10.96.0.10:80").unwrap(), "10.244.1.2");
        assert_eq!(ask(&b.namespace, "10.96.0.10:80").unwrap(), GATEWAY);
        // UDP has no handshake that would hide a wrong source.
        let (client, server) = (udp(&a.namespace, "0.0.0.0:0"), udp(&b.namespace, "0.0.0.0:8080"));
        client.send_to(b"question", "10.96.0.10:53").unwrap();
        let (text, sender) = receive(&server).unwrap();
        assert_eq!((text.as_str(), sender.ip()), ("question", ip("10.244.1.2")));
        server.send_to(b"answer", sender).unwrap();
        let (text, sender) = receive(&client).unwrap();
        assert_eq!((text.as_str(), sender.to_string().as_str()), ("answer", "10.96.0.10:53"));
    }
}

#[test]
fn the_world_sees_the_node_and_the_cluster_sees_the_pod() {
    let Some(node) = Node::start() else { return };
    let world = node.connect_world();
    let pod = node.attach("a", &[]);
    let _servers = [
        Server::start(&world, &format!("{WORLD}:80")),
        Server::start(&world, &format!("{OTHER_NODES_POD}:80")),
        Server::start(&pod.namespace, "0.0.0.0:80"),
    ];
    assert_eq!(ask(&pod.namespace, "192.0.2.2:80").unwrap(), NODE);
    assert_eq!(ask(&pod.namespace, "10.244.2.9:80").unwrap(), "10.244.1.2");
    assert_eq!(ask(&node.namespace, "192.0.2.2:80").unwrap(), NODE);
    // And pods are reached from other nodes by their own addresses.
    assert_eq!(ask(&world, "10.244.1.2:80").unwrap(), WORLD);
}

#[test]
fn who_asks_a_pod_that_is_gone_is_told_at_once() {
    let Some(node) = Node::start() else { return };
    let _world = node.connect_world();
    let (a, _b) = (node.attach("a", &[]), node.attach("b", &[]));
    node.detach("b");
    for place in [&a.namespace, &node.namespace] {
        let err = ask(place, "10.244.1.3:80").unwrap_err();
        assert_eq!(err.kind(), std::io::ErrorKind::HostUnreachable, "{err}");
    }
}

/// A pod with privileges in its own network still cannot speak with another's address.
#[test]
fn a_pod_cannot_send_from_an_address_that_is_not_its_own() {
    // A line in `sysctl.d` changes the setting of every link that comes up, and other software
    // brings such lines.
    for filter in [None, Some("2"), Some("0")] {
        cannot_lie(filter);
    }
}

fn cannot_lie(filter: Option<&str>) {
    let Some(node) = Node::start() else { return };
    let _world = node.connect_world();
    let (a, b) = (node.attach("a", &[]), node.attach("b", &[]));
    let mut routes = RouteSocket::open_in(&a.namespace.path()).unwrap();
    let link = routes.link("eth0").unwrap().unwrap();
    let server = udp(&b.namespace, "0.0.0.0:80");
    let _third = node.attach("c", &[]);
    let veths = node.routes().links().unwrap();
    let veths = veths.iter().filter(|it| it.name.starts_with("veth"));
    let links: Vec<&str> = veths.map(|it| it.name.as_str()).chain(["all"]).collect();
    for (link, value) in links.iter().flat_map(|link| filter.map(|it| (link, it))) {
        let setting = format!("net/ipv4/conf/{link}/rp_filter");
        node.namespace.run(|| sysctl::write(&setting, value).unwrap()).unwrap();
    }
    for stolen in ["10.244.1.4", "10.244.1.77", GATEWAY, NODE, "192.0.2.99", "198.51.100.7"] {
        routes.add_address(&link, ip(stolen), 32).unwrap();
        let liar = udp(&a.namespace, &format!("{stolen}:0"));
        liar.send_to(b"lie", "10.244.1.3:80").unwrap();
    }
    udp(&a.namespace, "10.244.1.2:0").send_to(b"truth", "10.244.1.3:80").unwrap();
    assert_eq!(receive(&server).unwrap().0, "truth", "rp_filter {filter:?}");
}

/// The links of pods let loopback addresses pass, for host ports on 127.0.0.1. Pods must not profit
/// from it.
#[test]
fn a_pod_cannot_reach_the_loopback_of_the_node() {
    let Some(mut node) = Node::start() else { return };
    let pod = node.attach("a", &[]);
    // The pod sends loopback addresses over its link.
    let mut routes = RouteSocket::open_in(&pod.namespace.path()).unwrap();
    let loopback = routes.link("lo").unwrap().unwrap();
    routes.delete_address(&loopback, ip("127.0.0.1"), 8).unwrap();
    let link = routes.link("eth0").unwrap().unwrap();
    routes.set_ipv4(&link, &[(Ipv4Setting::RouteLocalnet, 1)]).unwrap();
    let private = udp(&node.namespace, "127.0.0.1:80");
    let public = udp(&node.namespace, &format!("{GATEWAY}:80"));
    let client = udp(&pod.namespace, "10.244.1.2:0");
    let send = |text: &str| {
        client.send_to(text.as_bytes(), "127.0.0.1:80").unwrap();
        client.send_to(text.as_bytes(), format!("{GATEWAY}:80")).unwrap();
        assert_eq!(receive(&public).unwrap().0, text);
    };
    private.set_nonblocking(true).unwrap();
    send("with the rules");
    assert_eq!(receive(&private).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    // Without the guard it would get there: the test is able to fail.
    delete_table(&node);
    send("without the rules");
    assert_eq!(receive(&private).unwrap().0, "without the rules");
    node.open();
    send("with the rules again");
    assert_eq!(receive(&private).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

pub(crate) fn delete_table(node: &Node) {
    use linux::netlink::nftables::{Nftables, TableFamily, TableId};
    let id = TableId::new(TableFamily::Ip, crate::places::cluster().table("network"));
    node.namespace.run(|| Nftables::open(id).unwrap().purge().unwrap()).unwrap();
}

#[test]
fn pods_have_one_way_out_and_no_neighbors_to_ask_for() {
    let Some(node) = Node::start() else { return };
    let pod = node.attach("a", &[]);
    let mut routes = RouteSocket::open_in(&pod.namespace.path()).unwrap();
    let link = routes.link("eth0").unwrap().unwrap();
    assert_eq!(link.address.unwrap().to_string(), "0a:58:0a:f4:01:02");
    assert!(link.is_up && link.mtu == 1500 && routes.link("lo").unwrap().unwrap().is_up);
    let mut found = routes.routes().unwrap();
    found.retain(|it| it.destination.address.is_ipv4());
    let shown: Vec<_> = found.iter().map(|it| (it.destination, it.gateway)).collect();
    let gateway = Destination::host(ip(GATEWAY));
    assert_eq!(shown, [(Destination::DEFAULT, Some(ip(GATEWAY))), (gateway, None)]);
    let addresses = routes.addresses().unwrap();
    let own = addresses.iter().find(|it| it.link == link.index && it.address.is_ipv4()).unwrap();
    assert_eq!((own.address, own.prefix_length), (ip("10.244.1.2"), 32));
}

#[test]
fn links_are_as_wide_as_the_way_to_the_world_or_as_configured() {
    let Some(mut node) = Node::start() else { return };
    let _world = node.connect_world();
    let mut routes = node.routes();
    let uplink = routes.link("uplink").unwrap().unwrap();
    routes.change_link(&uplink, LinkChange { mtu: Some(1420), ..LinkChange::default() }).unwrap();
    let mtu_of = |node: &Node, name: &str| {
        let pod = node.attach(name, &[]);
        let mut routes = RouteSocket::open_in(&pod.namespace.path()).unwrap();
        routes.link("eth0").unwrap().unwrap().mtu
    };
    node.open();
    assert_eq!(mtu_of(&node, "a"), 1420);
    node.open_with(network::Config { mtu: Some(1300), ..node.config() }).unwrap();
    assert_eq!(mtu_of(&node, "b"), 1300);
}
