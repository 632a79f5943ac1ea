//! Peers in, routes out.

use super::*;
use crate::node::tests::{node, peer};
use crate::paths::{admit, shown};

fn check(pod_cidrs: &[&str], addresses: &[&str], expected: &[&str]) {
    let peer = peer("b", pod_cidrs, addresses);
    let (ways, left_out) = admit(&HostGw, &node(), &[peer]);
    let mut found = shown::beyond_the_node(&node(), &HostGw.desired(&node(), &ways));
    found.extend(left_out.into_iter().map(|it| it.why));
    assert_eq!(found, expected, "{pod_cidrs:?} {addresses:?}");
}

#[test]
fn a_peers_pods_are_behind_its_address_of_the_same_family() {
    check(&["10.244.2.0/24"], &["192.0.2.2"], &["10.244.2.0/24 via 192.0.2.2"]);
    check(
        &["10.244.2.0/24", "fd00:10:244:2::/64"],
        &["fd00:2::2", "192.0.2.2"],
        &["10.244.2.0/24 via 192.0.2.2", "fd00:10:244:2::/64 via fd00:2::2"],
    );
    check(&[], &[], &[]);
}

#[test]
fn a_range_that_cannot_be_reached_is_left_out_alone() {
    let why = "its pods in fd00:10:244:2::/64: it has no IPv6 address";
    check(
        &["10.244.2.0/24", "fd00:10:244:2::/64"],
        &["192.0.2.2"],
        &["10.244.2.0/24 via 192.0.2.2", why],
    );
    let far =
        "its pods in 10.244.2.0/24: its address 198.51.100.2 is on no network that this node is on";
    check(&["10.244.2.0/24"], &["198.51.100.2"], &[far]);
}

#[test]
fn nodes_say_where_they_are_and_of_what_kind_their_network_is() {
    let said = HostGw.published(&node());
    let said: Vec<_> = said.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let expected = [
        "flannel.alpha.coreos.com/backend-data=null",
        "flannel.alpha.coreos.com/backend-type=host-gw",
        "flannel.alpha.coreos.com/backend-v6-data=null",
        "flannel.alpha.coreos.com/kube-subnet-manager=true",
        "flannel.alpha.coreos.com/public-ip=192.0.2.1",
        "flannel.alpha.coreos.com/public-ipv6=fd00:2::1",
        "network.xebec.local/probes=echo",
    ];
    assert_eq!(said, expected);
    let mut other = peer("b", &["10.244.2.0/24"], &["192.0.2.2"]);
    other.annotations = HostGw.published(&node());
    other.annotations.insert("flannel.alpha.coreos.com/backend-type".into(), "udp".into());
    let (_, left_out) = admit(&HostGw, &node(), &[other]);
    let why = r#"its pods in 10.244.2.0/24: its pod network is "udp" and this node's "host-gw""#;
    assert_eq!(left_out[0].why, why);
}
