//! Peers in, links with keys out.

use linux::netlink::wireguard::{Key, PrivateKey};

use super::*;
use crate::keys::Keys;
use crate::node::tests::{node, peer};
use crate::paths::{admit, shown};

fn with_keys(n: u8) -> ThisNode {
    let keys = Keys { private: PrivateKey::clamped([n; 32]), public: Key([n; 32]) };
    ThisNode { keys: Some(keys), ..node() }
}

/// What a node with the key of this number says, as that of a peer.
fn wireguard_peer(name: &str, n: u8) -> Peer {
    let ranges = [format!("10.244.{n}.0/24"), format!("fd00:10:244:{n}::/64")];
    let mut other = peer(name, &ranges.each_ref().map(String::as_str), &[]);
    let addresses =
        vec![format!("192.0.2.{n}").parse().unwrap(), format!("fd00:2::{n}").parse().unwrap()];
    other.annotations = Wireguard.published(&ThisNode { public: addresses, ..with_keys(n) });
    other
}

fn check(peers: &[Peer], expected: &[&str]) {
    let node = with_keys(1);
    let (ways, left_out) = admit(&Wireguard, &node, peers);
    let mut found = shown::beyond_the_node(&node, &Wireguard.desired(&node, &ways));
    found.extend(left_out.into_iter().map(|it| it.why));
    assert_eq!(found, expected);
}

#[test]
fn what_one_node_says_the_other_understands() {
    let expected = [
        "flannel-wg: wireguard port 51820 mtu 1450",
        "flannel-wg: 10.244.1.0/32",
        "flannel-wg: peer 02 at 192.0.2.2:51820 for 10.244.2.0/24",
        "flannel-wg-v6: wireguard port 51821 mtu 1450",
        "flannel-wg-v6: fd00:10:244:1::/128",
        "flannel-wg-v6: peer 02 at [fd00:2::2]:51821 for fd00:10:244:2::/64",
        "10.244.2.0/24 dev flannel-wg",
        "fd00:10:244:2::/64 dev flannel-wg-v6",
    ];
    check(&[wireguard_peer("b", 2)], &expected);
    check(&[], &[]);
}

#[test]
fn a_key_is_one_peers() {
    let mut liar = wireguard_peer("liar", 2);
    let honest = wireguard_peer("honest", 3);
    for name in ["backend-data", "backend-v6-data"] {
        let name = format!("flannel.alpha.coreos.com/{name}");
        liar.annotations.insert(name.clone(), honest.annotations[&name].clone());
    }
    let node = with_keys(1);
    let (ways, left_out) = admit(&Wireguard, &node, &[honest, liar]);
    assert_eq!(ways.len(), 2);
    assert!(left_out[0].why.ends_with("its key is node honest's"), "{left_out:?}");
    let (_, left_out) =
        admit(&Wireguard, &node, &[wireguard_peer("one", 1), wireguard_peer("b", 2)]);
    assert!(left_out[0].why.contains("which is this node's"), "{left_out:?}");
    let mut echo = wireguard_peer("echo", 2);
    echo.annotations.extend(Wireguard.published(&node));
    let (_, left_out) = admit(&Wireguard, &node, &[echo]);
    assert!(left_out[0].why.ends_with("its PublicKey is this node's"), "{left_out:?}");
}

#[test]
fn a_second_cluster_has_ports_of_its_own() {
    let mut node = with_keys(1);
    node.surroundings.other_links = ["flannel-wg", "flannel-wg-v6"].map(str::to_owned).into();
    let (v4, v6) = (device(&node, Family::V4), device(&node, Family::V6));
    assert_eq!((v4.0.as_str(), v6.0.as_str()), ("wg4-00c0ffee", "wg6-00c0ffee"));
    assert_eq!(v4.1 + 1, v6.1);
    assert!((PORT_DERIVED..=PORT_LAST).contains(&v4.1));
}
