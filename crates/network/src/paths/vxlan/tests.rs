//! Peers in, links and routes out.

use super::*;
use crate::node::tests::{node, peer};
use crate::paths::{admit, shown};

fn vxlan_peer(name: &str, n: u8, data: Option<&str>) -> Peer {
    let ranges = [format!("10.244.{n}.0/24"), format!("fd00:10:244:{n}::/64")];
    let addresses = [format!("192.0.2.{n}"), format!("fd00:2::{n}")];
    let mut peer = peer(
        name,
        &ranges.each_ref().map(String::as_str),
        &addresses.each_ref().map(String::as_str),
    );
    let mut say = |key: &str, value: &str| {
        peer.annotations.insert(format!("flannel.alpha.coreos.com/{key}"), value.to_owned());
    };
    say("backend-type", "vxlan");
    if let Some(data) = data {
        say("backend-data", data);
        say("backend-v6-data", data);
    }
    peer
}

const DATA: &str = r#"{"VNI":1,"VtepMAC":"06:58:00:00:00:02"}"#;

fn check(node: &ThisNode, peers: &[Peer], expected: &[&str]) {
    let (ways, left_out) = admit(&Vxlan, node, peers);
    let mut found = shown::beyond_the_node(node, &Vxlan.desired(node, &ways));
    found.extend(left_out.into_iter().map(|it| format!("{} {}: {}", it.node, it.is_early, it.why)));
    assert_eq!(found, expected);
}

#[test]
fn each_family_has_a_link_that_knows_where_everybody_is() {
    let expected = [
        "flannel-v6.1: vxlan 1 port 8472 local fd00:2::1 mac 06:4f:92:58:f8:fa mtu 1450",
        "flannel-v6.1: fd00:10:244:1::/128",
        "flannel-v6.1: fd00:10:244:2:: is 06:58:00:00:00:02",
        "flannel-v6.1: 06:58:00:00:00:02 at fd00:2::2",
        "flannel.1: vxlan 1 port 8472 local 192.0.2.1 mac 06:75:c2:4c:cf:88 mtu 1450",
        "flannel.1: 10.244.1.0/32",
        "flannel.1: 10.244.2.0 is 06:58:00:00:00:02",
        "flannel.1: 06:58:00:00:00:02 at 192.0.2.2",
        "10.244.2.0/24 via 10.244.2.0 dev flannel.1",
        "fd00:10:244:2::/64 via fd00:10:244:2:: dev flannel-v6.1",
    ];
    check(&node(), &[vxlan_peer("b", 2, Some(DATA))], &expected);
}

#[test]
fn without_peers_there_is_nothing_but_a_rule() {
    check(&node(), &[], &[]);
    let rules = shown::rules_beyond_the_node(&node(), &Vxlan.desired(&node(), &[]));
    let expected = ["IPv4: pods do not speak as nodes", "IPv6: pods do not speak as nodes"];
    assert_eq!(rules, expected);
}

#[test]
fn peers_on_a_network_of_this_node_are_reached_directly_if_that_is_wanted() {
    let near = ThisNode { has_direct_routes: true, ..node() };
    let direct = ["10.244.2.0/24 via 192.0.2.2", "fd00:10:244:2::/64 via fd00:2::2"];
    check(&near, &[vxlan_peer("b", 2, None)], &direct);
    let mut far = near;
    far.surroundings.connected.clear();
    let (ways, _) = admit(&Vxlan, &far, &[vxlan_peer("b", 2, Some(DATA))]);
    assert!(ways.iter().all(|it| matches!(it.by, By::Vxlan { .. })));
}

#[test]
fn who_says_nothing_yet_is_waited_for_and_who_lies_is_left_out() {
    let early = "its pods in 10.244.2.0/24: it has not said its VtepMAC yet";
    let early_6 = "its pods in fd00:10:244:2::/64: it has not said its VtepMAC yet";
    let (b, b_6) = (format!("b true: {early}"), format!("b true: {early_6}"));
    check(&node(), &[vxlan_peer("b", 2, None)], &[&b, &b_6]);

    let why = |peer: Peer| {
        let (ways, left_out) = admit(&Vxlan, &node(), &[vxlan_peer("good", 9, Some(DATA)), peer]);
        let is_good = |it: &&Way| it.address.to_string().ends_with('9');
        let of_good = ways.iter().filter(is_good);
        assert_eq!(of_good.count(), 2);
        left_out[0].why.clone()
    };
    let same = why(vxlan_peer("b", 2, Some(DATA)));
    assert!(same.ends_with("the hardware address 06:58:00:00:00:02 is node good's"), "{same}");
    let own = hardware::of_tunnel("10.244.1.0/24".parse().unwrap());
    let ours = why(vxlan_peer("b", 2, Some(&format!(r#"{{"VNI":1,"VtepMAC":"{own}"}}"#))));
    assert!(ours.ends_with("is this node's"), "{ours}");
    let absurd = why(vxlan_peer("b", 2, Some(r#"{"VNI":1,"VtepMAC":"ff:ff:ff:ff:ff:ff"}"#)));
    assert!(absurd.contains("is no hardware address of a machine"), "{absurd}");
}

#[test]
fn where_somebody_has_flannels_name_or_number_others_are_taken_and_told() {
    let mut node = node();
    let first = Vxlan.published(&node);
    assert!(first["flannel.alpha.coreos.com/backend-data"].starts_with(r#"{"VNI":1,"#));
    node.surroundings.other_vnis.insert(1);
    let (name, vni) = device(&node, Family::V4);
    assert_eq!(name, "vx4-00c0ffee");
    assert_ne!(vni, 1);
    let second = Vxlan.published(&node);
    let said = &second["flannel.alpha.coreos.com/backend-data"];
    assert!(said.starts_with(&format!(r#"{{"VNI":{vni},"#)), "{said}");
    // Who has another number is sent to by that.
    let (ways, _) = admit(&Vxlan, &node, &[vxlan_peer("b", 2, Some(DATA))]);
    let lines = shown::beyond_the_node(&node, &Vxlan.desired(&node, &ways));
    assert!(lines.contains(&"vx4-00c0ffee: 06:58:00:00:00:02 at 192.0.2.2 vni 1".to_owned()));
}
