//! Wishes and neighbors in, what is chosen out.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::super::neighborhood::Network;
use super::*;
use crate::commands::network::{parse_pod_cidrs, parse_port_range, parse_service_cidrs};

const NAMESPACE: u64 = 1;

/// What the first cluster of a machine has, under another name.
pub(crate) fn cluster(name: &str) -> Cluster {
    Cluster {
        id: "0000000a".parse().unwrap(),
        name: Name::parse(name).unwrap(),
        network_namespace: NAMESPACE,
        bind_address: IpAddr::from([127, 0, 0, 1]),
        https_port: 6443,
        service_cidrs: parse_service_cidrs("10.96.0.0/16").unwrap(),
        pod_cidrs: parse_pod_cidrs("10.244.0.0/16").unwrap(),
        node_ports: NODE_PORTS,
        node: Some(Node {
            name: "host".to_owned(),
            ips: Vec::new(),
            bridge: "xebec0".to_owned(),
            cgroup_root: "xebec-0000000a".to_owned(),
            kubelet_port: 10250,
            pod_cidrs: Vec::new(),
            container_runtime: None,
        }),
        joined: None,
    }
}

fn neighbor(cluster: Cluster, pid: Option<i32>) -> Neighbor {
    Neighbor { cluster, data_dir: "/data/a".into(), pid, is_present: pid.is_some() }
}

fn wishes() -> Wishes {
    Wishes {
        name: None,
        bind_address: IpAddr::from([127, 0, 0, 1]),
        https_port: None,
        service_cidrs: None,
        pod_cidrs: None,
        node_ports: None,
        node: Some(NodeWishes {
            name: None,
            default_name: "host".to_owned(),
            ips: Vec::new(),
            default_ips: Vec::new(),
            kubelet_port: None,
            cgroup_root: None,
            container_runtime: None,
        }),
        joins: None,
        fresh_id: "0000000b".parse().unwrap(),
    }
}

fn nobody_listens(_: SocketAddr, _: Transport) -> Option<String> {
    None
}

fn around(clusters: Vec<Neighbor>) -> Neighborhood<'static> {
    Neighborhood {
        namespace: NAMESPACE,
        clusters,
        networks: Vec::new(),
        links: BTreeMap::new(),
        port_holder: &nobody_listens,
    }
}

fn render(cluster: &Cluster) -> String {
    let Cluster { name, https_port, service_cidrs, pod_cidrs, node_ports, .. } = cluster;
    let node = cluster
        .node
        .as_ref()
        .map(|it| format!(" {} {} {} {}", it.name, it.bridge, it.cgroup_root, it.kubelet_port));
    format!(
        "{name} {https_port} {service_cidrs} {pod_cidrs} {node_ports}{}",
        node.unwrap_or_default()
    )
}

fn check(wishes: &Wishes, kept: Option<&Cluster>, around: &Neighborhood<'_>, expected: &str) {
    let chosen = choose(wishes, kept, around);
    let actual = chosen.map_or_else(|problems| problems.join("\n"), |it| render(&it));
    assert_eq!(actual, expected);
}

const FIRST: &str =
    "xebec 6443 10.96.0.0/16 10.244.0.0/16 30000-32767 host xebec0 xebec-0000000b 10250";
const SECOND: &str =
    "2 6444 10.97.0.0/16 10.245.0.0/16 29000-29999 host xebec1 xebec-0000000b 10251";

#[test]
fn the_first_gets_the_usual_and_the_second_what_is_free() {
    check(&wishes(), None, &around(Vec::new()), FIRST);
    let running = around(vec![neighbor(cluster("xebec"), Some(42))]);
    check(&wishes(), None, &running, SECOND);
    // Also beside one that is stopped and may come back.
    let stopped = around(vec![neighbor(cluster("xebec"), None)]);
    check(&wishes(), None, &stopped, SECOND);
    // What it chose is what it has from then on, whoever has gone meanwhile.
    let second = choose(&wishes(), None, &running).unwrap();
    check(&wishes(), Some(&second), &around(Vec::new()), SECOND);
}

