//! There is no way to peers.

use super::*;
use crate::node::tests::{node, peer};

#[test]
fn a_peer_is_refused_by_name_and_nothing_is_wanted_of_it() {
    let peer = peer("b", &["10.244.2.0/24"], &["192.0.2.2"]);
    let err = NoPath.validate(&node(), &peer).unwrap_err();
    assert_eq!(err, "node b cannot be reached: this pod network has one node");
    let alone = NoPath.desired(&node(), &[]);
    assert_eq!(NoPath.desired(&node(), std::slice::from_ref(&peer)), alone);
}
