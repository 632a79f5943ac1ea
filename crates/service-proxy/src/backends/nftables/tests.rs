//! Services as short text in, elements as short text out; and a model of the kernel that changes
//! must keep equal to the table.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use apimachinery::ObjectKey;
use linux::netlink::nftables::{
    Change, Data, DataType, Key, Observed, ObservedSet, Table, Type, Value, Verdict,
};
use proptest::prelude::*;
use stdx::Family;

use super::chains::FamilyNetworks;
use super::ruleset::Ruleset;
use super::{chains, sets};
use crate::backends::Networks;
use crate::service_port::frontend::Frontend;
use crate::service_port::text::port;
use crate::service_port::{Endpoint, Protocol};

fn networks(family: Family) -> FamilyNetworks {
    let ranges = |texts: [&str; 2]| texts.map(|it| it.parse().unwrap()).into();
    let networks = Networks {
        cluster: ranges(["10.0.0.0/16", "fd01::/56"]),
        services: ranges(["10.96.0.0/12", "fd00::/108"]),
        node_ports: None,
        worker: None,
    };
    FamilyNetworks::of(family, &networks)
}

fn ruleset() -> Ruleset {
    Ruleset::new(networks(Family::V4))
}

fn name(text: &str) -> ObjectKey {
    ObjectKey::new("default", text)
}

fn show_value(value: &Value, types: &[Type]) -> String {
    let mut rest = value.as_bytes();
    let mut take = |length| rest.split_off(..length).unwrap();
    let fields = types.iter().map(|kind| match kind {
        Type::Ipv4Address => Ipv4Addr::from(*take(4).first_chunk::<4>().unwrap()).to_string(),
        Type::Ipv6Address => Ipv6Addr::from(*take(16).first_chunk::<16>().unwrap()).to_string(),
        Type::Protocol => ["tcp", "udp"][usize::from(take(4)[0] != 6)].to_owned(),
        Type::Port => u16::from_be_bytes(*take(4).first_chunk::<2>().unwrap()).to_string(),
        Type::Mark => format!("#{}", u32::from_ne_bytes(*take(4).first_chunk::<4>().unwrap())),
        Type::InterfaceName => panic!("no such key"),
    });
    fields.collect::<Vec<_>>().join(" ")
}

/// All elements, sorted as text.
fn show(table: &Table) -> Vec<String> {
    let mut lines = Vec::new();
    for (set, elements) in &table.elements {
        let definition = &table.sets[set];
        for (key, data) in elements {
            let mut line = format!("{set}: {}", show_value(&key.start, &definition.key));
            if let Some(end) = &key.end {
                line += &format!(" - {}", show_value(end, &definition.key));
            }
            match (data, &definition.data) {
                (Some(Data::Value(value)), Some(DataType::Value(types))) => {
                    line += &format!(" -> {}", show_value(value, types));
                }
                (Some(Data::Verdict(Verdict::Goto(chain))), _) => line += &format!(" -> {chain}"),
                (Some(Data::Verdict(verdict)), _) => line += &format!(" -> {verdict:?}"),
                _ => {}
            }
            lines.push(line);
        }
    }
    lines.sort();
    lines
}

fn check(service: &str, expected: &[&str]) {
    let port = port(service);
    let mut ruleset = Ruleset::new(networks(port.family()));
    ruleset.set(&name("web"), vec![port]);
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(show(&ruleset.table()), expected, "{service}");
}

#[test]
fn a_cluster_ip_is_one_element_and_one_for_each_endpoint() {
    check(
        "tcp 10.96.0.1:80 : 1 2",
        &[
            "cluster-ips: 10.96.0.1",
            "endpoints: tcp 10.96.0.1 80 #0 -> 10.0.0.1 8080",
            "endpoints: tcp 10.96.0.1 80 #1 -> 10.0.0.2 8080",
            "cluster-2: tcp 10.96.0.1 80",
        ],
    );
}

#[test]
fn a_service_without_endpoints_refuses_at_each_frontend() {
    check(
        "udp 10.96.0.1:53 node=30053 ip=192.0.2.1 :",
        &[
            "cluster-ips: 10.96.0.1",
            "external: udp 0.0.0.0 30053",
            "external: udp 192.0.2.1 53",
            "no-endpoints: udp 0.0.0.0 30053",
            "no-endpoints: udp 10.96.0.1 53",
            "no-endpoints: udp 192.0.2.1 53",
        ],
    );
}