#[test]
fn clusters_in_different_network_namespaces_do_not_meet() {
    let elsewhere = Cluster { network_namespace: NAMESPACE + 1, ..cluster("xebec") };
    let expected = FIRST.replacen("xebec", "2", 1);
    check(&wishes(), None, &around(vec![neighbor(elsewhere, Some(42))]), &expected);
}

#[test]
fn without_a_node_ranges_meet_nobody() {
    let expected = "2 6444 10.96.0.0/16 10.244.0.0/16 30000-32767";
    let without = Wishes { node: None, ..wishes() };
    check(&without, None, &around(vec![neighbor(cluster("xebec"), Some(42))]), expected);
}

#[test]
fn what_was_asked_for_is_never_changed_and_who_has_it_is_named() {
    let running = around(vec![neighbor(cluster("a"), Some(42))]);
    let taken = |wishes: Wishes, expected: &str| check(&wishes, None, &running, expected);
    let cidr = |text| Some(parse_pod_cidrs(text).unwrap());
    taken(
        Wishes { pod_cidrs: cidr("10.244.128.0/17"), ..wishes() },
        "the addresses of pods, 10.244.128.0/17, are taken by the cluster a in /data/a (process 42): choose others with --pod-cidr, such as 10.245.0.0/16",
    );
    taken(
        Wishes { service_cidrs: cidr("10.244.0.0/16"), ..wishes() },
        "the addresses of Services, 10.244.0.0/16, are taken by the cluster a in /data/a (process 42): choose others with --service-cidr, such as 10.97.0.0/16",
    );
    taken(
        Wishes { node_ports: Some(parse_port_range("32000-33000").unwrap()), ..wishes() },
        "the node ports 32000-33000 are taken by the cluster a in /data/a (process 42): choose others with --service-node-port-range",
    );
    taken(
        Wishes { name: Some(Name::parse("a").unwrap()), ..wishes() },
        "the name a is that of the cluster a in /data/a (process 42): choose another with --name",
    );
    let root = Some("/xebec-0000000a/".to_owned());
    let node = wishes().node.map(|it| NodeWishes { cgroup_root: root, ..it });
    taken(
        Wishes { node, ..wishes() },
        "the cgroup /xebec-0000000a is that of the cluster a in /data/a (process 42): choose another with --cgroup-root",
    );
}

#[test]
fn what_a_stopped_cluster_had_can_be_asked_for() {
    let stopped = around(vec![neighbor(cluster("a"), None)]);
    let same = Wishes { pod_cidrs: Some(cluster("a").pod_cidrs), ..wishes() };
    let expected =
        "xebec 6444 10.97.0.0/16 10.244.0.0/16 29000-29999 host xebec1 xebec-0000000b 10251";
    check(&same, None, &stopped, expected);
}

#[test]
fn ports_that_somebody_listens_on_are_passed_over_or_told() {
    let held = |address: SocketAddr, transport: Transport| {
        let is_held = transport == Transport::Tcp && [6443, 10250].contains(&address.port());
        is_held.then(|| "process 7 (nginx)".to_owned())
    };
    let around = Neighborhood { port_holder: &held, ..around(Vec::new()) };
    let expected = FIRST.replace("6443", "6444").replace("10250", "10251");
    check(&wishes(), None, &around, &expected);
    check(
        &Wishes { https_port: Some(6443), ..wishes() },
        None,
        &around,
        "cannot listen on 127.0.0.1:6443, which process 7 (nginx) has: choose another port with --https-port",
    );
    check(
        &Wishes { https_port: Some(0), ..wishes() },
        None,
        &around,
        &expected.replace("6444", "0"),
    );
}

#[test]
fn a_name_server_on_every_address_is_in_the_way_of_dns() {
    let held = |address: SocketAddr, transport: Transport| {
        (transport == Transport::Udp && address.port() == 53)
            .then(|| "process 7 (dnsmasq)".to_owned())
    };
    check(
        &wishes(),
        None,
        &Neighborhood { port_holder: &held, ..around(Vec::new()) },
        "the cluster's DNS cannot listen on 10.244.0.1:53, which process 7 (dnsmasq) has: let it listen on its own addresses only",
    );
}

