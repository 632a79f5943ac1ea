//! Services as short text in, lines for `iptables-restore` out.

use std::collections::BTreeMap;

use apimachinery::ObjectKey;
use stdx::Family;

use super::names::Names;
use super::rules::{self, FamilyNetworks};
use super::ruleset::{Ruleset, removal};
use super::saved::parse;
use crate::backends::Networks;
use crate::service_port::text::port;
use crate::service_port::{Endpoint, Protocol, ServicePort};

fn networks() -> FamilyNetworks {
    let networks = Networks {
        cluster: vec!["10.0.0.0/16".parse().unwrap()],
        services: vec!["10.96.0.0/12".parse().unwrap()],
        node_ports: None,
        worker: None,
    };
    FamilyNetworks::of(Family::V4, &networks)
}

fn named(service: (&str, &str), name: &str, protocol: Protocol) -> Names {
    let port = ServicePort { name: name.to_owned(), protocol, ..port("tcp 10.96.0.1:80 :") };
    Names::of(&ObjectKey::new(service.0, service.1), &port)
}

#[test]
fn chains_are_named_as_upstream_names_them() {
    let check = |service, name, protocol, expected: &str| {
        assert_eq!(named(service, name, protocol).cluster(), expected);
    };
    let watcher = ("default", "crd-array-watcher");
    let dns = ("kube-system", "kube-dns");
    check(watcher, "", Protocol::Tcp, "KUBE-SVC-HW2XM7FRY33HEVYM");
    check(dns, "dns", Protocol::Udp, "KUBE-SVC-TCOU7JCQXEZGVUNU");
    check(dns, "metrics", Protocol::Tcp, "KUBE-SVC-JD5MR3NA4I4DYORP");
    let endpoint = Endpoint { address: [10, 244, 0, 35].into(), port: 8080 };
    let names = named(watcher, "", Protocol::Tcp);
    assert_eq!(names.endpoint(endpoint), "KUBE-SEP-PLQTWCYKKRRVAV4U");
    // What no server should send becomes no other rule.
    let odd = named(("default", "a\n-A INPUT \"b"), "", Protocol::Tcp);
    assert_eq!(odd.port, "default/a_-A_INPUT__b");
}

/// Lines with the hashes of `default/web` replaced.
fn show(text: &str) -> Vec<String> {
    let port = port(text);
    let names = named(("default", "web"), "", port.protocol);
    let mut replaced: Vec<(String, String)> = [
        (names.cluster(), "SVC"),
        (names.local(), "SVL"),
        (names.external(), "EXT"),
        (names.firewall(), "FW"),
    ]
    .map(|(name, short)| (name, short.to_owned()))
    .into();
    for it in &port.endpoints.cluster {
        let short = format!("SEP{}", it.address.to_string().rsplit_once('.').unwrap().1);
        replaced.push((names.endpoint(*it), short));
    }
    let rules = rules::of(names, &port, &networks());
    let of = |chain: &str, rules: &[String]| -> Vec<String> {
        rules.iter().map(|it| format!("{chain}: {it}")).collect()
    };
    let chains = rules.chains.iter().flat_map(|(name, it)| of(name, it));
    let lines = [
        of("nat services", &rules.services),
        of("nat node ports", &rules.node_ports),
        of("refused", &rules.refused),
        of("refused external", &rules.refused_external),
        of("dropped", &rules.dropped),
        chains.collect(),
    ];
    let replace =
        |line: String| replaced.iter().fold(line, |line, (name, short)| line.replace(name, short));
    let mut lines: Vec<_> = lines.concat().into_iter().map(replace).collect();
    lines.sort();
    lines
}

fn check(text: &str, expected: &[&str]) {
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(show(text), expected, "{text}");
}

#[test]
fn a_cluster_ip_leads_to_each_endpoint_with_equal_chances() {
    check(
        "tcp 10.96.0.1:80 : 1 2 3",
        &[
            "nat services: -m comment --comment \"default/web cluster IP\" -m tcp -p tcp -d 10.96.0.1 \
             --dport 80 -j SVC",
            "SVC: -m comment --comment \"default/web cluster IP\" -m tcp -p tcp -d 10.96.0.1 --dport 80 \
             ! -s 10.0.0.0/16 -j KUBE-MARK-MASQ",
            "SVC: -m comment --comment \"default/web -> 10.0.0.1:8080\" -m statistic --mode random \
             --probability 0.3333333333 -j SEP1",
            "SVC: -m comment --comment \"default/web -> 10.0.0.2:8080\" -m statistic --mode random \
             --probability 0.5000000000 -j SEP2",
            "SVC: -m comment --comment \"default/web -> 10.0.0.3:8080\" -j SEP3",
            "SEP1: -m comment --comment default/web -s 10.0.0.1 -j KUBE-MARK-MASQ",
            "SEP1: -m comment --comment default/web -m tcp -p tcp -j DNAT --to-destination 10.0.0.1:8080",
            "SEP2: -m comment --comment default/web -s 10.0.0.2 -j KUBE-MARK-MASQ",
            "SEP2: -m comment --comment default/web -m tcp -p tcp -j DNAT --to-destination 10.0.0.2:8080",
            "SEP3: -m comment --comment default/web -s 10.0.0.3 -j KUBE-MARK-MASQ",
            "SEP3: -m comment --comment default/web -m tcp -p tcp -j DNAT --to-destination 10.0.0.3:8080",
        ],
    );
}

