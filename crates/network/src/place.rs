//! Where this node is among the others: its addresses, its MTU, and who its peers are.

use std::collections::BTreeMap;
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
    /// In the network of the nodes.
    pub(crate) addresses: Vec<IpAddr>,
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
        Self { node, addresses, mtu, has_direct_routes, own: None }
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
        let is_pods = |it: &IpAddr| self.ranges.iter().any(|range| range.cluster.contains(*it));
        let of = |family: Family| {
            let of_family = |it: &&IpAddr| Family::of(**it) == family && !is_pods(it);
            self.place.addresses.iter().find(of_family).copied()
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
        self.tell_speaker();
        self.converge()?;
        self.is_converged = true;
        Ok(())
    }
}