#[test]
fn each_external_frontend_has_slots_of_its_own() {
    check(
        "tcp 10.96.0.1:80 node=30080 lb=192.0.2.2 from=192.0.2.0/24 : 1",
        &[
            "cluster-ips: 10.96.0.1",
            "cluster-1: tcp 0.0.0.0 30080",
            "cluster-1: tcp 10.96.0.1 80",
            "cluster-1: tcp 192.0.2.2 80",
            "endpoints: tcp 0.0.0.0 30080 #0 -> 10.0.0.1 8080",
            "endpoints: tcp 10.96.0.1 80 #0 -> 10.0.0.1 8080",
            "endpoints: tcp 192.0.2.2 80 #0 -> 10.0.0.1 8080",
            "external: tcp 0.0.0.0 30080",
            "external: tcp 192.0.2.2 80",
            "guarded: tcp 192.0.2.2 80",
            "sources: tcp 192.0.2.2 80 192.0.2.0 - tcp 192.0.2.2 80 192.0.2.255",
        ],
    );
}

#[test]
fn a_service_of_ipv6_has_the_same_elements() {
    check(
        "tcp [fd00::1]:80 node=30080 lb=2001:db8::2 from=2001:db8::/32 sticky=10 : 1*",
        &[
            "cluster-ips: fd00::1",
            "cluster-members: tcp 2001:db8::2 80 fd01::1 8080",
            "cluster-members: tcp :: 30080 fd01::1 8080",
            "cluster-members: tcp fd00::1 80 fd01::1 8080",
            "sticky: tcp 2001:db8::2 80 -> stick-10-1",
            "sticky: tcp :: 30080 -> stick-node-port-10-1",
            "endpoints: tcp 2001:db8::2 80 #0 -> fd01::1 8080",
            "endpoints: tcp :: 30080 #0 -> fd01::1 8080",
            "endpoints: tcp fd00::1 80 #0 -> fd01::1 8080",
            "external: tcp 2001:db8::2 80",
            "external: tcp :: 30080",
            "guarded: tcp 2001:db8::2 80",
            "hairpin: fd01::1 fd01::1",
            "sticky: tcp fd00::1 80 -> stick-10-1",
            "sources: tcp 2001:db8::2 80 2001:db8:: - \
             tcp 2001:db8::2 80 2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
        ],
    );
}

#[test]
fn ranges_of_the_other_family_alone_let_nobody_in() {
    check(
        "tcp 10.96.0.1:80 lb=192.0.2.2 from= :",
        &[
            "cluster-ips: 10.96.0.1",
            "external: tcp 192.0.2.2 80",
            "guarded: tcp 192.0.2.2 80",
            "no-endpoints: tcp 10.96.0.1 80",
            "no-endpoints: tcp 192.0.2.2 80",
        ],
    );
}

#[test]
fn policy_local_has_slots_of_its_own() {
    check(
        "tcp 10.96.0.1:80 node=30080 external : 1 2*",
        &[
            "cluster-ips: 10.96.0.1",
            "cluster-2: tcp 0.0.0.0 30080",
            "cluster-2: tcp 10.96.0.1 80",
            "endpoints: tcp 0.0.0.0 30080 #0 -> 10.0.0.1 8080",
            "endpoints: tcp 0.0.0.0 30080 #1 -> 10.0.0.2 8080",
            "endpoints: tcp 0.0.0.0 30080 #65536 -> 10.0.0.2 8080",
            "endpoints: tcp 10.96.0.1 80 #0 -> 10.0.0.1 8080",
            "endpoints: tcp 10.96.0.1 80 #1 -> 10.0.0.2 8080",
            "endpoints: tcp 10.96.0.1 80 #65536 -> 10.0.0.2 8080",
            "external-local: tcp 0.0.0.0 30080",
            "hairpin: 10.0.0.2 10.0.0.2",
            "local-1: tcp 0.0.0.0 30080",
        ],
    );
    check(
        "tcp 10.96.0.1:80 internal : 1 2*",
        &[
            "cluster-ips: 10.96.0.1",
            "endpoints: tcp 10.96.0.1 80 #65536 -> 10.0.0.2 8080",
            "hairpin: 10.0.0.2 10.0.0.2",
            "internal-local: tcp 10.96.0.1 80",
            "local-1: tcp 10.96.0.1 80",
        ],
    );
}