#[test]
fn routes_and_links_of_others_are_passed_over_or_told() {
    let route = |text: &str| Network {
        range: text.parse().unwrap(),
        what: format!("the route {text} over tun0"),
    };
    let links = BTreeMap::from([("xebec0".to_owned(), 0)]);
    let vpn = Neighborhood { networks: vec![route("10.244.0.0/16")], links, ..around(Vec::new()) };
    let expected = FIRST.replace("10.244", "10.245").replace("xebec0", "xebec1");
    check(&wishes(), None, &vpn, &expected);
    check(
        &Wishes { pod_cidrs: Some(parse_pod_cidrs("10.244.0.0/20").unwrap()), ..wishes() },
        None,
        &vpn,
        "the addresses of pods, 10.244.0.0/20, are taken by the route 10.244.0.0/16 over tun0: choose others with --pod-cidr, such as 10.245.0.0/16",
    );
    let all = Neighborhood { networks: vec![route("10.0.0.0/8")], ..around(Vec::new()) };
    let expected = FIRST.replace("10.244", "172.24").replace("10.96", "172.28");
    check(&wishes(), None, &all, &expected);
}

#[test]
fn ranges_of_one_cluster_do_not_overlap() {
    let cidr = |text| Some(parse_pod_cidrs(text).unwrap());
    let both =
        Wishes { pod_cidrs: cidr("10.0.0.0/8"), service_cidrs: cidr("10.96.0.0/16"), ..wishes() };
    let expected = "the addresses of pods, 10.0.0.0/8, and of Services, 10.96.0.0/16, overlap: choose others with --pod-cidr or --service-cidr";
    check(&both, None, &around(Vec::new()), expected);
    let pods = Wishes { pod_cidrs: cidr("10.96.0.0/16"), ..wishes() };
    let expected = FIRST.replace("10.96.0.0", "10.97.0.0").replace("10.244", "10.96");
    check(&pods, None, &around(Vec::new()), &expected);
}

#[test]
fn a_copy_and_another_name_are_refused() {
    let copied = around(vec![neighbor(cluster("a"), None)]);
    let kept = Cluster { name: Name::default(), https_port: 7000, ..cluster("a") };
    let problems = choose(&wishes(), Some(&kept), &copied).unwrap_err();
    assert!(problems[0].starts_with("this directory is a copy of the cluster a in /data/a"));
    let renamed = Wishes { name: Some(Name::parse("b").unwrap()), ..wishes() };
    let expected = "--name b: the cluster in this directory is called a, and stays so";
    check(&renamed, Some(&cluster("a")), &around(Vec::new()), expected);
    // Its name has become somebody else's: it may have another.
    let same = Cluster { id: "0000000c".parse().unwrap(), ..cluster("a") };
    let elsewhere = Cluster { network_namespace: NAMESPACE + 1, node: None, ..same };
    let taken = around(vec![neighbor(elsewhere, None)]);
    let expected =
        "the name a is that of the cluster a in /data/a (stopped): choose another with --name";
    check(&wishes(), Some(&cluster("a")), &taken, expected);
    let expected = "b 6443 10.96.0.0/16 10.244.0.0/16 30000-32767 host xebec0 xebec-0000000a 10250";
    check(&renamed, Some(&cluster("a")), &taken, expected);
}

#[test]
fn a_node_name_must_be_one() {
    let node = wishes().node.map(|it| NodeWishes { name: Some("Bad_Name".to_owned()), ..it });
    let problems = choose(&Wishes { node, ..wishes() }, None, &around(Vec::new())).unwrap_err();
    assert!(
        problems[0].starts_with("--node-name \"Bad_Name\": a lowercase RFC 1123 subdomain must")
    );
}

const BOTH: &str = "xebec 6443 10.96.0.0/16,fd00:10:96::/112 10.244.0.0/16,fd00:10:244::/56 30000-32767 host xebec0 xebec-0000000b 10250";

