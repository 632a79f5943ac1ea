//! Taints repel pods that do not tolerate them; soft taints only lower the score.

#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::{Taint, Toleration};

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

/// An empty effect or key (with Exists) tolerates all of them.
pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let matches_text = |wanted: &Option<String>, actual: &str| {
        wanted.as_deref().is_none_or(|it| it.is_empty() || it == actual)
    };
    if !matches_text(&toleration.effect, &taint.effect)
        || !matches_text(&toleration.key, &taint.key)
    {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or("Equal") {
        "Exists" => true,
        "Equal" | "" => {
            toleration.value.as_deref().unwrap_or("") == taint.value.as_deref().unwrap_or("")
        }
        _ => false,
    }
}
