//! Links, addresses and routes on a real kernel: each test has network namespaces of its own.

#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]
#![expect(clippy::print_stderr, reason = "a skipped test says so")]

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;

use linux::netlink::route::{
    Destination, HardwareAddress, Ipv4Setting, LinkChange, Namespace, Neighbor, Peer, Route,
    RouteSocket, Scope, VethPair,
};
use linux::network_namespace::NetworkNamespace;
use linux::sysctl;
use rustix::io::Errno;

const MAC_1: HardwareAddress = HardwareAddress([2, 0, 0, 0, 0, 1]);
const MAC_2: HardwareAddress = HardwareAddress([2, 0, 0, 0, 0, 2]);

fn namespace() -> Option<(NetworkNamespace, RouteSocket)> {
    let namespace = NetworkNamespace::create()
        .map_err(|err| eprintln!("SKIPPED: {err}: {}", err.source))
        .ok()?;
    let socket = RouteSocket::open_in(&namespace.path()).unwrap();
    Some((namespace, socket))
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn a_bridge_is_made_once_changed_and_deleted() {
    let Some((_namespace, mut socket)) = namespace() else { return };
    assert_eq!(socket.link("br0").unwrap(), None);
    socket.create_bridge("br0", 7, 1400).unwrap();
    assert!(socket.create_bridge("br0", 8, 1300).unwrap_err().is(Errno::EXIST));
    let bridge = socket.link("br0").unwrap().unwrap();
    assert_eq!((bridge.kind.as_deref(), bridge.mtu, bridge.is_up), (Some("bridge"), 1400, true));
    assert_eq!(bridge.group, 7);
    let change = LinkChange { is_up: Some(false), mtu: Some(1200), ..LinkChange::default() };
    socket.change_link(&bridge, change).unwrap();
    let bridge = socket.link("br0").unwrap().unwrap();
    assert_eq!((bridge.mtu, bridge.is_up), (1200, false));
    assert!(socket.links().unwrap().contains(&bridge));
    socket.delete_link(&bridge).unwrap();
    socket.delete_link(&bridge).unwrap();
    assert_eq!(socket.link("br0").unwrap(), None);
}

#[test]
fn a_pair_has_its_other_end_in_another_namespace() {
    let Some((_host, mut host)) = namespace() else { return };
    let Some((pod_namespace, mut pod)) = namespace() else { return };
    let file = File::open(pod_namespace.path()).unwrap();
    let namespace = Namespace::File(file.as_fd());
    let peer = Peer { name: "eth0", address: MAC_2, namespace };
    let pair = VethPair { name: "veth1", address: MAC_1, group: 77, mtu: 1380, peer };
    host.create_veth(&pair).unwrap();
    let far = pod.link("eth0").unwrap().unwrap();
    pod.change_link(&far, LinkChange { is_up: Some(true), ..LinkChange::default() }).unwrap();
    let near = host.link("veth1").unwrap().unwrap();
    let far = pod.link("eth0").unwrap().unwrap();
    assert_eq!((near.address, near.group, near.mtu), (Some(MAC_1), 77, 1380));
    assert_eq!((far.address, far.group, far.mtu), (Some(MAC_2), 0, 1380));
    assert_eq!((near.kind.as_deref(), far.kind.as_deref()), (Some("veth"), Some("veth")));
    assert!(near.is_up && near.has_carrier && far.is_up && far.has_carrier);
    assert!(host.create_veth(&pair).unwrap_err().is(Errno::EXIST));
    host.create_bridge("br0", 0, 1500).unwrap();
    let bridge = host.link("br0").unwrap().unwrap();
    let change = LinkChange { master: Some(bridge.index), ..LinkChange::default() };
    host.change_link(&near, change).unwrap();
    assert_eq!(host.link("veth1").unwrap().unwrap().master, Some(bridge.index));
    host.delete_link(&near).unwrap();
    assert_eq!(pod.link("eth0").unwrap(), None);
}

#[test]
fn settings_of_a_link_are_those_of_proc() {
    let Some((namespace, mut socket)) = namespace() else { return };
    socket.create_bridge("br0", 0, 1500).unwrap();
    let link = socket.link("br0").unwrap().unwrap();
    let settings = [(Ipv4Setting::RouteLocalnet, 1), (Ipv4Setting::ReversePathFilter, 1)];
    socket.set_ipv4(&link, &settings).unwrap();
    namespace
        .run(|| {
            let read = |name| sysctl::read(&format!("net/ipv4/conf/br0/{name}")).unwrap().unwrap();
            assert_eq!((read("route_localnet"), read("rp_filter")), ("1".into(), "1".into()));
            sysctl::write("net/ipv4/conf/br0/forwarding", "1").unwrap();
            assert_eq!(read("forwarding"), "1");
            assert_eq!(sysctl::read("net/ipv4/none").unwrap(), None);
            assert!(sysctl::write("net/ipv4/none", "1").is_err());
        })
        .unwrap();
    socket.set_ipv4(&link, &[(Ipv4Setting::Forwarding, 0)]).unwrap();
    let forwarding = namespace.run(|| sysctl::read("net/ipv4/conf/br0/forwarding").unwrap());
    assert_eq!(forwarding.unwrap().as_deref(), Some("0"));
}

#[test]
fn addresses_come_and_go_any_number_of_times() {
    let Some((_namespace, mut socket)) = namespace() else { return };
    socket.create_bridge("br0", 0, 1500).unwrap();
    let link = socket.link("br0").unwrap().unwrap();
    let of_link = |socket: &mut RouteSocket| {
        let mut addresses = socket.addresses().unwrap();
        addresses.retain(|it| it.link == link.index && it.address.is_ipv4());
        addresses.iter().map(|it| (it.address, it.prefix_length)).collect::<Vec<_>>()
    };
    for _ in 0..2 {
        socket.add_address(&link, ip("10.1.0.1"), 24).unwrap();
        socket.add_address(&link, ip("10.2.0.1"), 32).unwrap();
    }
    assert_eq!(of_link(&mut socket), [(ip("10.1.0.1"), 24), (ip("10.2.0.1"), 32)]);
    for _ in 0..2 {
        socket.delete_address(&link, ip("10.1.0.1"), 24).unwrap();
    }
    assert_eq!(of_link(&mut socket), [(ip("10.2.0.1"), 32)]);
}

#[test]
fn routes_are_put_read_and_deleted() {
    let Some((_namespace, mut socket)) = namespace() else { return };
    assert_eq!(socket.default_interface().unwrap(), None);
    socket.create_bridge("br0", 0, 1450).unwrap();
    let link = socket.link("br0").unwrap().unwrap();
    socket.add_address(&link, ip("10.1.0.7"), 32).unwrap();
    let gateway = Route {
        destination: Destination::host(ip("10.1.0.1")),
        link: Some(link.index),
        is_blackhole: false,
        gateway: None,
        is_onlink: false,
        source: None,
        scope: Scope::Link,
        metric: 0,
        mtu: None,
        protocol: Route::BY_HAND,
    };
    let default = Route {
        destination: Destination::DEFAULT,
        gateway: Some(ip("10.1.0.1")),
        scope: Scope::Universe,
        ..gateway
    };
    for _ in 0..2 {
        socket.put_route(&gateway).unwrap();
        socket.put_route(&default).unwrap();
    }
    let mut routes = socket.routes().unwrap();
    routes.retain(|it| it.destination.address.is_ipv4());
    assert_eq!(routes, [default, gateway]);
    let interface = socket.default_interface().unwrap().unwrap();
    assert_eq!((interface.name.as_str(), interface.mtu), ("br0", 1450));
    assert_eq!(interface.address, Ipv4Addr::new(10, 1, 0, 7));
    let nowhere = Route {
        destination: Destination { address: ip("10.9.0.0"), prefix_length: 16 },
        link: None,
        scope: Scope::Universe,
        ..gateway
    };
    for _ in 0..2 {
        socket.put_route(&nowhere).unwrap();
    }
    assert!(socket.routes().unwrap().contains(&nowhere));
    for _ in 0..2 {
        socket.delete_route(&nowhere).unwrap();
    }
    assert!(!socket.routes().unwrap().contains(&nowhere));
    // A better default route with a source of its own.
    socket.put_route(&Route { metric: 100, ..default }).unwrap();
    socket.add_address(&link, ip("10.1.0.8"), 32).unwrap();
    let better = Route { source: Some(ip("10.1.0.8")), ..default };
    socket.put_route(&better).unwrap();
    let interface = socket.default_interface().unwrap().unwrap();
    assert_eq!(interface.address, Ipv4Addr::new(10, 1, 0, 8));
    for _ in 0..2 {
        socket.delete_route(&better).unwrap();
    }
    let interface = socket.default_interface().unwrap().unwrap();
    assert_eq!(interface.address, Ipv4Addr::new(10, 1, 0, 7));
}

#[test]
fn routes_that_are_silent_and_routes_that_are_narrow() {
    let Some((_namespace, mut socket)) = namespace() else { return };
    socket.create_bridge("br0", 0, 1450).unwrap();
    let nowhere = Route {
        destination: Destination { address: ip("10.9.0.0"), prefix_length: 16 },
        link: None,
        is_blackhole: false,
        gateway: None,
        is_onlink: false,
        source: None,
        scope: Scope::Universe,
        metric: 0,
        mtu: None,
        protocol: Route::BY_HAND,
    };
    // What is sent there disappears, in place of being refused.
    let blackhole = Route { is_blackhole: true, protocol: Route::OF_BIRD, ..nowhere };
    for it in [nowhere, blackhole] {
        socket.put_route(&it).unwrap();
    }
    let routes = socket.routes().unwrap();
    assert!(routes.contains(&blackhole) && !routes.contains(&nowhere), "{routes:?}");
    socket.delete_route(&blackhole).unwrap();
    assert!(!socket.routes().unwrap().contains(&blackhole));
    let link = Some(socket.link("br0").unwrap().unwrap().index);
    for address in [ip("10.8.0.0"), ip("fd00:8::")] {
        let destination = Destination { address, prefix_length: 32 };
        let (mtu, scope) = (Some(1300), Scope::Link);
        let narrow = Route { destination, link, mtu, scope, metric: 7, ..nowhere };
        socket.put_route(&narrow).unwrap();
        let routes = socket.routes().unwrap();
        let found = routes.iter().find(|it| it.destination == destination).unwrap();
        assert_eq!(found.mtu, mtu);
        socket.delete_route(&narrow).unwrap();
    }
}

#[test]
fn packets_flow_over_host_routes_and_fixed_neighbors() {
    let Some((host_namespace, mut host)) = namespace() else { return };
    let Some((pod_namespace, mut pod)) = namespace() else { return };
    let file = File::open(pod_namespace.path()).unwrap();
    let namespace = Namespace::File(file.as_fd());
    let peer = Peer { name: "eth0", address: MAC_2, namespace };
    let pair = VethPair { name: "veth1", address: MAC_1, group: 1, mtu: 1500, peer };
    host.create_veth(&pair).unwrap();
    for (socket, name, own, other, mac) in [
        (&mut host, "veth1", ip("10.1.0.1"), ip("10.1.0.2"), MAC_2),
        (&mut pod, "eth0", ip("10.1.0.2"), ip("10.1.0.1"), MAC_1),
    ] {
        let link = socket.link(name).unwrap().unwrap();
        let up = LinkChange { is_up: Some(true), ..LinkChange::default() };
        socket.change_link(&link, up).unwrap();
        socket.add_address(&link, own, 32).unwrap();
        let neighbor = Neighbor { address: other, hardware_address: mac };
        socket.put_neighbor(&link, neighbor).unwrap();
        let route = Route {
            destination: Destination::host(other),
            link: Some(link.index),
            is_blackhole: false,
            gateway: None,
            is_onlink: false,
            source: None,
            scope: Scope::Link,
            metric: 0,
            mtu: None,
            protocol: Route::BY_HAND,
        };
        socket.put_route(&route).unwrap();
    }
    let listener = pod_namespace.run(|| TcpListener::bind("10.1.0.2:80").unwrap()).unwrap();
    let stream = host_namespace.run(|| TcpStream::connect("10.1.0.2:80").unwrap()).unwrap();
    let (_, client) = listener.accept().unwrap();
    assert_eq!(client, stream.local_addr().unwrap());
    assert_eq!(client.ip(), ip("10.1.0.1"));
}