#[test]
fn where_pods_have_two_families_services_have_them_too_and_the_other_way_round() {
    let pods = |text| Wishes { pod_cidrs: Some(parse_pod_cidrs(text).unwrap()), ..wishes() };
    let services =
        |text| Wishes { service_cidrs: Some(parse_service_cidrs(text).unwrap()), ..wishes() };
    let alone = around(Vec::new());
    check(&pods("10.244.0.0/16,fd00:10:244::/56"), None, &alone, BOTH);
    check(&services("10.96.0.0/16,fd00:10:96::/112"), None, &alone, BOTH);
    let only_ipv6 =
        FIRST.replace("10.96.0.0/16", "fd00:10:96::/112").replace("10.244.0.0/16", "fd00:9::/56");
    check(&pods("fd00:9::/56"), None, &alone, &only_ipv6);
    // Beside another, the next ones.
    let first = choose(&pods("10.244.0.0/16,fd00:10:244::/56"), None, &alone).unwrap();
    let beside = around(vec![neighbor(first, Some(42))]);
    let next = "2 6444 10.97.0.0/16,fd00:10:97::/112 10.245.0.0/16,fd00:10:245::/56 29000-29999 host xebec1 xebec-0000000b 10251";
    let wished = services("10.97.0.0/16,fd00:10:97::/112");
    let fresh_id = "0000000c".parse().unwrap();
    let expected = next.replace("0000000b", "0000000c");
    check(&Wishes { fresh_id, ..wished }, None, &beside, &expected);
}

#[test]
fn services_of_a_family_without_pods_are_refused() {
    let one = Wishes {
        pod_cidrs: Some(parse_pod_cidrs("10.244.0.0/16").unwrap()),
        service_cidrs: Some(parse_service_cidrs("10.96.0.0/16,fd00::/112").unwrap()),
        ..wishes()
    };
    let expected = "Services have IPv6 addresses, 10.96.0.0/16,fd00::/112, and pods have none, 10.244.0.0/16: nobody could answer there; \
                    choose others with --pod-cidr or --service-cidr";
    check(&one, None, &around(Vec::new()), expected);
}

#[test]
fn a_nodes_first_address_is_of_the_family_of_the_pods_first() {
    let check = |given: &[&str], machine: &[&str], gateways: &[&str], expected: &[&str]| {
        let ip = |it: &&str| it.parse::<IpAddr>().unwrap();
        let [given, machine, gateways] =
            [given, machine, gateways].map(|it| it.iter().map(ip).collect::<Vec<_>>());
        let found = node_addresses(&given, &machine, &gateways);
        assert_eq!(found, expected.iter().map(ip).collect::<Vec<_>>());
    };
    let (v4, v6) = ("192.0.2.1", "2001:db8::1");
    check(&[], &[v4, v6], &["10.244.0.1"], &[v4, v6]);
    check(&[], &[v4, v6], &["fd00::1", "10.244.0.1"], &[v6, v4]);
    check(&[v6], &[v4], &["10.244.0.1"], &[v6]);
    check(&[], &[v4], &["fd00::1"], &[v4]);
    check(&[], &[], &["10.244.0.1", "fd00::1"], &["10.244.0.1", "fd00::1"]);
}

#[test]
fn a_machine_that_joins_has_no_port_of_an_api_server_and_no_range_yet() {
    let joins = Some(Joined { server: "192.0.2.1:6443".to_owned() });
    let default_ips = vec![IpAddr::from([192, 0, 2, 2])];
    let node = wishes().node.map(|it| NodeWishes { default_ips, ..it });
    let wishes = Wishes { joins: joins.clone(), node, ..wishes() };
    let made = choose(&wishes, None, &around(Vec::new())).unwrap();
    assert_eq!((made.https_port, made.server()), (0, "192.0.2.1:6443".to_owned()));
    assert!(made.node_cidrs().is_empty() && made.gateways().is_empty());
    assert!(choose(&wishes, Some(&made), &around(Vec::new())).is_ok());
    // A directory stays what it is.
    let up = Wishes { joins: None, ..self::wishes() };
    let said = choose(&up, Some(&made), &around(Vec::new())).unwrap_err();
    assert!(said[0].contains("start it with `xebec join`"), "{said:?}");
    let said = choose(&wishes, Some(&cluster("a")), &around(Vec::new())).unwrap_err();
    assert!(said[0].contains("is that of the cluster a"), "{said:?}");
}
