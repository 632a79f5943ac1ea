//! There is no way to peers.

use super::*;
use crate::node::tests::{node, peer};
use crate::paths::admit;

#[test]
fn a_peer_is_left_out_by_name_and_nothing_is_wanted_of_it() {
    let peer = peer("b", &["10.244.2.0/24"], &["192.0.2.2"]);
    let (ways, left_out) = admit(&NoPath, &node(), &[peer]);
    let why = "its pods in 10.244.2.0/24: there is no way to other nodes in this pod network";
    assert_eq!((ways.len(), left_out[0].node.as_str(), left_out[0].why.as_str()), (0, "b", why));
    assert_eq!(NoPath.published(&node()), BTreeMap::new());
}
