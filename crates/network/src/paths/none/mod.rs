//! A cluster of one node: pods reach each other, the node and the world. See README.md.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use stdx::Cidr;

use super::{Backend, NONE, Refusal, Way};
use crate::kernel_state::KernelState;
use crate::node::{Peer, ThisNode};
use crate::node_itself;

#[derive(Debug)]
pub(crate) struct NoPath;

impl Backend for NoPath {
    fn name(&self) -> &'static str {
        NONE
    }

    fn overhead(&self, _node: &ThisNode) -> u32 {
        0
    }

    fn published(&self, _node: &ThisNode) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    fn way(&self, _node: &ThisNode, _peer: &Peer, _range: Cidr) -> Result<Way, Refusal> {
        Err("there is no way to other nodes in this pod network".to_owned().into())
    }

    fn desired(&self, node: &ThisNode, _ways: &[Way]) -> KernelState {
        node_itself::desired(node)
    }
}