#[test]
fn policy_local_without_local_endpoints_drops() {
    check(
        "tcp 10.96.0.1:80 node=30080 internal external : 1",
        &[
            "cluster-ips: 10.96.0.1",
            "cluster-1: tcp 0.0.0.0 30080",
            "endpoints: tcp 0.0.0.0 30080 #0 -> 10.0.0.1 8080",
            "endpoints: tcp 10.96.0.1 80 #0 -> 10.0.0.1 8080",
            "external-local: tcp 0.0.0.0 30080",
            "internal-local: tcp 10.96.0.1 80",
            "no-local-endpoints: tcp 0.0.0.0 30080",
            "no-local-endpoints: tcp 10.96.0.1 80",
        ],
    );
}

#[test]
fn affinity_needs_to_know_its_endpoints() {
    check(
        "tcp 10.96.0.1:80 sticky=10 : 1 2",
        &[
            "cluster-ips: 10.96.0.1",
            "cluster-members: tcp 10.96.0.1 80 10.0.0.1 8080",
            "cluster-members: tcp 10.96.0.1 80 10.0.0.2 8080",
            "endpoints: tcp 10.96.0.1 80 #0 -> 10.0.0.1 8080",
            "endpoints: tcp 10.96.0.1 80 #1 -> 10.0.0.2 8080",
            "sticky: tcp 10.96.0.1 80 -> stick-10-2",
        ],
    );
}

/// How many elements, chains and rules the changes touch.
fn n_touched(changes: &[Change]) -> (usize, usize) {
    let count = |it: &Change| match it {
        Change::AddElements { elements, .. } => (elements.len(), 0),
        Change::DeleteElements { keys, .. } => (keys.len(), 0),
        _ => (0, 1),
    };
    changes.iter().map(count).fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1))
}

#[test]
fn one_endpoint_more_or_less_touches_few_elements_and_no_rule() {
    let mut ruleset = ruleset();
    let all: Vec<_> = (1..=200).map(|it| it.to_string()).collect();
    let text =
        |it: &[String]| format!("tcp 10.96.0.1:80 node=30080 ip=192.0.2.1 : {}", it.join(" "));
    ruleset.set(&name("web"), vec![port(&text(&all))]);
    ruleset.take_changes();
    let mut without = all.clone();
    without.remove(77);
    ruleset.set(&name("web"), vec![port(&text(&without))]);
    // For each of three frontends the last slot into the hole: a removal, and a removal and an
    // addition.
    assert_eq!(n_touched(&ruleset.take_changes()), (3 * (1 + 2), 0));
    ruleset.set(&name("web"), vec![port(&text(&all))]);
    assert_eq!(n_touched(&ruleset.take_changes()), (3, 0));
    ruleset.set(&name("web"), vec![port(&text(&all))]);
    assert_eq!(ruleset.take_changes(), []);
}

#[test]
fn chains_that_nobody_needs_stay_until_they_are_too_many() {
    let mut ruleset = ruleset();
    let mut kernel = ruleset.table();
    let mut n_chains = Vec::new();
    for seconds in 1..=600 {
        let text = format!("tcp 10.96.0.1:80 sticky={seconds} : 1 2");
        ruleset.set(&name("web"), vec![port(&text)]);
        play(&mut kernel, &ruleset.take_changes());
        n_chains.push(kernel.chains.len());
    }
    assert_eq!(kernel, ruleset.table());
    let most = n_chains[0] + 2 * 256;
    assert_eq!(n_chains.iter().max(), Some(&most), "two for each time");
}

