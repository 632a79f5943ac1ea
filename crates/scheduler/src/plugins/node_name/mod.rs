//! A pod that names its node goes there or nowhere.

#[cfg(test)]
mod tests;

use super::{Plugin, Reasons};
use crate::node::NodeState;
use crate::pod::PodRequirements;

pub struct NodeName;

impl Plugin for NodeName {
    fn name(&self) -> &'static str {
        "NodeName"
    }

    fn applies(&self, pod: &PodRequirements) -> bool {
        !pod.pod.node_name.is_empty()
    }

    fn filter(&self, pod: &PodRequirements, node: &NodeState) -> Result<(), Reasons> {
        if pod.pod.node_name.as_str() == node.name {
            return Ok(());
        }
        Err(Reasons::one("node(s) didn't match the requested node name"))
    }
}
