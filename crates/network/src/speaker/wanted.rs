//! With whom a node speaks, and what it says. Pure.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use bgp::Announcement;
use stdx::{Cidr, Family};

use super::Bgp;
use crate::node::{Peer, ThisNode, digest};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Their ASes.
    pub(crate) neighbors: BTreeMap<IpAddr, u32>,
    pub(crate) announced: BTreeMap<Cidr, Announcement>,
    /// This node's addresses, of each family one at the most.
    pub(crate) local: Vec<IpAddr>,
}

/// A session is over IPv4 where both sides have it, and carries both families.
pub(crate) fn wanted(bgp: &Bgp, node: &ThisNode, peers: &[Peer]) -> Wanted {
    let neighbors = if bgp.peers.is_empty() {
        peers.iter().filter_map(|it| Some((meeting(node, it)?, bgp.own_as))).collect()
    } else {
        let reachable = |it: &&(u32, IpAddr)| node.local(Family::of(it.1)).is_some();
        bgp.peers.iter().filter(reachable).map(|(number, address)| (*address, *number)).collect()
    };
    let announced = node.ranges.iter().filter_map(|it| {
        let next_hop = node.local(it.family())?;
        let said = Announcement { next_hop, communities: Vec::new(), local_preference: None };
        Some((it.node, said))
    });
    Wanted { neighbors, announced: announced.collect(), local: node.local.clone() }
}

/// Where both sides find each other.
fn meeting(node: &ThisNode, peer: &Peer) -> Option<IpAddr> {
    let of = |family| node.local(family).and_then(|_| peer.address(family));
    of(Family::V4).or_else(|| of(Family::V6)).filter(|it| !node.local.contains(it))
}

/// A number of 32 bits that no other node has: its IPv4 address, or what its name comes to.
pub(super) fn identifier(local: &[IpAddr], name: &str) -> Ipv4Addr {
    let v4 = local.iter().find_map(|it| match it {
        IpAddr::V4(it) => Some(*it),
        IpAddr::V6(_) => None,
    });
    let digest = || digest(name.as_bytes());
    v4.unwrap_or_else(|| Ipv4Addr::from(((digest() >> 32) as u32).max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::tests::{node, peer};

    fn check(bgp: &Bgp, peers: &[Peer], neighbors: &[&str], announced: &[&str]) {
        let found = wanted(bgp, &node(), peers);
        let shown = |(address, number): (&IpAddr, &u32)| format!("{number}@{address}");
        assert_eq!(found.neighbors.iter().map(shown).collect::<Vec<_>>(), neighbors);
        let shown = |(range, it): (&Cidr, &Announcement)| format!("{range} via {}", it.next_hop);
        assert_eq!(found.announced.iter().map(shown).collect::<Vec<_>>(), announced);
    }

    const OWN: [&str; 2] = ["10.244.1.0/24 via 192.0.2.1", "fd00:10:244:1::/64 via fd00:2::1"];

    #[test]
    fn each_node_speaks_with_each_over_one_address() {
        let both = peer("b", &[], &["fd00:2::2", "192.0.2.2"]);
        let v6 = peer("c", &[], &["fd00:2::3"]);
        let nowhere = peer("d", &[], &[]);
        let same = peer("e", &[], &["192.0.2.1"]);
        let all = [both, v6, nowhere, same];
        check(&Bgp::default(), &all, &["64512@192.0.2.2", "64512@fd00:2::3"], &OWN);
    }

    #[test]
    fn routers_take_the_place_of_the_other_nodes() {
        let routers = vec![(65_001, "192.0.2.254".parse().unwrap())];
        let bgp = Bgp { peers: routers, ..Bgp::default() };
        let other = peer("b", &[], &["192.0.2.2"]);
        check(&bgp, &[other], &["65001@192.0.2.254"], &OWN);
    }

    #[test]
    fn a_node_without_ipv4_has_a_number_of_its_name() {
        let address = |it: &str| it.parse::<IpAddr>().unwrap();
        assert_eq!(
            identifier(&[address("fd00::1"), address("192.0.2.1")], "a"),
            Ipv4Addr::new(192, 0, 2, 1)
        );
        let named = |name| identifier(&[address("fd00::1")], name);
        assert_ne!(named("a"), named("b"));
        assert!(!named("a").is_unspecified());
    }
}
