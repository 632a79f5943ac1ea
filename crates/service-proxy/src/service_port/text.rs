//! Ports of Services as short text, for tests.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use stdx::{Cidr, Family};

use super::{Endpoint, Endpoints, Protocol, ServicePort, TrafficPolicy};

/// `tcp 10.96.0.1:80 node=30080 ip=192.0.2.1 lb=192.0.2.2 from=192.0.2.0/24 sticky=10 internal
/// external : 1 2*`, where `internal` and `external` stand for policy Local, and endpoints are the
/// last number of 10.0.0.x:8080, or of [fd01::x]:8080 for a ClusterIP of IPv6, with `*` on this node.
pub(crate) fn port(text: &str) -> ServicePort {
    let (front, back) = text.split_once(" :").unwrap();
    let mut words = front.split(' ');
    let protocol = match words.next().unwrap() {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        _ => Protocol::Sctp,
    };
    let (address, number) = words.next().unwrap().rsplit_once(':').unwrap();
    let mut port = ServicePort {
        name: String::new(),
        cluster_ip: address.trim_matches(['[', ']']).parse().unwrap(),
        protocol,
        port: number.parse().unwrap(),
        node_port: None,
        external_ips: BTreeSet::new(),
        load_balancer_ips: BTreeSet::new(),
        source_ranges: None,
        affinity: None,
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        health_check_node_port: None,
        endpoints: Endpoints::default(),
    };
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("node", number) => port.node_port = Some(number.parse().unwrap()),
            ("ip", address) => drop(port.external_ips.insert(address.parse().unwrap())),
            ("lb", address) => drop(port.load_balancer_ips.insert(address.parse().unwrap())),
            ("from", range) => {
                let ranges = port.source_ranges.get_or_insert_default();
                ranges.extend((!range.is_empty()).then(|| range.parse::<Cidr>().unwrap()));
            }
            ("sticky", seconds) => {
                port.affinity = Some(Duration::from_secs(seconds.parse().unwrap()));
            }
            ("internal", _) => port.internal_policy = TrafficPolicy::Local,
            ("external", _) => port.external_policy = TrafficPolicy::Local,
            _ => panic!("{word}"),
        }
    }
    for word in back.split(' ').filter(|it| !it.is_empty()) {
        let last: u8 = word.trim_end_matches('*').parse().unwrap();
        let address = match port.family() {
            Family::V4 => IpAddr::from([10, 0, 0, last]),
            Family::V6 => Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, last.into()).into(),
        };
        let endpoint = Endpoint { address, port: 8080 };
        port.endpoints.cluster.insert(endpoint);
        if word.ends_with('*') {
            port.endpoints.local.insert(endpoint);
        }
    }
    port
}
