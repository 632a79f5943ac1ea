//! Node selectors and required node affinity against one node.

use std::collections::BTreeMap;

use api::core::node::fit::matches_term;
use k8s_openapi::api::core::v1::{Node, PodSpec};

use super::{Candidate, Handler, Rejection};

pub(super) struct NodeAffinity;

impl Handler for NodeAffinity {
    fn admit(&self, candidate: &Candidate<'_>) -> Result<(), Rejection> {
        if candidate.node.is_none_or(|it| matches(candidate.spec, it)) {
            return Ok(());
        }
        let message =
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
        Err(("NodeAffinity".to_owned(), message.to_owned()))
    }
}

fn matches(spec: &PodSpec, node: &Node) -> bool {
    let absent = BTreeMap::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&absent);
    let mut selector = spec.node_selector.iter().flatten();
    if !selector.all(|(key, value)| labels.get(key) == Some(value)) {
        return false;
    }
    let affinity = spec.affinity.as_ref().and_then(|it| it.node_affinity.as_ref());
    let required =
        affinity.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref());
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let label = |key: &str| labels.get(key).map(String::as_str);
    required.is_none_or(|it| it.node_selector_terms.iter().any(|it| matches_term(it, label, name)))
}
