//! Several nodes, each a network namespace with a network of its own, joined by one switch: pods of
//! different nodes reach each other by their own addresses, in both families.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::sync::Arc;

use linux::netlink::route::{
    Destination, HardwareAddress, LinkChange, Namespace, Peer as End, RouteSocket, VethPair,
};
use linux::network_namespace::NetworkNamespace;
use network::{Config, HOST_GW, NONE, Network, Peer};
use node_api::network::Attachment;
use node_api::{PodNetwork as _, SandboxId};

use crate::places::{
    At, Pod, Server, ask, bring_up_loopback, cluster, configure, ip, pod_ref, put_route, range,
};

/// A switch in a namespace of its own, which is the world as well: 192.0.2.100 and 2001:db8::100.
struct Switch {
    world: NetworkNamespace,
}

const WORLD: &str = "192.0.2.100";
const WORLD_6: &str = "2001:db8::100";

/// The n-th has pods in 10.244.n.0/24 and fd00:10:244:n::/64, and is at 192.0.2.n and 2001:db8::n.
struct Member {
    n: u8,
    namespace: NetworkNamespace,
    network: Network,
    runtime: tokio::runtime::Runtime,
    _directory: tempfile::TempDir,
}

impl Switch {
    fn start() -> Option<Self> {
        let world = match NetworkNamespace::create() {
            Ok(world) => world,
            Err(err) => {
                println!("SKIPPED: {err}: {}", err.source);
                return None;
            }
        };
        let has_ipv6 = || linux::sysctl::read("net/ipv6/conf/all/disable_ipv6").unwrap().is_some();
        if !world.run(has_ipv6).unwrap() {
            println!("SKIPPED: this kernel has no IPv6");
            return None;
        }
        bring_up_loopback(&world);
        let mut routes = RouteSocket::open_in(&world.path()).unwrap();
        routes.create_bridge("switch", 0, 1500).unwrap();
        configure(&mut routes, "switch", &[WORLD]);
        configure(&mut routes, "switch", &[WORLD_6]);
        Some(Self { world })
    }

    fn add_node(&self, n: u8, backend: &str) -> Member {
        let namespace = NetworkNamespace::create().unwrap();
        bring_up_loopback(&namespace);
        self.plug_in(n, &namespace);
        let directory = tempfile::tempdir().unwrap();
        let config = Config {
            cluster: cluster(),
            backend: backend.to_owned(),
            bridge: "xebec0".into(),
            ranges: vec![
                range(&format!("10.244.{n}.0/24"), "10.244.0.0/16"),
                range(&format!("fd00:10:244:{n}::/64"), "fd00:10:244::/56"),
            ],
            directory: directory.path().join("network"),
            settings: directory.path().to_owned(),
            mtu: None,
        };
        let network = namespace.run(|| Network::open(config)).unwrap().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        Member { n, namespace, network, runtime, _directory: directory }
    }

    fn plug_in(&self, n: u8, node: &NetworkNamespace) {
        let mut switch = RouteSocket::open_in(&self.world.path()).unwrap();
        let file = File::open(node.path()).unwrap();
        let name = format!("port{n}");
        let pair = VethPair {
            name: &name,
            address: HardwareAddress([2, 0, 0, 0, 1, n]),
            group: 0,
            mtu: 1500,
            peer: End {
                name: "uplink",
                address: HardwareAddress([2, 0, 0, 0, 2, n]),
                namespace: Namespace::File(file.as_fd()),
            },
        };
        switch.create_veth(&pair).unwrap();
        let bridge = switch.link("switch").unwrap().unwrap();
        let port = switch.link(&name).unwrap().unwrap();
        let change = LinkChange { master: Some(bridge.index), ..LinkChange::default() };
        switch.change_link(&port, change).unwrap();
        let mut routes = RouteSocket::open_in(&node.path()).unwrap();
        configure(&mut routes, "uplink", &[&format!("192.0.2.{n}")]);
        configure(&mut routes, "uplink", &[&format!("2001:db8::{n}")]);
        for gateway in [WORLD, WORLD_6].map(ip) {
            put_route(&mut routes, "uplink", Destination::default_of(gateway), gateway);
        }
    }
}

impl Member {
    fn as_peer(&self) -> Peer {
        let n = self.n;
        Peer {
            node: format!("node-{n}"),
            pod_cidrs: [format!("10.244.{n}.0/24"), format!("fd00:10:244:{n}::/64")]
                .map(|it| it.parse().unwrap())
                .into(),
            addresses: vec![ip(&format!("192.0.2.{n}")), ip(&format!("2001:db8::{n}"))],
            public_addresses: Vec::new(),
            public_key: None,
        }
    }

    fn set_peers(&self, peers: &[&Self]) -> Result<(), node_api::Error> {
        let peers = peers.iter().map(|it| it.as_peer()).collect();
        self.runtime.block_on(self.network.set_peers(peers))
    }

    fn attach(&self, name: &str) -> Pod {
        let namespace = NetworkNamespace::create().unwrap();
        let attachment = Attachment {
            pod: pod_ref(name),
            sandbox: SandboxId::new(name),
            namespace: Arc::new(At(namespace.path())),
            host_ports: Vec::new(),
        };
        let addresses = self.runtime.block_on(self.network.attach(attachment)).unwrap();
        Pod { namespace, address: addresses[0], addresses }
    }

    fn routes(&self) -> RouteSocket {
        RouteSocket::open_in(&self.namespace.path()).unwrap()
    }
}

