//! Peers in, routes out.

use super::*;
use crate::node::tests::{node, peer};

fn check(pod_cidrs: &[&str], addresses: &[&str], expected: Result<&[&str], &str>) {
    let peer = peer("b", pod_cidrs, addresses);
    let node = node();
    let alone = HostGw.desired(&node, &[]);
    let with_peer = HostGw.desired(&node, std::slice::from_ref(&peer));
    let routes: Vec<_> = with_peer
        .routes
        .difference(&alone.routes)
        .map(|it| match it.next {
            Next::Gateway(gateway) => format!("{} via {gateway}", it.destination),
            _ => panic!("{it:?}"),
        })
        .collect();
    let found = HostGw.validate(&node, &peer).map(|()| routes);
    let expected = expected.map(|it| it.iter().map(|it| (*it).to_owned()).collect());
    assert_eq!(found, expected.map_err(str::to_owned), "{pod_cidrs:?} {addresses:?}");
    assert_eq!((with_peer.links, with_peer.tables), (alone.links, alone.tables));
}

#[test]
fn a_peers_pods_are_behind_its_address_of_the_same_family() {
    check(&["10.244.2.0/24"], &["192.0.2.2"], Ok(&["10.244.2.0/24 via 192.0.2.2"]));
    check(
        &["10.244.2.0/24", "fd00:10:244:2::/64"],
        &["fd00:2::2", "192.0.2.2"],
        Ok(&["10.244.2.0/24 via 192.0.2.2", "fd00:10:244:2::/64 via fd00:2::2"]),
    );
    check(&[], &[], Ok(&[]));
}

#[test]
fn a_peer_that_cannot_be_reached_or_wants_too_much_is_refused() {
    check(
        &["fd00:10:244:2::/64"],
        &["192.0.2.2"],
        Err("node b has pods in fd00:10:244:2::/64 and no IPv6 address"),
    );
    let outside = "node b has pods in 0.0.0.0/0, outside the cluster's network";
    check(&["0.0.0.0/0"], &["192.0.2.2"], Err(outside));
    let outside = "node b has pods in 192.168.0.0/24, outside the cluster's network";
    check(&["192.168.0.0/24"], &["192.0.2.2"], Err(outside));
    let ours = "node b has pods in 10.244.1.0/25, as this node has";
    check(&["10.244.1.0/25"], &["192.0.2.2"], Err(ours));
}
