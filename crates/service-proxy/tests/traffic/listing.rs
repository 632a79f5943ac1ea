//! `nft` reads all rules of the host for any command, and dies of one that it cannot make sense of.
//! Ours must not be the one.

use std::process::{Command, Output};
use std::time::Duration;

use apimachinery::ObjectKey;
use linux::netlink::nftables::TableId;
use linux::netlink::nftables::draft::table_family;
use service_proxy::service_port::{Protocol, ServicePort, TrafficPolicy};
use stdx::{Cidr, Family};

use super::nodes::{Nodes, addresses, tcp, udp};
use super::{Case, at, cluster, everywhere};

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
fn every_kind(case: Case) -> Vec<ServicePort> {
    let affinity = Some(Duration::from_secs(600));
    let (internal_policy, external_policy) = (TrafficPolicy::Local, TrafficPolicy::Local);
    let external_ips = [addresses::external(case.family, 1)].into();
    let node = addresses::node(case.family);
    let neighbors = Cidr::containing(node, case.family.bits() - 8).unwrap();
    let of = |endpoints: &[usize], local: &[usize]| case.port(Protocol::Tcp, endpoints, local);
    let many: Vec<_> = (0..20).collect();
    let kinds = [
        ServicePort { node_port: None, ..of(&[0], &[0]) },
        of(&many, &[0, 1]),
        ServicePort { external_ips, ..of(&[0, 1], &[0]) },
        ServicePort {
            load_balancer_ips: [addresses::external(case.family, 2)].into(),
            source_ranges: Some([neighbors].into()),
            ..of(&[0], &[0])
        },
        ServicePort { internal_policy, external_policy, ..of(&[0, 1], &[0]) },
        ServicePort { internal_policy, external_policy, ..of(&[0, 1], &[]) },
        ServicePort { affinity, ..of(&[0, 1], &[0]) },
        ServicePort { affinity, internal_policy, external_policy, ..of(&[0, 1], &[0, 1]) },
        of(&[], &[]),
        case.port(Protocol::Udp, &[0], &[0]),
        ServicePort { affinity, ..case.port(Protocol::Udp, &[0, 1], &[0]) },
        case.port(Protocol::Udp, &[], &[]),
    ];
    let numbered = kinds.into_iter().zip(1..).map(|(kind, number)| ServicePort {
        cluster_ip: addresses::service(case.family, 100 + number),
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
    everywhere(|case| {
        if case.mode.name == "nftables" {
            list_every_kind(case);
        }
    });
}

fn list_every_kind(case: Case) {
    let Some(nodes) = Nodes::new(2) else { return };
    let mut backend = case.open(&nodes);
    let services = every_kind(case);
    for (number, service) in services.iter().enumerate() {
        let name = ObjectKey::new("default", format!("kind-{number}"));
        backend.set(&name, vec![service.clone()]);
    }
    backend.resync().unwrap();
    // Those with affinity remember a client from now on.
    for service in services.iter().filter(|it| it.affinity.is_some()) {
        let ask = if service.protocol == Protocol::Udp { udp } else { tcp };
        ask(&nodes.node, at(service.cluster_ip, service.port)).unwrap();
        ask(&nodes.client, case.at_node(service.node_port.unwrap())).unwrap();
    }
    let Some(output) = nft(&nodes, "list ruleset") else { return };
    let listing = String::from_utf8(output.stdout).unwrap();
    let complaints = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && complaints.is_empty(), "{}{complaints}", output.status);
    let id = TableId::new(table_family(case.family), cluster().table("services"));
    check_listing(case, &services, listing.split_once(&format!("table {id} {{")).unwrap().1);
    // Of statements that change a map, some versions say that they cannot write them as JSON, and
    // write them as text.
    let table = format!("-a list table {id}");
    for words in ["-j list ruleset", "list tables", &table] {
        let Some(output) = nft(&nodes, words) else { return };
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

fn check_listing(case: Case, services: &[ServicePort], listing: &str) {
    for endpoint in services.iter().flat_map(|it| &it.endpoints.cluster) {
        let data = format!("{} . {}", endpoint.address, endpoint.port);
        assert!(block(listing, "map endpoints {").contains(&data), "{data}: {listing}");
    }
    // Whichever was chosen.
    let chosen = [0, 1].map(|it| addresses::pod(case.family, it).to_string());
    let affinity = block(listing, "map affinity {");
    assert!(chosen.iter().any(|it| affinity.contains(it)), "{listing}");
    let word = match case.family {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    };
    let key = format!("meta l4proto . {word} daddr . th dport");
    for (chain, expected) in [
        ("choose", format!("{key} vmap @sticky")),
        ("choose", format!("{key} @cluster-32 goto pick-32")),
        ("pick-2", format!("dnat {word} to {key} . numgen random mod 2 map @endpoints")),
        ("known-600", format!("{key} . {word} daddr . th dport @cluster-members")),
        ("known-600", format!("update @affinity {{ {word} saddr . {key} timeout 10m")),
    ] {
        let rules = block(listing, &format!("chain {chain} {{"));
        assert!(rules.contains(&expected), "{expected}: {rules}");
    }
}
