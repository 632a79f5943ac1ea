//! Real packets through the rules: a node, pods and a client in network namespaces of their own.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests")]

mod listing;
mod nodes;

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use apimachinery::ObjectKey;
use linux::netlink::nftables::{Nftables, TableFamily, TableId};
use linux::network_namespace::NetworkNamespace;
use node_api::ClusterId;
use service_proxy::backends::nftables::{Backend, Networks};
use service_proxy::service_port::{
    Endpoint, Endpoints, Network, Protocol, ServicePort, TrafficPolicy,
};

use self::nodes::{
    CLIENT, Connection, Flow, GATEWAY, NODE, Nodes, TCP_PORT, UDP_PORT, is_silent, pod_address,
    tcp, udp,
};

const CLUSTER_IP: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
const REFUSED: Result<String, ErrorKind> = Err(ErrorKind::ConnectionRefused);

/// A datagram that this very host sends may be refused by the call that sends it.
fn is_refused(answer: &Result<String, ErrorKind>) -> bool {
    *answer == REFUSED || *answer == Err(ErrorKind::PermissionDenied)
}

fn cluster() -> ClusterId {
    "00c0ffee".parse().unwrap()
}

fn open(nodes: &Nodes) -> Backend {
    open_as(nodes, cluster())
}

fn open_as(nodes: &Nodes, cluster: ClusterId) -> Backend {
    let network =
        |address: [u8; 4], prefix_length| Network { address: address.into(), prefix_length };
    let networks =
        Networks { cluster: network([10, 244, 0, 0], 16), services: network([10, 96, 0, 0], 12) };
    nodes.node.run(|| Backend::open(cluster, networks)).unwrap().unwrap()
}

fn web() -> ObjectKey {
    ObjectKey::new("default", "web")
}

/// Port 80 of the Service over TCP, 53 over UDP, with node port 30080 or 30053, at these pods.
/// Those in `local` are on this node.
fn port(protocol: Protocol, pods: &[usize], local: &[usize]) -> ServicePort {
    let (port, target, node_port) = match protocol {
        Protocol::Udp => (53, UDP_PORT, 30053),
        _ => (80, TCP_PORT, 30080),
    };
    let endpoints = |pods: &[usize]| {
        pods.iter().map(|it| Endpoint { address: pod_address(*it), port: target }).collect()
    };
    ServicePort {
        cluster_ip: CLUSTER_IP,
        protocol,
        port,
        node_port: Some(node_port),
        external_ips: BTreeSet::new(),
        load_balancer_ips: BTreeSet::new(),
        source_ranges: BTreeSet::new(),
        affinity: None,
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        endpoints: Endpoints { cluster: endpoints(pods), local: endpoints(local) },
    }
}

fn both(pods: &[usize]) -> Vec<ServicePort> {
    vec![port(Protocol::Tcp, pods, pods), port(Protocol::Udp, pods, pods)]
}

/// A node with so many pods, and the Service.
fn setup(n_pods: usize, ports: Vec<ServicePort>) -> Option<(Nodes, Backend)> {
    let nodes = Nodes::new(n_pods)?;
    let mut backend = open(&nodes);
    backend.set(&web(), ports);
    backend.resync().unwrap();
    Some((nodes, backend))
}

fn change(backend: &mut Backend, ports: Vec<ServicePort>) {
    backend.set(&web(), ports);
    backend.apply().unwrap();
}

fn at(address: Ipv4Addr, port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(address, port)
}

type Ask = fn(&NetworkNamespace, SocketAddrV4) -> Result<String, ErrorKind>;

/// Asks until all have answered that should, which random choice takes a while to do; nobody else
/// may answer.
fn check_all(ask: Ask, from: &NetworkNamespace, to: SocketAddrV4, expected: &[&str]) {
    let expected: BTreeSet<_> = expected.iter().map(|it| (*it).to_owned()).collect();
    let mut answers = BTreeSet::new();
    for _ in 0..200 {
        let answer = ask(from, to).unwrap_or_else(|err| panic!("{to}: {err}"));
        assert!(expected.contains(&answer), "{to}: {answer}");
        answers.insert(answer);
        if answers == expected {
            return;
        }
    }
    panic!("{to}: only {answers:?} answered");
}

#[test]
fn a_cluster_ip_answers_from_all_endpoints() {
    let Some((nodes, _backend)) = setup(3, both(&[1, 2])) else { return };
    for (ask, port) in [(tcp as Ask, 80), (udp as Ask, 53)] {
        let to = at(CLUSTER_IP, port);
        check_all(ask, &nodes.pods[0], to, &["pod 1 from 10.244.0.2", "pod 2 from 10.244.0.2"]);
        // The node and hosts outside are masqueraded, so that the answer comes back this way.
        check_all(ask, &nodes.node, to, &["pod 1 from 10.244.0.1", "pod 2 from 10.244.0.1"]);
        check_all(ask, &nodes.client, to, &["pod 1 from 10.244.0.1", "pod 2 from 10.244.0.1"]);
    }
}

