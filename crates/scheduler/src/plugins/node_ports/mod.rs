//! Host ports: one pod per port, protocol and address of a node.

#[cfg(test)]
mod tests;

use super::{Plugin, Reasons};
use crate::node::NodeState;
use crate::pod::PodRequirements;

pub struct NodePorts;

impl Plugin for NodePorts {
    fn name(&self) -> &'static str {
        "NodePorts"
    }

    fn applies(&self, pod: &PodRequirements) -> bool {
        !pod.ports.is_empty()
    }

    fn filter(&self, pod: &PodRequirements, node: &NodeState) -> Result<(), Reasons> {
        if node.has_conflict(&pod.ports) {
            return Err(Reasons::one("node(s) didn't have free ports for the requested pod ports"));
        }
        Ok(())
    }
}