#[test]
fn of_two_services_at_one_address_the_first_by_name_has_it() {
    let of = |ruleset: &Ruleset| {
        let lines = show(&ruleset.table()).into_iter();
        let is_of = |line: &String| {
            (line.starts_with("cluster-") || line.starts_with("endpoints: "))
                && format!("{line} ").contains(" 192.0.2.1 80 ")
        };
        lines.filter(is_of).collect::<Vec<_>>()
    };
    let mut ruleset = ruleset();
    let of_b = ["cluster-1: tcp 192.0.2.1 80", "endpoints: tcp 192.0.2.1 80 #0 -> 10.0.0.2 8080"];
    ruleset.set(&name("b"), vec![port("tcp 10.96.0.2:80 ip=192.0.2.1 : 2")]);
    assert_eq!(of(&ruleset), of_b);
    ruleset.set(&name("a"), vec![port("tcp 10.96.0.1:80 ip=192.0.2.1 : 1 3")]);
    let of_a = [
        "cluster-2: tcp 192.0.2.1 80",
        "endpoints: tcp 192.0.2.1 80 #0 -> 10.0.0.1 8080",
        "endpoints: tcp 192.0.2.1 80 #1 -> 10.0.0.3 8080",
    ];
    assert_eq!(of(&ruleset), of_a);
    // It refuses rather than let another have it.
    ruleset.set(&name("a"), vec![port("tcp 10.96.0.1:80 ip=192.0.2.1 :")]);
    assert!(of(&ruleset).is_empty(), "nothing of the other");
    ruleset.set(&name("a"), Vec::new());
    assert_eq!(of(&ruleset), of_b);
}

/// What the kernel would hold; panics where it would refuse.
fn play(table: &mut Table, changes: &[Change]) {
    for change in changes {
        match change {
            Change::AddChain(name, chain) => {
                let chain = linux::netlink::nftables::Chain { rules: vec![], ..chain.clone() };
                assert!(table.chains.insert(name.clone(), chain).is_none());
            }
            Change::AddRule { chain, rule } => {
                table.chains.get_mut(chain).unwrap().rules.push(rule.clone());
            }
            Change::InsertRule { .. } | Change::DeleteRule { .. } => {
                panic!("rules here come and go with their chains")
            }
            Change::FlushChain(name) => table.chains.get_mut(name).unwrap().rules.clear(),
            Change::DeleteChain(name) => {
                assert!(table.chains.remove(name).unwrap().rules.is_empty());
            }
            Change::AddElements { set, elements } => {
                for element in elements {
                    if let Some(Data::Verdict(Verdict::Goto(chain))) = &element.data {
                        assert!(table.chains.contains_key(chain));
                    }
                    let elements = table.elements.entry(set).or_default();
                    let before = elements.insert(element.key.clone(), element.data.clone());
                    assert_eq!(before, None, "{set} {:?}", element.key);
                }
            }
            Change::DeleteElements { set, keys } => {
                let elements = table.elements.get_mut(set).unwrap();
                for key in keys {
                    assert!(elements.remove(key).is_some(), "{set} {key:?}");
                }
                if elements.is_empty() {
                    table.elements.remove(set);
                }
            }
            Change::AddTable | Change::DeleteTable | Change::AddSet(..) | Change::DeleteSet(_) => {
                panic!("{change:?}")
            }
        }
    }
}

/// Any state of one of three Services; two may claim the same external address.
fn any_service() -> impl Strategy<Value = (u8, Option<String>)> {
    let words = [
        "node",
        "ip=192.0.2.1",
        "sticky=10",
        "sticky=20",
        "internal",
        "external",
        "lb=192.0.2.2 from=10.1.0.0/16",
    ];
    let words = proptest::sample::subsequence(words.to_vec(), 0..=7);
    let protocols = proptest::sample::select(vec!["tcp", "udp"]);
    let endpoints = proptest::collection::btree_map(1u8..9, any::<bool>(), 0..6);
    (0u8..3, any::<bool>(), protocols, words, endpoints).prop_map(
        |(service, is_there, protocol, words, endpoints)| {
            let words = words.join(" ").replace("node", &format!("node=3000{service}"));
            let endpoints = endpoints
                .iter()
                .map(|(it, is_local)| format!(" {it}{}", if *is_local { "*" } else { "" }));
            let front = format!("{protocol} 10.96.0.{service}:80 {words}");
            let text = format!("{} :{}", front.trim_end(), endpoints.collect::<String>());
            (service, is_there.then_some(text))
        },
    )
}