#[test]
fn a_pod_reaches_itself_through_its_service() {
    let Some((nodes, _backend)) = setup(1, both(&[0])) else { return };
    let expected = Ok(format!("pod 0 from {GATEWAY}"));
    assert_eq!(tcp(&nodes.pods[0], at(CLUSTER_IP, 80)), expected);
    assert_eq!(udp(&nodes.pods[0], at(CLUSTER_IP, 53)), expected);
    assert_eq!(tcp(&nodes.pods[0], at(NODE, 30080)), expected);
}

#[test]
fn a_node_port_answers_on_every_address_of_the_node() {
    let Some((nodes, _backend)) = setup(2, both(&[0, 1])) else { return };
    let expected = ["pod 0 from 10.244.0.1", "pod 1 from 10.244.0.1"];
    for (ask, port) in [(tcp as Ask, 30080), (udp as Ask, 30053)] {
        check_all(ask, &nodes.client, at(NODE, port), &expected);
        check_all(ask, &nodes.node, at(NODE, port), &expected);
        check_all(ask, &nodes.node, at(GATEWAY, port), &expected);
        check_all(ask, &nodes.node, at(Ipv4Addr::LOCALHOST, port), &expected);
        check_all(ask, &nodes.pods[0], at(GATEWAY, port), &expected);
    }
    // The port alone does not make a node port.
    assert_eq!(tcp(&nodes.node, at(CLIENT, 30080)), REFUSED);
}

#[test]
fn external_and_load_balancer_addresses_are_served() {
    let external = Ipv4Addr::new(198, 51, 100, 1);
    let (open_to_all, guarded) = (external, Ipv4Addr::new(198, 51, 100, 2));
    let network =
        |address: [u8; 4], prefix_length| Network { address: address.into(), prefix_length };
    let with_ranges = |ranges: &[Network]| ServicePort {
        external_ips: [open_to_all].into(),
        load_balancer_ips: [guarded].into(),
        source_ranges: ranges.iter().copied().collect(),
        ..port(Protocol::Tcp, &[0], &[0])
    };
    let Some((nodes, mut backend)) = setup(1, vec![with_ranges(&[])]) else { return };
    let expected = Ok(format!("pod 0 from {GATEWAY}"));
    assert_eq!(tcp(&nodes.client, at(open_to_all, 80)), expected);
    assert_eq!(tcp(&nodes.client, at(guarded, 80)), expected);
    change(&mut backend, vec![with_ranges(&[network([192, 0, 2, 0], 24)])]);
    assert_eq!(tcp(&nodes.client, at(guarded, 80)), expected);
    change(&mut backend, vec![with_ranges(&[network([192, 0, 3, 0], 24)])]);
    assert!(is_silent(&nodes.client, at(guarded, 80)), "its address is in no range");
    assert_eq!(tcp(&nodes.client, at(open_to_all, 80)), expected, "ranges are the balancer's");
}

#[test]
fn policy_local_keeps_the_source_address_and_stays_on_the_node() {
    let local = |local: &[usize]| ServicePort {
        external_policy: TrafficPolicy::Local,
        ..port(Protocol::Tcp, &[0, 1], local)
    };
    let Some((nodes, mut backend)) = setup(3, vec![local(&[1])]) else { return };
    let node_port = at(NODE, 30080);
    for _ in 0..10 {
        assert_eq!(tcp(&nodes.client, node_port), Ok(format!("pod 1 from {CLIENT}")));
    }
    // Clients in the cluster have all endpoints.
    let any = ["pod 0 from 10.244.0.1", "pod 1 from 10.244.0.1"];
    check_all(tcp, &nodes.node, at(Ipv4Addr::LOCALHOST, 30080), &any);
    check_all(tcp, &nodes.node, node_port, &any);
    check_all(tcp, &nodes.pods[2], node_port, &["pod 0 from 10.244.0.4", "pod 1 from 10.244.0.4"]);
    change(&mut backend, vec![local(&[])]);
    assert!(is_silent(&nodes.client, node_port), "no endpoint on this node");
    check_all(tcp, &nodes.node, node_port, &any);
    check_all(tcp, &nodes.client, at(CLUSTER_IP, 80), &any);
}