/// The pod asks the other at both its addresses, and is seen as itself.
fn check(from: &Pod, to: &Pod) {
    for (own, other) in from.addresses.iter().zip(&to.addresses) {
        let address = std::net::SocketAddr::new(*other, 80).to_string();
        let seen = ask(&from.namespace, &address);
        assert_eq!(seen.as_deref().ok(), Some(own.to_string().as_str()), "{address}: {seen:?}");
    }
}

fn serve(pod: &Pod) {
    for address in &pod.addresses {
        Server::start(&pod.namespace, &std::net::SocketAddr::new(*address, 80).to_string());
    }
}

#[test]
fn pods_of_different_nodes_reach_each_other_as_themselves_and_the_world_as_their_node() {
    let Some(switch) = Switch::start() else { return };
    let nodes = [1, 2, 3].map(|it| switch.add_node(it, HOST_GW));
    for node in &nodes {
        let others: Vec<_> = nodes.iter().filter(|it| it.n != node.n).collect();
        node.set_peers(&others).unwrap();
    }
    let pods = nodes.each_ref().map(|it| it.attach("a"));
    pods.iter().for_each(serve);
    for from in &pods {
        for to in &pods {
            check(from, to);
        }
    }
    Server::start(&switch.world, &format!("{WORLD}:80"));
    Server::start(&switch.world, &format!("[{WORLD_6}]:80"));
    for (node, pod) in nodes.iter().zip(&pods) {
        let n = node.n;
        let seen = ask(&pod.namespace, &format!("{WORLD}:80")).unwrap();
        assert_eq!(seen, format!("192.0.2.{n}"));
        let seen = ask(&pod.namespace, &format!("[{WORLD_6}]:80")).unwrap();
        assert_eq!(seen, format!("2001:db8::{n}"));
    }
}

#[test]
fn a_peer_that_goes_takes_its_routes_along_and_others_keep_theirs() {
    let Some(switch) = Switch::start() else { return };
    let [one, two, three] = [1, 2, 3].map(|it| switch.add_node(it, HOST_GW));
    let of_peers = || {
        let routes = one.routes().routes().unwrap();
        let ours = routes.iter().filter(|it| it.protocol == 120 && it.gateway.is_some());
        let mut shown: Vec<_> = ours.map(|it| it.destination.to_string()).collect();
        shown.sort();
        shown
    };
    one.set_peers(&[&two, &three]).unwrap();
    two.set_peers(&[&one]).unwrap();
    let (a, b) = (one.attach("a"), two.attach("b"));
    serve(&b);
    let all = ["10.244.2.0/24", "10.244.3.0/24", "fd00:10:244:2::/64", "fd00:10:244:3::/64"];
    assert_eq!(of_peers(), all);
    check(&a, &b);
    one.set_peers(&[&two]).unwrap();
    assert_eq!(of_peers(), ["10.244.2.0/24", "fd00:10:244:2::/64"]);
    check(&a, &b);
    one.set_peers(&[]).unwrap();
    assert_eq!(of_peers(), [""; 0]);
    assert_eq!(one.network.purge().len(), 0);
}

#[test]
fn a_peer_that_moves_is_followed() {
    let Some(switch) = Switch::start() else { return };
    let [one, two] = [1, 2].map(|it| switch.add_node(it, HOST_GW));
    two.set_peers(&[&one]).unwrap();
    let (a, b) = (one.attach("a"), two.attach("b"));
    serve(&b);
    one.set_peers(&[&two]).unwrap();
    check(&a, &b);
    let mut routes = two.routes();
    configure(&mut routes, "uplink", &["192.0.2.22"]);
    configure(&mut routes, "uplink", &["2001:db8::22"]);
    let moved = Peer { addresses: vec![ip("192.0.2.22"), ip("2001:db8::22")], ..two.as_peer() };
    one.runtime.block_on(one.network.set_peers(vec![moved])).unwrap();
    let found = one.routes().routes().unwrap();
    let gateways: Vec<_> =
        found.iter().filter(|it| it.protocol == 120).filter_map(|it| it.gateway).collect();
    assert_eq!(gateways, [ip("192.0.2.22"), ip("2001:db8::22")]);
    check(&a, &b);
}

#[test]
fn a_peer_that_cannot_be_reached_is_refused_and_nothing_changes() {
    let Some(switch) = Switch::start() else { return };
    let [one, two] = [1, 2].map(|it| switch.add_node(it, HOST_GW));
    one.set_peers(&[&two]).unwrap();
    let before = one.routes().routes().unwrap();
    let greedy = Peer { pod_cidrs: vec!["192.0.2.0/24".parse().unwrap()], ..two.as_peer() };
    let err = one.runtime.block_on(one.network.set_peers(vec![greedy])).unwrap_err();
    let expected = "node node-2 has pods in 192.0.2.0/24, outside the cluster's network";
    assert_eq!(err.to_string(), expected);
    assert_eq!(one.routes().routes().unwrap(), before);
    let alone = switch.add_node(3, NONE);
    let err = alone.set_peers(&[&two]).unwrap_err();
    assert_eq!(err.to_string(), "node node-2 cannot be reached: this pod network has one node");
    alone.set_peers(&[]).unwrap();
}

#[test]
fn routes_of_others_to_the_same_nodes_stay() {
    let Some(switch) = Switch::start() else { return };
    let [one, two] = [1, 2].map(|it| switch.add_node(it, HOST_GW));
    let destination = Destination { address: ip("10.9.0.0"), prefix_length: 16 };
    put_route(&mut one.routes(), "uplink", destination, ip("192.0.2.2"));
    let before = one.routes().routes().unwrap();
    one.set_peers(&[&two]).unwrap();
    assert_ne!(one.routes().routes().unwrap(), before);
    one.set_peers(&[]).unwrap();
    assert_eq!(one.routes().routes().unwrap(), before);
}
