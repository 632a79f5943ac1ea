//! A pod fits where its requests do; emptier nodes score higher (LeastAllocated over CPU and
//! memory).

#[cfg(test)]
mod tests;

use super::{Plugin, Reasons, SCORE_MAX};
use crate::node::NodeState;
use crate::pod::PodRequirements;

pub struct NodeResourcesFit;

impl Plugin for NodeResourcesFit {
    fn name(&self) -> &'static str {
        "NodeResourcesFit"
    }

    fn filter(&self, pod: &PodRequirements, node: &NodeState) -> Result<(), Reasons> {
        let (wanted, taken, offered) = (&pod.requests, &node.requested, &node.allocatable);
        let lacks =
            |wanted: i128, taken: i128, offered: i128| wanted > 0 && wanted > offered - taken;
        let mut reasons = Vec::new();
        if node.n_pods + 1 > node.pods_max {
            reasons.push("Too many pods".to_owned());
        }
        if lacks(wanted.milli_cpu, taken.milli_cpu, offered.milli_cpu) {
            reasons.push("Insufficient cpu".to_owned());
        }
        if lacks(wanted.memory, taken.memory, offered.memory) {
            reasons.push("Insufficient memory".to_owned());
        }
        if lacks(wanted.ephemeral_storage, taken.ephemeral_storage, offered.ephemeral_storage) {
            reasons.push("Insufficient ephemeral-storage".to_owned());
        }
        for (name, value) in &wanted.extended {
            let of = |resources: &std::collections::BTreeMap<String, i128>| {
                resources.get(name).copied().unwrap_or(0)
            };
            if lacks(*value, of(&taken.extended), of(&offered.extended)) {
                reasons.push(format!("Insufficient {name}"));
            }
        }
        if reasons.is_empty() { Ok(()) } else { Err(Reasons(reasons)) }
    }

    fn weight(&self) -> i64 {
        1
    }

    fn score(&self, pod: &PodRequirements, node: &NodeState) -> i64 {
        let free = |wanted: i128, taken: i128, offered: i128| {
            let used = wanted + taken;
            if offered <= 0 || used > offered {
                return 0;
            }
            i64::try_from((offered - used) * i128::from(SCORE_MAX) / offered).unwrap_or(SCORE_MAX)
        };
        let (wanted, taken, offered) =
            (&pod.requests_non_zero, &node.requested_non_zero, &node.allocatable);
        let cpu = free(wanted.milli_cpu, taken.milli_cpu, offered.milli_cpu);
        let memory = free(wanted.memory, taken.memory, offered.memory);
        i64::midpoint(cpu, memory)
    }
}
