//! Nodes that share a link: a peer's pods are behind the peer's own address. See README.md.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use stdx::Cidr;

use super::{Backend, By, HOST_GW, Refusal, Way, flannel};
use crate::kernel_state::KernelState;
use crate::node::{Peer, ThisNode};
use crate::node_itself;

#[derive(Debug)]
pub(crate) struct HostGw;

impl Backend for HostGw {
    fn name(&self) -> &'static str {
        HOST_GW
    }

    fn overhead(&self, _node: &ThisNode) -> u32 {
        0
    }

    fn published(&self, node: &ThisNode) -> BTreeMap<String, String> {
        flannel::annotations(node, HOST_GW, |_| None)
    }

    fn way(&self, node: &ThisNode, peer: &Peer, range: Cidr) -> Result<Way, Refusal> {
        flannel::speaks(peer, HOST_GW)?;
        let address = flannel::public(peer, range.family())?;
        if !node.is_connected_to(address) {
            let why = format!("its address {address} is on no network that this node is on");
            return Err(why.into());
        }
        Ok(Way { range, address, by: By::Gateway })
    }

    fn desired(&self, node: &ThisNode, ways: &[Way]) -> KernelState {
        let mut state = node_itself::desired(node);
        state.routes.extend(ways.iter().map(Way::by_gateway));
        state
    }
}
