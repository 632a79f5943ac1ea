//! Ways over any network: three nodes, one of them behind a router that knows no pods. What
//! arrives there was wrapped, and the pods see each other as they are.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use linux::netlink::route::{Link, LinkChange, Route};
use network::{HOST_GW, IPIP, Network, Peer, UDP, VXLAN, WIREGUARD};
use node_api::network::Status;
use node_api::{ClusterId, PodNetwork as _};

use crate::places::{Families, Pod, ip, range, udp};
use crate::switch::{Member, Side, Switch, check, introduce, serve};

/// So long only a broken network lets us wait.
const PATIENCE: Duration = Duration::from_secs(20);

/// A back end in some families: its links, and the MTU of pods where uplinks have 1500.
struct Case {
    backend: &'static str,
    families: Families,
    links: &'static [&'static str],
    mtu: u32,
}

const CASES: &[Case] = &[
    Case { backend: VXLAN, families: Families::V4, links: &["flannel.1"], mtu: 1450 },
    Case { backend: VXLAN, families: Families::V6, links: &["flannel-v6.1"], mtu: 1430 },
    Case {
        backend: VXLAN,
        families: Families::Both,
        links: &["flannel.1", "flannel-v6.1"],
        mtu: 1430,
    },
    Case { backend: IPIP, families: Families::V4, links: &["flannel.ipip"], mtu: 1480 },
    Case { backend: UDP, families: Families::V4, links: &["flannel0"], mtu: 1472 },
    Case { backend: WIREGUARD, families: Families::V4, links: &["flannel-wg"], mtu: 1440 },
    Case { backend: WIREGUARD, families: Families::V6, links: &["flannel-wg-v6"], mtu: 1420 },
    Case {
        backend: WIREGUARD,
        families: Families::Both,
        links: &["flannel-wg", "flannel-wg-v6"],
        mtu: 1420,
    },
];

/// Two near nodes and a far one, that know each other; each with a pod that serves.
struct Cluster {
    nodes: [Member; 3],
    pods: [Pod; 3],
    _switch: Switch,
}

impl Cluster {
    fn start(case: &Case) -> Option<Self> {
        let switch = Switch::start_for(case.backend)?;
        let places = [(1, Side::Near), (2, Side::Near), (3, Side::Far)];
        let nodes = places.map(|(n, side)| switch.add(n, side, case.families, case.backend, false));
        introduce(&nodes.each_ref());
        let pods = nodes.each_ref().map(|it| it.attach("a"));
        pods.iter().for_each(serve);
        Some(Self { nodes, pods, _switch: switch })
    }

    fn check(&self) {
        for from in &self.pods {
            self.pods.iter().for_each(|to| check(from, to));
        }
    }
}

fn first_link(node: &Member, case: &Case) -> Link {
    node.routes().link(case.links[0]).unwrap().unwrap()
}

/// Packets that a link has sent.
fn sent(node: &Member, link: &str) -> u64 {
    let text = node.namespace.run(|| std::fs::read_to_string("/proc/thread-self/net/dev").unwrap());
    let text = text.unwrap();
    let line = text.lines().find_map(|it| it.trim().strip_prefix(&format!("{link}:"))).unwrap();
    line.split_whitespace().nth(9).unwrap().parse().unwrap()
}

/// A datagram of this many bytes arrives whole, from the pod itself.
fn check_datagram(from: &Pod, to: &Pod, length: usize) {
    for (own, other) in from.addresses.iter().zip(&to.addresses) {
        let server = udp(&to.namespace, &SocketAddr::new(*other, 5000).to_string());
        let client = udp(&from.namespace, &SocketAddr::new(*own, 0).to_string());
        client.connect(server.local_addr().unwrap()).unwrap();
        let text: Vec<u8> = (0..length).map(|it| (it % 251) as u8).collect();
        let (received, sender) = deliver_whole(&client, &text, &server);
        assert_eq!((received, sender.ip()), (text, *own), "{length} bytes to {other}");
    }
}

/// Sends until it is heard: the first datagram of a size may be lost to learn the way's MTU.
fn deliver_whole(client: &UdpSocket, text: &[u8], server: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    server.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut buffer = vec![0; 65_536];
    for _ in 0..25 {
        let _ = client.send(text);
        if let Ok((length, sender)) = server.recv_from(&mut buffer) {
            return (buffer[..length].to_vec(), sender);
        }
    }
    panic!("{} bytes to {:?} were never heard", text.len(), client.peer_addr());
}

