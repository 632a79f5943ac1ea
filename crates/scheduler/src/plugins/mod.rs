//! The rules: each plugin may rule nodes out and may prefer some. One folder per plugin, one line
//! in the list.

pub mod node_affinity;
pub mod node_name;
pub mod node_ports;
pub mod node_resources_balanced_allocation;
pub mod node_resources_fit;
pub mod node_unschedulable;
pub mod taint_toleration;
pub mod unsupported;

use crate::node::NodeState;
use crate::pod::PodRequirements;

pub const SCORE_MAX: i64 = 100;

/// Why one node is out. Most nodes have one reason; resources can have several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reasons(pub Vec<String>);

impl Reasons {
    pub fn one(reason: impl Into<String>) -> Self {
        Self(vec![reason.into()])
    }
}

/// Pure. The scheduler asks `applies` once per pod, so that plugins with nothing to say cost
/// nothing per node.
pub trait Plugin: Send + Sync {
    /// Upstream's name.
    fn name(&self) -> &'static str;

    fn applies(&self, _pod: &PodRequirements) -> bool {
        true
    }

    fn filter(&self, _pod: &PodRequirements, _node: &NodeState) -> Result<(), Reasons> {
        Ok(())
    }

    /// 0 leaves the plugin out of scoring.
    fn weight(&self) -> i64 {
        0
    }

    fn score(&self, _pod: &PodRequirements, _node: &NodeState) -> i64 {
        0
    }

    /// Brings the raw scores of all feasible nodes to 0..=100.
    fn normalize(&self, _scores: &mut [i64]) {}
}

/// In upstream's order: the first plugin that rules a node out gives the reason.
pub const ALL: &[&dyn Plugin] = &[
    &unsupported::Unsupported,
    &node_unschedulable::NodeUnschedulable,
    &node_name::NodeName,
    &taint_toleration::TaintToleration,
    &node_affinity::NodeAffinity,
    &node_ports::NodePorts,
    &node_resources_fit::NodeResourcesFit,
    &node_resources_balanced_allocation::NodeResourcesBalancedAllocation,
];

/// Scales so that the largest score becomes 100, or 0 when `reverse`.
pub(crate) fn scale_to_max(scores: &mut [i64], reverse: bool) {
    let largest = scores.iter().copied().max().unwrap_or(0);
    for score in scores {
        let scaled = if largest == 0 { 0 } else { *score * SCORE_MAX / largest };
        *score = if reverse { SCORE_MAX - scaled } else { scaled };
    }
}
