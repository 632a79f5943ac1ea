//! Node selectors and node affinity: labels (and the name) that a node must or should have.

#[cfg(test)]
mod tests;

use api::core::node::fit;
use k8s_openapi::api::core::v1::NodeSelectorTerm;

use super::{Plugin, Reasons, scale_to_max};
use crate::node::NodeState;
use crate::pod::PodRequirements;

pub struct NodeAffinity;

impl Plugin for NodeAffinity {
    fn name(&self) -> &'static str {
        "NodeAffinity"
    }

    fn applies(&self, pod: &PodRequirements) -> bool {
        !pod.pod.spec.node_selector.is_empty() || pod.node_affinity().is_some()
    }

    fn filter(&self, pod: &PodRequirements, node: &NodeState) -> Result<(), Reasons> {
        let mut selector = pod.pod.spec.node_selector.iter();
        let has_labels = selector.all(|(key, value)| node.labels.get(key) == Some(value));
        let is_in = pod
            .node_affinity()
            .and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref())
            .is_none_or(|it| it.node_selector_terms.iter().any(|term| matches_term(term, node)));
        if has_labels && is_in {
            return Ok(());
        }
        Err(Reasons::one("node(s) didn't match Pod's node affinity/selector"))
    }

    fn weight(&self) -> i64 {
        2
    }

    fn score(&self, pod: &PodRequirements, node: &NodeState) -> i64 {
        let affinity = pod.node_affinity();
        let preferred = affinity
            .and_then(|it| it.preferred_during_scheduling_ignored_during_execution.as_deref());
        let preferred = preferred.unwrap_or_default().iter();
        let wanted = preferred.filter(|it| matches_term(&it.preference, node));
        wanted.map(|it| i64::from(it.weight)).sum()
    }

    fn normalize(&self, scores: &mut [i64]) {
        scale_to_max(scores, false);
    }
}

fn matches_term(term: &NodeSelectorTerm, node: &NodeState) -> bool {
    fit::matches_term(term, |it| node.labels.get(it), &node.name)
}