#[test]
fn internal_policy_local_uses_endpoints_of_the_node() {
    let local = |local: &[usize]| ServicePort {
        internal_policy: TrafficPolicy::Local,
        node_port: None,
        ..port(Protocol::Tcp, &[0, 1], local)
    };
    let Some((nodes, mut backend)) = setup(3, vec![local(&[1])]) else { return };
    for _ in 0..10 {
        let expected = format!("pod 1 from {}", pod_address(2));
        assert_eq!(tcp(&nodes.pods[2], at(CLUSTER_IP, 80)), Ok(expected));
    }
    change(&mut backend, vec![local(&[])]);
    assert!(is_silent(&nodes.pods[2], at(CLUSTER_IP, 80)));
}

#[test]
fn without_endpoints_every_frontend_refuses_at_once() {
    let external = Ipv4Addr::new(198, 51, 100, 1);
    let with_external = |it: ServicePort| ServicePort { external_ips: [external].into(), ..it };
    let ports: Vec<_> = both(&[]).into_iter().map(with_external).collect();
    let Some((nodes, mut backend)) = setup(1, ports) else { return };
    // More often than the kernel would send ICMP in a second.
    for _ in 0..20 {
        assert_eq!(tcp(&nodes.pods[0], at(CLUSTER_IP, 80)), REFUSED);
    }
    for (who, from) in [("pod", &nodes.pods[0]), ("node", &nodes.node), ("client", &nodes.client)] {
        assert_eq!(tcp(from, at(CLUSTER_IP, 80)), REFUSED);
        assert_eq!(tcp(from, at(external, 80)), REFUSED);
        assert_eq!(tcp(from, at(NODE, 30080)), REFUSED);
        for to in [at(CLUSTER_IP, 53), at(NODE, 30053)] {
            let answer = udp(from, to);
            assert!(is_refused(&answer), "{who} to {to}: {answer:?}");
        }
        assert_eq!(tcp(from, at(CLUSTER_IP, 81)), REFUSED, "no such port");
        assert_eq!(tcp(from, at(Ipv4Addr::new(10, 96, 7, 7), 80)), REFUSED, "no such ClusterIP");
    }
    assert_eq!(tcp(&nodes.node, at(Ipv4Addr::LOCALHOST, 30080)), REFUSED);
    // And with the first endpoint they answer.
    change(&mut backend, both(&[0]));
    assert_eq!(tcp(&nodes.client, at(NODE, 30080)), Ok(format!("pod 0 from {GATEWAY}")));
    assert_eq!(tcp(&nodes.pods[0], at(CLUSTER_IP, 81)), REFUSED);
}

#[test]
fn with_affinity_a_client_stays_with_its_endpoint_while_it_is_one() {
    let sticky = |pods: &[usize]| -> Vec<ServicePort> {
        let affinity = Some(Duration::from_secs(600));
        both(pods).into_iter().map(|it| ServicePort { affinity, ..it }).collect()
    };
    let Some((nodes, mut backend)) = setup(4, sticky(&[0, 1, 2])) else { return };
    let number = |answer: &str| -> usize { answer[4..5].parse().unwrap() };
    for (ask, from, to) in [
        (tcp as Ask, &nodes.pods[3], at(CLUSTER_IP, 80)),
        (udp as Ask, &nodes.pods[3], at(CLUSTER_IP, 53)),
        (tcp as Ask, &nodes.client, at(NODE, 30080)),
        (tcp as Ask, &nodes.node, at(Ipv4Addr::LOCALHOST, 30080)),
    ] {
        change(&mut backend, sticky(&[0, 1, 2]));
        let mut first = ask(from, to).unwrap();
        for _ in 0..20 {
            assert_eq!(ask(from, to).unwrap(), first);
        }
        // Others come and go, and it stays; its own goes, and it moves once.
        let rest: Vec<_> = [0, 1, 2].into_iter().filter(|it| *it != number(&first)).collect();
        change(&mut backend, sticky(&[number(&first), rest[0]]));
        assert_eq!(ask(from, to).unwrap(), first);
        change(&mut backend, sticky(&rest));
        first = ask(from, to).unwrap();
        assert!(rest.contains(&number(&first)));
        for _ in 0..20 {
            assert_eq!(ask(from, to).unwrap(), first);
        }
    }
}