#[test]
fn pods_reach_each_other_through_tunnels_as_themselves_whatever_they_send() {
    for case in CASES {
        let Some(cluster) = Cluster::start(case) else { continue };
        cluster.check();
        let [one, _, far] = &cluster.pods;
        let headers = if one.address.is_ipv4() { 28 } else { 48 };
        let mtu = case.mtu as usize;
        for length in [1, mtu - headers, mtu - headers + 1, 1500, 4000, 40_000] {
            check_datagram(one, far, length);
            check_datagram(far, one, length);
        }
        for link in case.links {
            let before = sent(&cluster.nodes[0], link);
            assert!(before > 0, "{link}");
        }
        let in_pod = linux::netlink::route::RouteSocket::open_in(&one.namespace.path());
        assert_eq!(in_pod.unwrap().link("eth0").unwrap().unwrap().mtu, case.mtu);
        // The node itself, too, as whoever it is in the tunnel.
        for address in &cluster.pods[2].addresses {
            let address = SocketAddr::new(*address, 80).to_string();
            let seen = crate::places::ask(&cluster.nodes[0].namespace, &address).unwrap();
            assert!(
                cluster.nodes[0].config().ranges[0].cluster.contains(ip(&seen))
                    || seen.contains("fd00:"),
                "{seen}"
            );
        }
    }
}

#[test]
fn without_peers_there_is_no_tunnel_and_with_the_last_one_it_goes() {
    for case in CASES {
        let Some(switch) = Switch::start_for(case.backend) else { continue };
        let [one, two] =
            [1, 2].map(|it| switch.add(it, Side::Near, case.families, case.backend, false));
        let has_links = || {
            let found = case.links.iter().map(|it| one.routes().link(it).unwrap().is_some());
            found.collect::<Vec<_>>()
        };
        let none = vec![false; case.links.len()];
        assert_eq!(has_links(), none);
        one.set_peers(&[&one]);
        assert_eq!(has_links(), none, "alone");
        one.set_peers(&[&one, &two]);
        assert_eq!(has_links(), vec![true; case.links.len()]);
        one.set_peers(&[&one]);
        assert_eq!(has_links(), none);
    }
}

#[test]
fn after_a_restart_a_node_is_who_it_was_and_traffic_goes_on() {
    for case in CASES {
        let Some(mut cluster) = Cluster::start(case) else { continue };
        let link = first_link(&cluster.nodes[0], case);
        let said = cluster.nodes[0].network().published();
        cluster.nodes[0].open();
        assert_eq!(cluster.nodes[0].network().published(), said);
        let peers: Vec<Peer> = cluster.nodes.iter().map(Member::as_peer).collect();
        cluster.nodes[0].set(peers);
        let namespace = &cluster.pods[0].namespace;
        let at: std::sync::Arc<dyn node_api::network::Namespace> =
            std::sync::Arc::new(crate::places::At(namespace.path()));
        let kept = [(node_api::SandboxId::new("a"), at)].into();
        let node = &cluster.nodes[0];
        node.runtime.block_on(node.network().keep_only(kept)).unwrap();
        assert_eq!(first_link(node, case).address, link.address);
        cluster.check();
    }
}

#[test]
fn what_others_delete_is_back_at_once() {
    for case in CASES {
        let Some(cluster) = Cluster::start(case) else { continue };
        let node = &cluster.nodes[0];
        let _following = node.follow();
        let check = |what: &str, damage: &dyn Fn()| {
            let mut status = node.network().status();
            let is_whole = |it: &Status| it.fault.is_none();
            node.runtime
                .block_on(async { tokio::time::timeout(PATIENCE, status.wait_for(is_whole)).await })
                .unwrap_or_else(|_| panic!("{what}: never whole"))
                .unwrap();
            let before = traces(node);
            // Who looks may be too late to see it.
            damage();
            let is_back = (0..2000).any(|_| {
                std::thread::sleep(Duration::from_millis(10));
                traces(node) == before
            });
            assert!(
                is_back,
                "{} {what}: {:#?} in place of {before:#?}",
                case.backend,
                traces(node)
            );
            cluster.check();
        };
        let link = || first_link(node, case);
        // The kernel's own are those of addresses.
        let is_over = |it: &Route| it.link == Some(link().index) && it.protocol != Route::OF_KERNEL;
        check("the link", &|| node.routes().delete_link(&link()).unwrap());
        let down = LinkChange { is_up: Some(false), ..LinkChange::default() };
        check("the link down", &|| node.routes().change_link(&link(), down).unwrap());
        if case.backend != WIREGUARD {
            check("a route", &|| {
                let route = node.routes().routes().unwrap().into_iter().find(is_over).unwrap();
                node.routes().delete_route(&route).unwrap();
            });
        }
        if case.backend == VXLAN {
            check("a neighbor", &|| {
                let all = node.routes().permanent_neighbors().unwrap();
                let (_, it) = all.into_iter().find(|(index, _)| *index == link().index).unwrap();
                node.routes().delete_neighbor(&link(), it.address).unwrap();
            });
            check("a forwarding entry", &|| {
                let all = node.routes().forwards().unwrap();
                let (_, it) = all.into_iter().find(|(index, _)| *index == link().index).unwrap();
                node.routes().delete_forward(&link(), it.hardware_address).unwrap();
            });
        }
    }
}

