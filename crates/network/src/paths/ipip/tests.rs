//! Peers in, a link and routes out.

use super::*;
use crate::node::tests::{node, peer};
use crate::paths::{admit, shown};

fn check(node: &ThisNode, pod_cidrs: &[&str], address: &str, expected: &[&str]) {
    let (ways, left_out) = admit(&Ipip, node, &[peer("b", pod_cidrs, &[address])]);
    let mut found = shown::beyond_the_node(node, &Ipip.desired(node, &ways));
    found.extend(left_out.into_iter().map(|it| it.why));
    assert_eq!(found, expected);
}

#[test]
fn a_peers_pods_are_behind_its_address_over_the_tunnel() {
    let expected = [
        "flannel.ipip: ipip local 192.0.2.1 mtu 1450",
        "flannel.ipip: 10.244.1.0/32",
        "10.244.2.0/24 via 192.0.2.2 dev flannel.ipip",
    ];
    check(&node(), &["10.244.2.0/24"], "192.0.2.2", &expected);
    let near = ThisNode { has_direct_routes: true, ..node() };
    check(&near, &["10.244.2.0/24"], "192.0.2.2", &["10.244.2.0/24 via 192.0.2.2"]);
    check(&node(), &[], "192.0.2.2", &[]);
    let rules = shown::rules_beyond_the_node(&node(), &Ipip.desired(&node(), &[]));
    assert_eq!(rules, ["IPv4: pods do not speak as nodes"]);
}

#[test]
fn there_is_no_ipv6() {
    let why = "its pods in fd00:10:244:2::/64: IPIP carries IPv4 alone";
    check(&node(), &["fd00:10:244:2::/64"], "fd00:2::2", &[why]);
}