#[test]
fn connections_go_on_while_rules_change_and_after_a_restart() {
    let Some((nodes, mut backend)) = setup(2, both(&[0])) else { return };
    let mut inside = Connection::open(&nodes.node, at(CLUSTER_IP, 80)).unwrap();
    let mut outside = Connection::open(&nodes.client, at(NODE, 30080)).unwrap();
    let expected = Ok(format!("pod 0 from {GATEWAY}"));
    assert_eq!((inside.ask(), outside.ask()), (expected.clone(), expected.clone()));
    change(&mut backend, both(&[1]));
    assert_eq!((inside.ask(), outside.ask()), (expected.clone(), expected.clone()));
    change(&mut backend, Vec::new());
    drop(backend);
    let mut backend = open(&nodes);
    backend.adopt().unwrap();
    backend.set(&web(), both(&[1]));
    backend.resync().unwrap();
    assert_eq!((inside.ask(), outside.ask()), (expected.clone(), expected));
    let moved = Ok(format!("pod 1 from {GATEWAY}"));
    assert_eq!(tcp(&nodes.client, at(NODE, 30080)), moved);
}

#[test]
fn a_udp_flow_moves_on_when_its_endpoint_goes() {
    let Some((nodes, mut backend)) = setup(2, both(&[0])) else { return };
    let flows: Vec<_> = [
        (&nodes.pods[1], at(CLUSTER_IP, 53)),
        (&nodes.node, at(CLUSTER_IP, 53)),
        (&nodes.client, at(NODE, 30053)),
        (&nodes.node, at(Ipv4Addr::LOCALHOST, 30053)),
    ]
    .into_iter()
    .map(|(from, to)| Flow::open(from, to))
    .collect();
    let check = |expected: &str| {
        for flow in &flows {
            // A refusal that came before may still have to be heard.
            let mut answer = flow.ask();
            for _ in 0..3 {
                answer = if is_refused(&answer) { flow.ask() } else { answer };
            }
            assert_eq!(answer.as_deref().map(|it| &it[..5]), Ok(expected), "{answer:?}");
        }
    };
    check("pod 0");
    change(&mut backend, both(&[0, 1]));
    check("pod 0");
    change(&mut backend, both(&[1]));
    check("pod 1");
    change(&mut backend, both(&[]));
    for flow in &flows {
        assert!(is_refused(&flow.ask()));
    }
    change(&mut backend, both(&[0]));
    check("pod 0");
}

fn table(nodes: &Nodes) -> Nftables {
    let id = TableId::new(TableFamily::Ip, cluster().table("services"));
    nodes.node.run(|| Nftables::open(id)).unwrap().unwrap()
}

#[test]
fn a_restart_changes_nothing_and_a_table_that_somebody_removed_is_made_again() {
    let Some((nodes, mut backend)) = setup(3, both(&[0, 1, 2])) else { return };
    // Slots that a fresh start would not choose.
    change(&mut backend, both(&[1, 2]));
    change(&mut backend, both(&[0, 1, 2]));
    let mut nftables = table(&nodes);
    let before = nftables.observe().unwrap();
    let mut backend = open(&nodes);
    backend.adopt().unwrap();
    backend.set(&web(), both(&[0, 1, 2]));
    backend.resync().unwrap();
    assert_eq!(nftables.observe().unwrap(), before);
    nftables.purge().unwrap();
    backend.set(&web(), both(&[0]));
    let err = backend.apply().unwrap_err();
    assert!(err.is(rustix::io::Errno::NOENT), "{err:?}");
    backend.resync().unwrap();
    assert_eq!(tcp(&nodes.client, at(NODE, 30080)), Ok(format!("pod 0 from {GATEWAY}")));
    nodes.node.run(|| service_proxy::purge(cluster())).unwrap().unwrap();
    assert_eq!(nftables.observe().unwrap(), None);
}

#[test]
fn each_cluster_has_a_table_of_its_own_and_leaves_those_of_others() {
    let Some((nodes, mut backend)) = setup(2, both(&[0])) else { return };
    let other: ClusterId = "0badcafe".parse().unwrap();
    let mut beside = open_as(&nodes, other);
    beside.adopt().unwrap();
    let db = ObjectKey::new("default", "db");
    let (node_port, cluster_ip) = (Some(31080), Ipv4Addr::new(10, 96, 7, 7));
    let elsewhere = ServicePort { node_port, cluster_ip, ..port(Protocol::Tcp, &[1], &[1]) };
    beside.set(&db, vec![elsewhere]);
    beside.resync().unwrap();
    backend.resync().unwrap();
    let ask = |port| tcp(&nodes.client, at(NODE, port));
    assert_eq!(ask(30080), Ok(format!("pod 0 from {GATEWAY}")));
    assert_eq!(ask(31080), Ok(format!("pod 1 from {GATEWAY}")));
    let before = table(&nodes).observe().unwrap();
    nodes.node.run(|| service_proxy::purge(other)).unwrap().unwrap();
    assert_eq!(table(&nodes).observe().unwrap(), before);
    assert_eq!(ask(30080), Ok(format!("pod 0 from {GATEWAY}")));
    assert_eq!(ask(31080), REFUSED);
}
