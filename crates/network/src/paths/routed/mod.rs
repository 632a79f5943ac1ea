//! Nodes that tell each other, or routers, by BGP where their pods are. See README.md.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use stdx::Cidr;

use super::{Backend, By, ROUTED, Refusal, Way, flannel};
use crate::kernel_state::{KernelState, Next, Route};
use crate::links::Kind;
use crate::node::{Peer, ThisNode};
use crate::node_itself;

#[derive(Debug)]
pub(crate) struct Routed;

impl Backend for Routed {
    fn name(&self) -> &'static str {
        ROUTED
    }

    fn links(&self) -> Kind {
        Kind::Routed
    }

    fn overhead(&self, _node: &ThisNode) -> u32 {
        0
    }

    fn speaks_bgp(&self) -> bool {
        true
    }

    fn published(&self, node: &ThisNode) -> BTreeMap<String, String> {
        flannel::annotations(node, ROUTED, |_| None)
    }

    /// What a peer says counts, whatever its Node says of it; a Node says which ranges there are.
    fn way(&self, node: &ThisNode, peer: &Peer, range: Cidr) -> Result<Way, Refusal> {
        let Some(next_hop) = node.heard.routes.get(&range).copied() else {
            return Err(why_not_heard(node, peer));
        };
        if !node.is_connected_to(next_hop) {
            let why = format!("its next hop {next_hop} is on no network that this node is on");
            return Err(why.into());
        }
        Ok(Way { range, address: next_hop, by: By::Gateway })
    }

    fn desired(&self, node: &ThisNode, ways: &[Way]) -> KernelState {
        let mut state = node_itself::desired(node);
        for range in &node.ranges {
            state.routes.remove(&Route::nowhere(range.node));
            state.routes.insert(Route::new(range.node, Next::Blackhole));
        }
        state.routes.extend(ways.iter().map(Way::by_gateway));
        state
    }
}

/// Of a neighbor it is known why it says nothing; of others, that routers have not told.
fn why_not_heard(node: &ThisNode, peer: &Peer) -> Refusal {
    let down = peer.addresses.iter().find_map(|it| node.heard.down.get(it));
    match down {
        Some(why) => format!("there is no session of BGP with it: {why}").into(),
        None if node.heard.is_complete => "nobody has announced them by BGP".to_owned().into(),
        None => Refusal::early("where they are"),
    }
}
