//! Peers and what was heard of them in, routes out.

use super::*;
use crate::node::tests::{node, peer};
use crate::paths::{admit, shown};

fn check(heard: &[(&str, &str)], is_complete: bool, down: &[(&str, &str)], expected: &[&str]) {
    let mut node = node();
    let parsed = |(range, hop): &(&str, &str)| (range.parse().unwrap(), hop.parse().unwrap());
    node.heard.routes = heard.iter().map(parsed).collect();
    node.heard.is_complete = is_complete;
    let parsed = |(address, why): &(&str, &str)| (address.parse().unwrap(), (*why).to_owned());
    node.heard.down = down.iter().map(parsed).collect();
    let peer = peer("b", &["10.244.2.0/24", "fd00:10:244:2::/64"], &["192.0.2.2"]);
    let (ways, left_out) = admit(&Routed, &node, &[peer]);
    let mut found = shown::beyond_the_node(&node, &Routed.desired(&node, &ways));
    found.retain(|it| !it.ends_with("blackhole"));
    found.extend(left_out.into_iter().filter(|it| !it.is_early).map(|it| it.why));
    assert_eq!(found, expected, "{heard:?}");
}

const BOTH: [(&str, &str); 2] =
    [("10.244.2.0/24", "192.0.2.2"), ("fd00:10:244:2::/64", "fd00:2::2")];

#[test]
fn pods_are_where_somebody_says_by_bgp() {
    let expected = ["10.244.2.0/24 via 192.0.2.2", "fd00:10:244:2::/64 via fd00:2::2"];
    check(&BOTH, true, &[], &expected);
    check(&BOTH, false, &[("192.0.2.2", "gone")], &expected);
    check(&[("10.244.2.0/24", "192.0.2.254")], false, &[], &["10.244.2.0/24 via 192.0.2.254"]);
}

#[test]
fn what_no_node_has_is_not_believed() {
    check(
        &[BOTH[0], BOTH[1], ("0.0.0.0/0", "192.0.2.9")],
        true,
        &[],
        &["10.244.2.0/24 via 192.0.2.2", "fd00:10:244:2::/64 via fd00:2::2"],
    );
    let far = "its pods in 10.244.2.0/24: its next hop 198.51.100.2 is on no network that this node is on";
    check(
        &[("10.244.2.0/24", "198.51.100.2"), BOTH[1]],
        true,
        &[],
        &["fd00:10:244:2::/64 via fd00:2::2", far],
    );
}

#[test]
fn why_nothing_was_heard_is_said() {
    let why = "there is no session of BGP with it: the peer said: bad peer AS (2/2)";
    let (v4, v6) = ("its pods in 10.244.2.0/24", "its pods in fd00:10:244:2::/64");
    let down = [("192.0.2.2", "the peer said: bad peer AS (2/2)")];
    check(&[], false, &down, &[&format!("{v4}: {why}"), &format!("{v6}: {why}")]);
    let why = "nobody has announced them by BGP";
    check(&[], true, &[], &[&format!("{v4}: {why}"), &format!("{v6}: {why}")]);
    check(&[], false, &[], &[]);
}

#[test]
fn nobody_is_told_that_an_address_of_the_node_is_no_pods() {
    let node = node();
    let state = Routed.desired(&node, &[]);
    let expected = ["10.244.1.0/24 blackhole", "fd00:10:244:1::/64 blackhole"];
    assert_eq!(shown::beyond_the_node(&node, &state), expected);
    assert!(node.ranges.iter().all(|it| !state.routes.contains(&Route::nowhere(it.node))));
}
