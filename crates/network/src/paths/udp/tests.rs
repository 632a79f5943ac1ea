//! Peers in, a link and what is carried out.

use super::*;
use crate::node::tests::{node, peer};
use crate::paths::{admit, shown};

fn udp_peer(n: u8) -> Peer {
    let range = format!("10.244.{n}.0/24");
    let mut peer = peer(&format!("node-{n}"), &[&range], &[&format!("198.51.100.{n}")]);
    let name = "flannel.alpha.coreos.com/backend-type".to_owned();
    peer.annotations.insert(name, "udp".to_owned());
    peer
}

fn check(node: &ThisNode, peers: &[Peer], expected: &[&str]) {
    let (ways, left_out) = admit(&Udp, node, peers);
    let mut found = shown::beyond_the_node(node, &Udp.desired(node, &ways));
    found.extend(left_out.into_iter().map(|it| format!("{}: {}", it.node, it.why)));
    assert_eq!(found, expected);
}

#[test]
fn one_link_leads_to_all_and_the_worker_knows_where_they_are() {
    let expected = [
        "flannel0: udp 192.0.2.1:8285 for 10.244.1.0/24 mtu 1450",
        "flannel0: 10.244.1.0/32",
        "flannel0: 10.244.2.0/24 at 198.51.100.2",
        "flannel0: 10.244.3.0/24 at 198.51.100.3",
        "10.244.0.0/16 dev flannel0",
    ];
    check(&node(), &[udp_peer(2), udp_peer(3)], &expected);
}

#[test]
fn without_peers_there_is_nothing_but_a_rule() {
    check(&node(), &[], &[]);
    let rules = shown::rules_beyond_the_node(&node(), &Udp.desired(&node(), &[]));
    assert_eq!(rules, ["IPv4: pods do not speak as nodes"]);
}

#[test]
fn ipv6_is_refused_and_ipv4_of_the_same_peer_is_served() {
    let mut both = udp_peer(2);
    both.pod_cidrs.push("fd00:10:244:2::/64".parse().unwrap());
    let expected = [
        "flannel0: udp 192.0.2.1:8285 for 10.244.1.0/24 mtu 1450",
        "flannel0: 10.244.1.0/32",
        "flannel0: 10.244.2.0/24 at 198.51.100.2",
        "10.244.0.0/16 dev flannel0",
        "node-2: its pods in fd00:10:244:2::/64: udp carries IPv4 alone",
    ];
    check(&node(), &[both], &expected);
}

#[test]
fn it_says_of_itself_what_flannel_does() {
    let said = Udp.published(&node());
    let of = |name: &str| said[&format!("flannel.alpha.coreos.com/{name}")].as_str();
    assert_eq!((of("backend-type"), of("backend-data")), ("udp", "null"));
    assert_eq!(of("public-ip"), "192.0.2.1");
}

#[test]
fn where_somebody_has_flannels_link_another_is_made() {
    let mut node = node();
    node.surroundings.other_links.insert("flannel0".into());
    let (ways, _) = admit(&Udp, &node, &[udp_peer(2)]);
    let lines = shown::beyond_the_node(&node, &Udp.desired(&node, &ways));
    assert!(lines.contains(&"10.244.0.0/16 dev ud4-00c0ffee".to_owned()), "{lines:?}");
}
