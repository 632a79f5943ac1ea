//! Taints repel pods that do not tolerate them; soft taints only lower the score.

#[cfg(test)]
mod tests;

use api::core::node::fit::tolerates;

use super::{Plugin, Reasons, scale_to_max};
use crate::node::NodeState;
use crate::pod::PodRequirements;

pub struct TaintToleration;

impl Plugin for TaintToleration {
    fn name(&self) -> &'static str {
        "TaintToleration"
    }

    fn filter(&self, pod: &PodRequirements, node: &NodeState) -> Result<(), Reasons> {
        let untolerated = node
            .taints
            .iter()
            .filter(|it| matches!(it.effect.as_str(), "NoSchedule" | "NoExecute"))
            .find(|taint| !pod.tolerations().iter().any(|it| tolerates(it, taint)));
        match untolerated {
            None => Ok(()),
            Some(taint) => {
                let value = taint.value.as_deref().unwrap_or("");
                Err(Reasons::one(format!(
                    "node(s) had untolerated taint {{{}: {value}}}",
                    taint.key
                )))
            }
        }
    }

    fn weight(&self) -> i64 {
        3
    }

    /// How many soft taints the pod does not tolerate: less is better, see `normalize`.
    fn score(&self, pod: &PodRequirements, node: &NodeState) -> i64 {
        let soft = node.taints.iter().filter(|it| it.effect == "PreferNoSchedule");
        soft.filter(|taint| !pod.tolerations().iter().any(|it| tolerates(it, taint))).count() as i64
    }

    fn normalize(&self, scores: &mut [i64]) {
        scale_to_max(scores, true);
    }
}
