//! Prefers nodes where CPU and memory would be used to the same degree.

#[cfg(test)]
mod tests;

use super::{Plugin, SCORE_MAX};
use crate::node::NodeState;
use crate::pod::PodRequirements;

pub struct NodeResourcesBalancedAllocation;

impl Plugin for NodeResourcesBalancedAllocation {
    fn name(&self) -> &'static str {
        "NodeResourcesBalancedAllocation"
    }

    /// A pod that requests nothing does not change the balance.
    fn applies(&self, pod: &PodRequirements) -> bool {
        pod.requests.milli_cpu > 0 || pod.requests.memory > 0
    }

    fn weight(&self) -> i64 {
        1
    }

    /// With two resources the standard deviation of the used fractions is half their distance.
    fn score(&self, pod: &PodRequirements, node: &NodeState) -> i64 {
        let fraction = |wanted: i128, taken: i128, offered: i128| {
            if offered == 0 { 1.0 } else { ((wanted + taken) as f64 / offered as f64).min(1.0) }
        };
        let (wanted, taken, offered) = (&pod.requests, &node.requested, &node.allocatable);
        let cpu = fraction(wanted.milli_cpu, taken.milli_cpu, offered.milli_cpu);
        let memory = fraction(wanted.memory, taken.memory, offered.memory);
        ((1.0 - (cpu - memory).abs() / 2.0) * SCORE_MAX as f64) as i64
    }
}