/// What is on a node beside indices of links, which are new for a link that is made anew.
fn traces(node: &Member) -> Vec<String> {
    let mut routes = node.routes();
    let links = routes.links().unwrap();
    let name = |index: u32| {
        links
            .iter()
            .find(|it| it.index == index)
            .map_or_else(|| "?".to_owned(), |it| it.name.clone())
    };
    let mut all: Vec<String> = links
        .iter()
        .map(|it| format!("{} {:?} {:?} {} {}", it.name, it.tunnel, it.address, it.mtu, it.is_up))
        .collect();
    let addresses = routes.addresses().unwrap();
    let lasting = addresses.iter().filter(|it| it.scope != 253);
    all.extend(lasting.map(|it| format!("{} on {}", it.address, name(it.link))));
    let by_us = routes.routes().unwrap();
    let by_us = by_us.iter().filter(|it| it.protocol != Route::OF_KERNEL);
    all.extend(
        by_us.map(|it| format!("{} {:?} {:?}", it.destination, it.gateway, it.link.map(&name))),
    );
    let neighbors = routes.permanent_neighbors().unwrap();
    all.extend(
        neighbors
            .iter()
            .map(|(link, it)| format!("{} {} on {}", it.address, it.hardware_address, name(*link))),
    );
    let forwards = routes.forwards().unwrap();
    all.extend(
        forwards
            .iter()
            .map(|(link, it)| format!("{} {} on {}", it.hardware_address, it.remote, name(*link))),
    );
    all.sort();
    all
}

#[test]
fn purging_leaves_nothing_of_a_tunnel_behind() {
    for case in CASES {
        let Some(switch) = Switch::start_for(case.backend) else { continue };
        let [mut one, two] =
            [1, 2].map(|it| switch.add(it, Side::Near, case.families, case.backend, false));
        assert_eq!(one.network().purge().len(), 0);
        let before = traces(&one);
        one.open();
        one.set_peers(&[&one, &two]);
        assert_ne!(traces(&one), before);
        assert_eq!(one.network().purge().len(), 0);
        assert_eq!(traces(&one), before);
        assert!(!one.directory.path().join("network").exists());
    }
}

#[test]
fn near_nodes_are_reached_without_a_tunnel_if_that_is_wanted_and_far_ones_through_it() {
    let Some(switch) = Switch::start_for(VXLAN) else { return };
    let places = [(1, Side::Near), (2, Side::Near), (3, Side::Far)];
    let nodes = places.map(|(n, side)| switch.add(n, side, Families::Both, VXLAN, true));
    introduce(&nodes.each_ref());
    let pods = nodes.each_ref().map(|it| it.attach("a"));
    pods.iter().for_each(serve);
    for from in &pods {
        pods.iter().for_each(|to| check(from, to));
    }
    let routes = nodes[0].routes().routes().unwrap();
    let gateways = |range: &str| -> Vec<IpAddr> {
        let of_range = routes.iter().filter(|it| it.destination.to_string() == range);
        of_range.filter_map(|it| it.gateway).collect()
    };
    assert_eq!(gateways("10.244.2.0/24"), [ip("192.0.2.2")]);
    assert_eq!(gateways("10.244.3.0/24"), [ip("10.244.3.0")]);
}

