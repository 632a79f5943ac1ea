//! Which of the peers are believed. One that lies is left out, with the reason; the others are
//! served. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use linux::netlink::route::HardwareAddress;
use linux::netlink::wireguard::Key;
use stdx::{Cidr, Family};

use super::{Backend, By, Refusal, Way};
use crate::node::{Peer, ThisNode};

/// As many Nodes as Kubernetes speaks of.
const PEERS_MAX: usize = 5000;
/// One of each family.
const RANGES_MAX: usize = 2;

/// A peer whose pods are not reached, or those of one range of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    pub node: String,
    pub why: String,
    /// It only has not said all that is needed yet: no reason to complain.
    pub is_early: bool,
}

/// Whose what is that only one can have.
#[derive(Default)]
struct Claims<'a> {
    ranges: BTreeMap<Cidr, &'a str>,
    hardware: BTreeMap<(Family, HardwareAddress), &'a str>,
    keys: BTreeMap<(Family, Key), &'a str>,
}

/// Of two that want the same, the one that was told first has it.
pub(crate) fn admit(
    backend: &dyn Backend,
    node: &ThisNode,
    peers: &[Peer],
) -> (Vec<Way>, Vec<LeftOut>) {
    let (mut ways, mut left_out) = (Vec::new(), Vec::new());
    let mut claims = Claims::default();
    for (index, peer) in peers.iter().enumerate() {
        let mut leave_out = |refusal: Refusal| {
            let Refusal { why, is_early } = refusal;
            left_out.push(LeftOut { node: peer.node.clone(), why, is_early });
        };
        if index >= PEERS_MAX {
            leave_out(format!("a node has at most {PEERS_MAX} peers").into());
            continue;
        }
        if peer.pod_cidrs.len() > RANGES_MAX {
            leave_out(format!("it has more than {RANGES_MAX} ranges of pods").into());
            continue;
        }
        for range in &peer.pod_cidrs {
            let way = validate_range(node, *range).and_then(|()| backend.way(node, peer, *range));
            let way = way.and_then(|way| {
                validate_address(node, way.address)?;
                claims.claim(&peer.node, &way)?;
                Ok(way)
            });
            match way {
                Ok(way) => ways.push(way),
                Err(Refusal { why, is_early }) => {
                    leave_out(Refusal { why: format!("its pods in {range}: {why}"), is_early });
                }
            }
        }
    }
    (ways, left_out)
}

/// A range that is not the cluster's could take packets away from anybody.
fn validate_range(node: &ThisNode, range: Cidr) -> Result<(), Refusal> {
    let is_part = |whole: Cidr| {
        whole.contains(range.network()) && whole.prefix_length() <= range.prefix_length()
    };
    let Some(own) = node.range(range.family()).filter(|it| is_part(it.cluster)) else {
        return Err("the range is outside the cluster's network".to_owned().into());
    };
    if own.node.overlaps(range) {
        return Err(format!("the range meets {}, which is this node's", own.node).into());
    }
    Ok(())
}

/// Where packets for a peer are sent must be a machine, and another one than this.
fn validate_address(node: &ThisNode, address: IpAddr) -> Result<(), Refusal> {
    let is_machines = match address {
        IpAddr::V4(it) => {
            let is_nobodys = it.is_unspecified() || it.is_multicast() || it.is_broadcast();
            !(is_nobodys || it.is_loopback() || it.is_link_local())
        }
        IpAddr::V6(it) => {
            let is_nobodys = it.is_unspecified() || it.is_multicast();
            let is_near = it.is_loopback() || it.is_unicast_link_local();
            !(is_nobodys || is_near || it.to_ipv4_mapped().is_some())
        }
    };
    if !is_machines {
        return Err(format!("its address {address} is no machine's").into());
    }
    if node.ranges.iter().any(|it| it.cluster.contains(address)) {
        return Err(format!("its address {address} is a pod's").into());
    }
    if node.public.contains(&address) || node.surroundings.addresses.contains(&address) {
        return Err(format!("its address {address} is this node's").into());
    }
    Ok(())
}

