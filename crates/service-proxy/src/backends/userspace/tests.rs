//! Ports in, portals and ports out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use apimachinery::ObjectKey;
use linux::netlink::route::Address;
use stdx::Family;

use super::address;
use super::portals::{Door, Scope, behind_portals, id, portal};
use crate::service_port::{Endpoint, Endpoints, Protocol, ServicePort, TrafficPolicy};

fn web() -> ObjectKey {
    ObjectKey::new("default", "web")
}

fn endpoints(numbers: &[u8]) -> BTreeSet<Endpoint> {
    numbers.iter().map(|it| Endpoint { address: [10, 0, 0, *it].into(), port: 80 }).collect()
}

fn port(cluster: &[u8], local: &[u8]) -> ServicePort {
    ServicePort {
        name: "http".into(),
        cluster_ip: [10, 96, 0, 7].into(),
        protocol: Protocol::Tcp,
        port: 80,
        node_port: None,
        external_ips: BTreeSet::new(),
        load_balancer_ips: BTreeSet::new(),
        source_ranges: None,
        affinity: Some(Duration::from_secs(7)),
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Local,
        health_check_node_port: None,
        endpoints: Endpoints {
            cluster: endpoints(cluster),
            local: endpoints(local),
            serving: endpoints(cluster),
        },
    }
}

#[test]
fn each_choice_of_endpoints_that_is_needed_has_a_portal() {
    let check = |port: &ServicePort, expected: &[&str]| {
        let portals = Scope::BOTH.map(|it| portal(&web(), port, it, [192, 0, 2, 1].into()));
        let shown = portals.into_iter().flatten().map(|it| {
            let endpoints: Vec<_> = it.endpoints.iter().map(ToString::to_string).collect();
            format!("{} {} {:?}", it.id, endpoints.join(","), it.affinity.unwrap())
        });
        assert_eq!(shown.collect::<Vec<_>>(), expected);
    };
    let all = "default/web:http/80/Tcp/IPv4/Cluster 10.0.0.1:80,10.0.0.2:80 7s";
    let local = "default/web:http/80/Tcp/IPv4/Local 10.0.0.2:80 7s";
    check(&port(&[1, 2], &[2]), &[all, local]);
    check(&port(&[1, 2], &[]), &[all]);
    let anywhere = TrafficPolicy::Cluster;
    check(&ServicePort { external_policy: anywhere, ..port(&[1, 2], &[2]) }, &[all]);
    check(&port(&[], &[]), &[]);
    check(&ServicePort { protocol: Protocol::Sctp, ..port(&[1, 2], &[2]) }, &[]);
}

#[test]
fn packets_are_sent_to_portals_and_where_there_is_none_to_nobody() {
    let port = port(&[1, 2], &[2]);
    let door = Door { protocol: Protocol::Tcp, address: [192, 0, 2, 1].into(), port: 40_000 };
    let doors = BTreeMap::from([(id(&web(), &port, Scope::Cluster), door)]);
    let behind = behind_portals(&web(), port.clone(), &doors);
    let one: BTreeSet<_> = [Endpoint { address: door.address, port: door.port }].into();
    let expected = Endpoints { cluster: one.clone(), local: BTreeSet::new(), serving: one };
    assert_eq!(behind, ServicePort { affinity: None, endpoints: expected, ..port });
}

#[test]
fn the_worker_listens_where_packets_can_be_sent() {
    let check = |addresses: &[(u32, &str, u8)], family: Family, expected: Option<&str>| {
        let addresses: Vec<_> = addresses
            .iter()
            .map(|(link, address, scope)| Address {
                link: *link,
                address: address.parse().unwrap(),
                prefix_length: 24,
                scope: *scope,
            })
            .collect();
        let services = ["10.96.0.0/12".parse().unwrap()];
        let found = address::choose(&addresses, family, &services);
        assert_eq!(found, expected.map(|it| it.parse().unwrap()));
    };
    let all = [
        (1, "127.0.0.1", 254),
        (1, "10.96.0.1", 0),
        (3, "10.244.0.1", 0),
        (2, "192.0.2.1", 0),
        (2, "fe80::1", 253),
        (2, "2001:db8::1", 0),
    ];
    check(&all, Family::V4, Some("192.0.2.1"));
    check(&all, Family::V6, Some("2001:db8::1"));
    check(&all[..2], Family::V4, None);
}