#[test]
fn the_mtu_of_pods_follows_that_of_the_way_to_other_nodes() {
    for (backend, overhead) in [(VXLAN, 70), (HOST_GW, 0)] {
        let Some(switch) = Switch::start_for(backend) else { continue };
        let node = switch.add_node(1, backend);
        let pod = node.attach("a");
        let _following = node.follow();
        let ends = || {
            let mut in_pod =
                linux::netlink::route::RouteSocket::open_in(&pod.namespace.path()).unwrap();
            let links = node.routes().links().unwrap();
            let host = links.iter().find(|it| it.name.starts_with("veth")).unwrap().mtu;
            (host, in_pod.link("eth0").unwrap().unwrap().mtu)
        };
        assert_eq!(ends(), (1500 - overhead, 1500 - overhead));
        for mtu in [1400, 1500] {
            let uplink = node.routes().link("uplink").unwrap().unwrap();
            let change = LinkChange { mtu: Some(mtu), ..LinkChange::default() };
            node.routes().change_link(&uplink, change).unwrap();
            let is_followed = (0..2000).any(|_| {
                std::thread::sleep(Duration::from_millis(10));
                ends() == (mtu - overhead, mtu - overhead)
            });
            assert!(is_followed, "{backend} {mtu}: {:?}", ends());
        }
    }
}

/// A second cluster with nodes on the same two machines.
#[test]
fn two_clusters_of_one_machine_have_a_tunnel_each() {
    let Some(switch) = Switch::start_for(VXLAN) else { return };
    let nodes = [1, 2].map(|it| switch.add_node(it, VXLAN));
    introduce(&nodes.each_ref());
    let other: ClusterId = "0badcafe".parse().unwrap();
    let others = nodes.each_ref().map(|it| {
        let config = network::Config {
            cluster: other,
            bridge: "xebec1".into(),
            ranges: vec![range(&format!("10.245.{}.0/24", it.n), "10.245.0.0/16")],
            directory: it.directory.path().join("other"),
            ..it.config()
        };
        it.namespace.run(|| Network::open(config)).unwrap().unwrap()
    });
    let peers: Vec<Peer> = nodes
        .iter()
        .zip(&others)
        .map(|(node, other)| Peer {
            pod_cidrs: vec![format!("10.245.{}.0/24", node.n).parse().unwrap()],
            annotations: other.published(),
            ..node.as_peer()
        })
        .collect();
    let mut pods = Vec::new();
    for (node, other) in nodes.iter().zip(&others) {
        node.runtime.block_on(other.set_peers(peers.clone())).unwrap();
        assert_eq!(*other.left_out().borrow(), []);
        let namespace = linux::network_namespace::NetworkNamespace::create().unwrap();
        let attachment = node_api::network::Attachment {
            pod: crate::places::pod_ref("b"),
            sandbox: node_api::SandboxId::new("b"),
            namespace: std::sync::Arc::new(crate::places::At(namespace.path())),
            host_ports: Vec::new(),
        };
        let addresses = node.runtime.block_on(other.attach(attachment)).unwrap();
        pods.push(Pod { namespace, address: addresses[0], addresses });
    }
    pods.iter().for_each(serve);
    check(&pods[0], &pods[1]);
    check(&pods[1], &pods[0]);
    let first = nodes.each_ref().map(|it| it.attach("a"));
    first.iter().for_each(serve);
    check(&first[0], &first[1]);
    let names: Vec<_> = nodes[0].routes().links().unwrap().into_iter().map(|it| it.name).collect();
    assert!(names.contains(&"flannel.1".to_owned()), "{names:?}");
    assert!(names.contains(&"vx4-0badcafe".to_owned()), "{names:?}");
    others.iter().for_each(|it| assert_eq!(it.purge().len(), 0));
    check(&first[1], &first[0]);
}

/// What comes out of a tunnel is taken for a pod's packet: no pod may put something into it.
#[test]
fn a_pod_cannot_speak_as_a_node() {
    let Some(switch) = Switch::start_for(VXLAN) else { return };
    let nodes = [1, 2].map(|it| switch.add_node(it, VXLAN));
    introduce(&nodes.each_ref());
    let pod = nodes[0].attach("a");
    let hears = |port: u16| {
        let server = udp(&switch.world, &format!("{}:{port}", crate::switch::WORLD));
        let client = udp(&pod.namespace, &format!("{}:0", pod.address));
        client.connect(server.local_addr().unwrap()).unwrap();
        server.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let mut buffer = [0; 10];
        (0..10).any(|_| {
            let _ = client.send(b"x");
            server.recv(&mut buffer).is_ok()
        })
    };
    assert!(hears(8473));
    assert!(!hears(8472));
}
