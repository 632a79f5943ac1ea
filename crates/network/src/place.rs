//! Where this node is among the others: its addresses, its MTU, and who its peers are.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use node_api::SandboxId;
use stdx::Family;

use crate::network::State;
use crate::node::{Peer, ThisNode};
use crate::paths;
use crate::records::Record;

/// Where nobody knows better.
const MTU: u32 = 1500;
/// More the kernel gives no link of ours.
const MTU_MAX: u32 = 65_535;
/// Less IPv6 does not take.
const MTU_MIN: u32 = 1280;

/// What was asked for, and what the node's own object says.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The Node's name.
    node: String,
    /// In the network of the nodes, as they were asked for; none: where packets for the world leave
    /// from.
    wanted: Vec<IpAddr>,
    /// Where they left from when somebody looked last, or before there was no way there.
    found: Vec<IpAddr>,
    mtu: Option<u32>,
    has_direct_routes: bool,
    /// As far as it is known.
    own: Option<Peer>,
}

impl Place {
    pub(crate) fn new(
        node: String,
        addresses: Vec<IpAddr>,
        mtu: Option<u32>,
        has_direct_routes: bool,
    ) -> Self {
        let found = Vec::new();
        Self { node, wanted: addresses, found, mtu, has_direct_routes, own: None }
    }

    /// A family without a way to the world keeps what it had: the way may come back.
    pub(crate) fn follow(&mut self, world: &[IpAddr]) {
        let is_new = |it: &IpAddr| !world.iter().any(|new| Family::of(*new) == Family::of(*it));
        let kept = self.found.iter().copied().filter(is_new);
        self.found = world.iter().copied().chain(kept).collect();
    }

    /// `machines`: all addresses that this machine has.
    pub(crate) fn addresses(&self, machines: &BTreeSet<IpAddr>) -> Vec<IpAddr> {
        let of = |family| self.own.as_ref().and_then(|it| paths::node_public(it, family));
        let named = [Family::V4, Family::V6].into_iter().filter_map(of);
        let named = named.filter(|it| machines.contains(it));
        let others = if self.wanted.is_empty() { &self.found } else { &self.wanted };
        named.chain(others.iter().copied()).collect()
    }

    pub(crate) fn name(&self) -> &str {
        &self.node
    }

    /// What an administrator wants said in place of it.
    fn overwritten(&self, family: Family) -> Option<IpAddr> {
        self.own.as_ref().and_then(|it| paths::public_wanted(it, family))
    }
}

impl State {
    pub(crate) fn this_node(&self, pods: BTreeMap<SandboxId, Record>) -> ThisNode {
        let addresses = self.place.addresses(&self.surroundings.addresses);
        let is_pods = |it: &IpAddr| self.ranges.iter().any(|range| range.cluster.contains(*it));
        let of = |family: Family| {
            let of_family = |it: &&IpAddr| Family::of(**it) == family && !is_pods(it);
            addresses.iter().find(of_family).copied()
        };
        let public = |family: Family| self.place.overwritten(family).or_else(|| of(family));
        let families = [Family::V4, Family::V6];
        let mut node = ThisNode {
            cluster: self.cluster,
            bridge: self.bridge.clone(),
            ranges: self.ranges.clone(),
            pods,
            mtu: 0,
            public: families.iter().filter_map(|it| public(*it)).collect(),
            local: families.iter().filter_map(|it| of(*it)).collect(),
            keys: self.keys.clone(),
            heard: self.heard.clone(),
            has_direct_routes: self.place.has_direct_routes,
            surroundings: self.surroundings.clone(),
        };
        node.mtu = self.place.mtu.unwrap_or_else(|| {
            let uplink = self.surroundings.mtu.unwrap_or(MTU).min(MTU_MAX);
            uplink.saturating_sub(self.backend.overhead(&node)).max(MTU_MIN)
        });
        node
    }

    pub(crate) fn published(&self) -> BTreeMap<String, String> {
        self.backend.published(&self.this_node(BTreeMap::new()))
    }

    /// Of two that want the same range, the one that has it keeps it.
    pub(crate) fn set_peers(&mut self, mut peers: Vec<Peer>) -> Result<(), node_api::Error> {
        let own = peers.iter().position(|it| it.node == self.place.node);
        let own = own.map(|it| peers.remove(it));
        let known: BTreeMap<_, _> = self.peers.iter().map(|it| (&it.node, &it.pod_cidrs)).collect();
        peers.sort_by_key(|it| known.get(&it.node) != Some(&&it.pod_cidrs));
        if self.peers == peers && self.place.own == own && self.is_converged {
            return Ok(());
        }
        (self.peers, self.place.own) = (peers, own);
        (self.is_converged, self.knows_peers) = (false, true);
        self.converge()?;
        self.is_converged = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ips(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|it| it.parse().unwrap()).collect()
    }

    fn place(wanted: &[&str]) -> Place {
        Place::new("a".into(), ips(wanted), None, false)
    }

    #[test]
    fn addresses_that_nobody_asked_for_follow_the_way_to_the_world() {
        let mut place = place(&[]);
        let mut check = |world: &[&str], expected: &[&str]| {
            place.follow(&ips(world));
            assert_eq!(place.addresses(&BTreeSet::new()), ips(expected), "{world:?}");
        };
        check(&["192.0.2.1", "fd00:2::1"], &["192.0.2.1", "fd00:2::1"]);
        check(&["192.0.2.9", "fd00:2::1"], &["192.0.2.9", "fd00:2::1"]);
        // The cable is out, for one family and for both.
        check(&["fd00:2::1"], &["fd00:2::1", "192.0.2.9"]);
        check(&[], &["fd00:2::1", "192.0.2.9"]);
        check(&["198.51.100.1"], &["198.51.100.1", "fd00:2::1"]);
    }

    #[test]
    fn those_that_were_asked_for_stay_unless_the_node_names_another_of_its_own() {
        let mut place = place(&["192.0.2.1"]);
        place.follow(&ips(&["192.0.2.9"]));
        let machines: BTreeSet<_> = ips(&["192.0.2.1", "198.51.100.1"]).into_iter().collect();
        assert_eq!(place.addresses(&machines), ips(&["192.0.2.1"]));
        let mut named = |address: &str| {
            let name = "flannel.alpha.coreos.com/node-public-ip".to_owned();
            let annotations = [(name, address.to_owned())].into();
            place.own = Some(Peer { annotations, ..Peer::default() });
            place.addresses(&machines)[0]
        };
        assert_eq!(named("198.51.100.1"), ips(&["198.51.100.1"])[0]);
        assert_eq!(named("203.0.113.1"), ips(&["192.0.2.1"])[0]);
        assert_eq!(named("nonsense"), ips(&["192.0.2.1"])[0]);
    }
}