/// The same Service with addresses of IPv6.
fn as_ipv6(text: &str) -> String {
    let text = text.replace("192.0.2.", "2001:db8::").replace("10.1.0.0/16", "2001:db8::/32");
    let (before, rest) = text.split_once("10.96.0.").unwrap();
    let (number, rest) = rest.split_once(':').unwrap();
    format!("{before}[fd00::{number}]:{rest}")
}

fn observed_of(table: &Table) -> Observed {
    let elements = table.elements.get(sets::ENDPOINTS).cloned().unwrap_or_default();
    let signature = table.sets[sets::ENDPOINTS].signature();
    let set = ObservedSet { signature, elements };
    Observed { sets: BTreeMap::from([(sets::ENDPOINTS.to_owned(), set)]), ..Observed::default() }
}

proptest! {
    #[test]
    fn changes_keep_the_kernel_equal_to_the_table(
        steps in proptest::collection::vec(proptest::collection::vec(any_service(), 1..4), 1..8),
        is_ipv6: bool,
    ) {
        let family = if is_ipv6 { Family::V6 } else { Family::V4 };
        let mut ruleset = Ruleset::new(networks(family));
        let mut kernel = ruleset.table();
        let mut last = BTreeMap::new();
        for step in steps {
            for (service, text) in step {
                let text = text.map(|it| if is_ipv6 { as_ipv6(&it) } else { it });
                let ports: Vec<_> = text.as_deref().map(port).into_iter().collect();
                ruleset.set(&name(&service.to_string()), ports.clone());
                last.insert(service, ports);
            }
            play(&mut kernel, &ruleset.take_changes());
            prop_assert_eq!(&kernel, &ruleset.table());
        }
        // After a restart the same Services need no change, slots included.
        let mut again = Ruleset::new(networks(family));
        again.adopt(&observed_of(&kernel));
        for (service, ports) in last {
            again.set(&name(&service.to_string()), ports);
        }
        prop_assert_eq!(show(&again.table()), show(&kernel));
    }
}

#[test]
fn every_chain_and_set_that_a_rule_names_is_there() {
    for (family, address) in [(Family::V4, "10.96.0.1"), (Family::V6, "[fd00::1]")] {
        check_names(family, &format!("tcp {address}:80 node=3 sticky=9 external : 1 2*"));
    }
}

fn check_names(family: Family, text: &str) {
    let mut ruleset = Ruleset::new(networks(family));
    ruleset.set(&name("a"), vec![port(text)]);
    let table = ruleset.table();
    let text = format!("{:?}", table.chains);
    for set in table.sets.keys() {
        assert!(text.contains(&format!("set: {set:?}")), "no rule asks {set}");
    }
    for start in ["Goto(\"", "Jump(\""] {
        for rest in text.split(start).skip(1) {
            let chain = rest.split('"').next().unwrap();
            assert!(table.chains.contains_key(chain), "{chain}");
        }
    }
    // For the ClusterIP one scope, for the node port both, each with two chains of affinity.
    assert_eq!(chains::all(&networks(family)).len() + 3 * 2, table.chains.len());
}

#[test]
fn a_slot_is_read_as_it_was_written() {
    let address = [10, 96, 0, 1].into();
    let to = Frontend { protocol: Protocol::Udp, address, port: 53 };
    let endpoint = Endpoint { address: [10, 0, 0, 1].into(), port: 8080 };
    for (scope, slot) in [(sets::Scope::Cluster, 7), (sets::Scope::Local, 0)] {
        let read =
            sets::read_slot(Family::V4, &sets::slot(to, scope, slot), &sets::endpoint(endpoint));
        assert_eq!(read, Some((to, scope, slot, endpoint)));
    }
    let short = Key::from(Value::new().mark(1));
    assert_eq!(sets::read_slot(Family::V4, &short, &sets::endpoint(endpoint)), None);
    let whole = sets::slot(to, sets::Scope::Cluster, 0);
    assert_eq!(sets::read_slot(Family::V6, &whole, &sets::endpoint(endpoint)), None);
}
