//! Node selectors and node affinity: labels (and the name) that a node must or should have.

#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm};

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

/// A term without any requirement matches nothing.
fn matches_term(term: &NodeSelectorTerm, node: &NodeState) -> bool {
    let labels = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if labels.is_empty() && fields.is_empty() {
        return false;
    }
    labels.iter().all(|it| matches(it, node.labels.get(&it.key)))
        && fields.iter().all(|it| it.key == "metadata.name" && matches(it, Some(&node.name)))
}

fn matches(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_listed = || value.is_some_and(|value| values.iter().any(|it| it == value));
    let compare = |is_right: fn(i64, i64) -> bool| {
        let bound = values.first().and_then(|it| it.parse().ok());
        let value = value.and_then(|it| it.parse().ok());
        matches!((value, bound), (Some(value), Some(bound)) if is_right(value, bound))
    };
    match requirement.operator.as_str() {
        "In" => is_listed(),
        "NotIn" => !is_listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compare(|value, bound| value > bound),
        "Lt" => compare(|value, bound| value < bound),
        _ => false,
    }
}