impl<'a> Claims<'a> {
    /// All of it or nothing.
    fn claim(&mut self, peer: &'a str, way: &Way) -> Result<(), Refusal> {
        let taken = |what: String, by: &str| Refusal::from(format!("{what} is node {by}'s"));
        // Those that are there do not meet: only the neighbors in order can meet a new one.
        let before = self.ranges.range(..=way.range).next_back();
        let after = self.ranges.range(way.range..).next();
        let mut neighbors = before.into_iter().chain(after);
        if let Some((range, by)) = neighbors.find(|(it, _)| it.overlaps(way.range)) {
            return Err(taken(format!("the range {range}"), by));
        }
        let family = way.range.family();
        match way.by {
            By::Vxlan { hardware, .. } => {
                if let Some(by) = self.hardware.get(&(family, hardware)) {
                    return Err(taken(format!("the hardware address {hardware}"), by));
                }
                self.hardware.insert((family, hardware), peer);
            }
            By::Wireguard { key, .. } => {
                if let Some(by) = self.keys.get(&(family, key)) {
                    return Err(taken("its key".to_owned(), by));
                }
                self.keys.insert((family, key), peer);
            }
            By::Gateway | By::Ipip | By::Udp => {}
        }
        self.ranges.insert(way.range, peer);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::tests::{node, peer};
    use crate::paths::{HOST_GW, find};

    /// Peers as `name range address`, what comes of them as text.
    fn check(peers: &[(&str, &str, &str)], expected: &[&str]) {
        let peers: Vec<_> =
            peers.iter().map(|(name, range, address)| peer(name, &[range], &[address])).collect();
        let mut node = node();
        node.surroundings.addresses.insert("192.0.2.1".parse().unwrap());
        let (ways, left_out) = admit(find(HOST_GW).unwrap(), &node, &peers);
        let ways = ways.iter().map(|it| format!("{} via {}", it.range, it.address));
        let left_out = left_out.iter().map(|it| format!("{}: {}", it.node, it.why));
        assert_eq!(ways.chain(left_out).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn one_that_lies_is_left_out_and_the_others_are_served() {
        let good = ("good", "10.244.9.0/24", "192.0.2.9");
        let check_one = |range: &str, address: &str, why: &str| {
            let why = format!("bad: its pods in {range}: {why}");
            check(&[("bad", range, address), good], &["10.244.9.0/24 via 192.0.2.9", &why]);
        };
        let outside = "the range is outside the cluster's network";
        check_one("0.0.0.0/0", "192.0.2.2", outside);
        check_one("192.0.2.0/24", "192.0.2.2", outside);
        check_one("10.0.0.0/8", "192.0.2.2", outside);
        check_one(
            "10.244.1.0/25",
            "192.0.2.2",
            "the range meets 10.244.1.0/24, which is this node's",
        );
        check_one(
            "10.244.0.0/16",
            "192.0.2.2",
            "the range meets 10.244.1.0/24, which is this node's",
        );
        check_one(
            "10.244.2.0/24",
            "10.244.1.7",
            "its address 10.244.1.7 is on no network that this node is on",
        );
        check_one("10.244.2.0/24", "192.0.2.1", "its address 192.0.2.1 is this node's");
        check_one("10.244.2.0/24", "fd00:2::2", "it has no IPv4 address");
    }

    #[test]
    fn an_address_that_no_machine_can_have_or_a_pod_has_is_none() {
        let check = |address: &str, why: &str| {
            let found = validate_address(&node(), address.parse().unwrap());
            assert_eq!(found.unwrap_err().why, format!("its address {address} {why}"));
        };
        for absurd in ["0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255", "169.254.1.1"] {
            check(absurd, "is no machine's");
        }
        for absurd in ["::", "::1", "ff02::1", "fe80::1", "::ffff:192.0.2.1"] {
            check(absurd, "is no machine's");
        }
        check("10.244.7.7", "is a pod's");
        check("fd00:10:244:7::7", "is a pod's");
        check("192.0.2.1", "is this node's");
        assert_eq!(validate_address(&node(), "192.0.2.2".parse().unwrap()), Ok(()));
    }

    #[test]
    fn a_range_is_of_whoever_was_told_first() {
        let one = ("one", "10.244.2.0/24", "192.0.2.2");
        let taken = "its pods in 10.244.2.128/25: the range 10.244.2.0/24 is node one's";
        let inside = ("two", "10.244.2.128/25", "192.0.2.3");
        check(&[one, inside], &["10.244.2.0/24 via 192.0.2.2", &format!("two: {taken}")]);
        let around = ("two", "10.244.2.0/23", "192.0.2.3");
        let taken = "two: its pods in 10.244.2.0/23: the range 10.244.2.0/24 is node one's";
        check(&[one, around], &["10.244.2.0/24 via 192.0.2.2", taken]);
        let far = ("three", "10.244.200.0/24", "192.0.2.4");
        check(&[one, far], &["10.244.2.0/24 via 192.0.2.2", "10.244.200.0/24 via 192.0.2.4"]);
    }

    #[test]
    fn a_peer_has_one_range_of_each_family() {
        let ranges = ["10.244.2.0/24", "10.244.3.0/24", "10.244.4.0/24"];
        let greedy = peer("b", &ranges, &["192.0.2.2"]);
        let (ways, left_out) = admit(find(HOST_GW).unwrap(), &node(), &[greedy]);
        assert_eq!((ways.len(), left_out.len()), (0, 1));
    }
}
