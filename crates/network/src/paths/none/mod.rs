//! A cluster of one node: pods reach each other, the node and the world. See README.md.

#[cfg(test)]
mod tests;

use super::{Backend, NONE};
use crate::kernel_state::KernelState;
use crate::node::{Peer, ThisNode};
use crate::node_itself;

#[derive(Debug)]
pub(crate) struct NoPath;

impl Backend for NoPath {
    fn name(&self) -> &'static str {
        NONE
    }

    fn validate(&self, _node: &ThisNode, peer: &Peer) -> Result<(), String> {
        Err(format!("node {} cannot be reached: this pod network has one node", peer.node))
    }

    fn desired(&self, node: &ThisNode, _peers: &[Peer]) -> KernelState {
        node_itself::desired(node)
    }
}
