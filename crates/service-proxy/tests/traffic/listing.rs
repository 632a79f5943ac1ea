//! `nft` reads all rules of the host for any command, and dies of one that it cannot make sense of.
//! Ours must not be the one.

use std::net::Ipv4Addr;
use std::process::{Command, Output};
use std::time::Duration;

use apimachinery::ObjectKey;
use service_proxy::service_port::{Network, Protocol, ServicePort, TrafficPolicy};

use super::nodes::{NODE, Nodes, pod_address, tcp, udp};
use super::{at, open, port};

/// `None`, and says so, where there is no `nft`.
fn nft(nodes: &Nodes, words: &str) -> Option<Output> {
    let run = || Command::new("nft").args(words.split(' ')).output();
    match nodes.node.run(run).unwrap() {
        Ok(output) => Some(output),
        Err(err) => {
            eprintln!("SKIPPED: nft: {err}");
            None
        }
    }
}

/// One Service of each kind, each at an address and a node port of its own.
fn every_kind() -> Vec<ServicePort> {
    let affinity = Some(Duration::from_secs(600));
    let (internal_policy, external_policy) = (TrafficPolicy::Local, TrafficPolicy::Local);
    let external_ips = [Ipv4Addr::new(198, 51, 100, 1)].into();
    let of = |endpoints: &[usize], local: &[usize]| port(Protocol::Tcp, endpoints, local);
    let many: Vec<_> = (0..20).collect();
    let kinds = [
        ServicePort { node_port: None, ..of(&[0], &[0]) },
        of(&many, &[0, 1]),
        ServicePort { external_ips, ..of(&[0, 1], &[0]) },
        ServicePort {
            load_balancer_ips: [Ipv4Addr::new(198, 51, 100, 2)].into(),
            source_ranges: [Network { address: NODE, prefix_length: 24 }].into(),
            ..of(&[0], &[0])
        },
        ServicePort { internal_policy, external_policy, ..of(&[0, 1], &[0]) },
        ServicePort { internal_policy, external_policy, ..of(&[0, 1], &[]) },
        ServicePort { affinity, ..of(&[0, 1], &[0]) },
        ServicePort { affinity, internal_policy, external_policy, ..of(&[0, 1], &[0, 1]) },
        of(&[], &[]),
        port(Protocol::Udp, &[0], &[0]),
        ServicePort { affinity, ..port(Protocol::Udp, &[0, 1], &[0]) },
        port(Protocol::Udp, &[], &[]),
    ];
    let numbered = kinds.into_iter().zip(1..).map(|(kind, number)| ServicePort {
        cluster_ip: Ipv4Addr::new(10, 96, 1, number),
        node_port: kind.node_port.map(|_| 30100 + u16::from(number)),
        ..kind
    });
    numbered.collect()
}

/// What is in the lines after the one that starts so, up to a closing brace at the same depth.
fn block<'a>(listing: &'a str, start: &str) -> &'a str {
    let (_, rest) = listing.split_once(start).unwrap_or_else(|| panic!("{start}: {listing}"));
    rest.split_once("\n\t}").unwrap().0
}

#[test]
fn nft_lists_every_kind_of_service() {
    let Some(nodes) = Nodes::new(2) else { return };
    let mut backend = open(&nodes);
    let services = every_kind();
    for (number, service) in services.iter().enumerate() {
        let name = ObjectKey::new("default", format!("kind-{number}"));
        backend.set(&name, vec![service.clone()]);
    }
    backend.resync().unwrap();
    // Those with affinity remember a client from now on.
    for service in services.iter().filter(|it| it.affinity.is_some()) {
        let ask = if service.protocol == Protocol::Udp { udp } else { tcp };
        ask(&nodes.node, at(service.cluster_ip, service.port)).unwrap();
        ask(&nodes.client, at(NODE, service.node_port.unwrap())).unwrap();
    }
    let Some(output) = nft(&nodes, "list ruleset") else { return };
    let listing = String::from_utf8(output.stdout).unwrap();
    let complaints = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && complaints.is_empty(), "{}{complaints}", output.status);
    for endpoint in services.iter().flat_map(|it| &it.endpoints.cluster) {
        let data = format!("{} . {}", endpoint.address, endpoint.port);
        assert!(block(&listing, "map endpoints {").contains(&data), "{data}: {listing}");
    }
    assert!(block(&listing, "map affinity {").contains(&pod_address(0).to_string()), "{listing}");
    let key = "meta l4proto . ip daddr . th dport";
    for (chain, expected) in [
        ("services", format!("{key} vmap @internal")),
        ("pick-2", format!("dnat ip to {key} . numgen random mod 2 map @endpoints")),
        ("known-600", format!("dnat ip to ip saddr . {key} map @affinity")),
    ] {
        let rules = block(&listing, &format!("chain {chain} {{"));
        assert!(rules.contains(&expected), "{expected}: {rules}");
    }
    // Of statements that change a map, some versions say that they cannot write them as JSON, and
    // write them as text.
    let table = format!("-a list table ip {}", crate::cluster().table("services"));
    for words in ["-j list ruleset", "list tables", &table] {
        let Some(output) = nft(&nodes, words) else { return };
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