#[test]
fn without_endpoints_everything_is_refused() {
    check(
        "udp 10.96.0.1:53 node=30053 ip=192.0.2.1 :",
        &[
            "refused: -m comment --comment \"default/web has no endpoints\" -m udp -p udp -d 10.96.0.1 \
             --dport 53 -j REJECT",
            "refused external: -m comment --comment \"default/web has no endpoints\" -m udp -p udp \
             -d 192.0.2.1 --dport 53 -j REJECT",
            "refused external: -m comment --comment \"default/web has no endpoints\" -m addrtype \
             --dst-type LOCAL -m udp -p udp --dport 30053 -j REJECT",
        ],
    );
}

#[test]
fn policy_local_without_endpoints_here_serves_the_cluster_and_drops_others() {
    check(
        "tcp 10.96.0.1:80 node=30080 external : 1",
        &[
            "nat services: -m comment --comment \"default/web cluster IP\" -m tcp -p tcp -d 10.96.0.1 \
             --dport 80 -j SVC",
            "nat node ports: -m comment --comment default/web -m tcp -p tcp --dport 30080 -j EXT",
            "refused external: -m comment --comment \"default/web has no local endpoints\" -m addrtype \
             --dst-type LOCAL -m tcp -p tcp --dport 30080 -j DROP",
            "EXT: -m comment --comment \"pod traffic for default/web external destinations\" \
             -s 10.0.0.0/16 -j SVC",
            "EXT: -m comment --comment \"masquerade LOCAL traffic for default/web external \
             destinations\" -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ",
            "EXT: -m comment --comment \"route LOCAL traffic for default/web external destinations\" \
             -m addrtype --src-type LOCAL -j SVC",
            "SVC: -m comment --comment \"default/web cluster IP\" -m tcp -p tcp -d 10.96.0.1 --dport 80 \
             ! -s 10.0.0.0/16 -j KUBE-MARK-MASQ",
            "SVC: -m comment --comment \"default/web -> 10.0.0.1:8080\" -j SEP1",
            "SEP1: -m comment --comment default/web -s 10.0.0.1 -j KUBE-MARK-MASQ",
            "SEP1: -m comment --comment default/web -m tcp -p tcp -j DNAT --to-destination 10.0.0.1:8080",
        ],
    );
}

fn ruleset() -> Ruleset {
    Ruleset::new("00c0ffee".parse().unwrap(), networks())
}

fn set(ruleset: &mut Ruleset, name: &str, text: &str) {
    ruleset.set(&ObjectKey::new("default", name), vec![port(text)]);
}

#[test]
fn a_change_writes_the_chains_of_one_service_and_removes_those_that_are_gone() {
    let mut ruleset = ruleset();
    set(&mut ruleset, "web", "tcp 10.96.0.1:80 : 1 2");
    set(&mut ruleset, "db", "tcp 10.96.0.2:80 : 3");
    let whole = ruleset.whole(&BTreeMap::new());
    let chains = |text: &str, prefix: &str| {
        text.lines().filter(|it| it.starts_with(&format!("{prefix}KUBE-S"))).count()
    };
    // Of `filter` KUBE-SERVICES; of `nat` the same, two of Services, three of endpoints.
    assert_eq!(chains(&whole, ":"), 2 + 2 + 3);
    assert_eq!(ruleset.take_changes(), None);
    set(&mut ruleset, "web", "tcp 10.96.0.1:80 : 1 2");
    assert_eq!(ruleset.take_changes(), None, "the same again");
    set(&mut ruleset, "web", "tcp 10.96.0.1:80 : 1");
    let change = ruleset.take_changes().unwrap();
    // The Service's, and the endpoint's that goes.
    assert_eq!(chains(&change, ":"), 2 + 1 + 1, "{change}");
    assert_eq!(chains(&change, "-X "), 1);
    assert!(!change.contains("-I "), "jumps stay: {change}");
}

#[test]
fn what_is_removed_is_ours_alone() {
    let cluster = "00c0ffee".parse().unwrap();
    let saved = "*nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\n:DOCKER - [0:0]\n\
                 :KUBE-SVC-HW2XM7FRY33HEVYM - [0:0]\n{owner}\
                 -A PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n\
                 -A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER\nCOMMIT\n";
    let of_others = saved.replace("{owner}", "");
    assert_eq!(removal(cluster, &parse(&of_others)), None, "somebody else's");
    let ours = saved.replace("{owner}", ":XEBEC-00c0ffee - [0:0]\n");
    let expected = "*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC-HW2XM7FRY33HEVYM - [0:0]\n\
                    :XEBEC-00c0ffee - [0:0]\n\
                    -D PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n\
                    -X KUBE-SERVICES\n-X KUBE-SVC-HW2XM7FRY33HEVYM\n-X XEBEC-00c0ffee\nCOMMIT\n";
    assert_eq!(removal(cluster, &parse(&ours)).as_deref(), Some(expected));
}
