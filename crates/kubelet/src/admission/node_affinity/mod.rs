//! Node selectors and required node affinity against one node.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm, PodSpec};

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
    required.is_none_or(|it| it.node_selector_terms.iter().any(|it| matches_term(it, labels, name)))
}

/// A term without any requirement matches nothing.
fn matches_term(term: &NodeSelectorTerm, labels: &BTreeMap<String, String>, name: &str) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let field = |it: &NodeSelectorRequirement| (it.key == "metadata.name").then(|| name.to_owned());
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|it| holds(it, labels.get(&it.key)))
        && fields.iter().all(|it| holds(it, field(it).as_ref()))
}

fn holds(requirement: &NodeSelectorRequirement, value: Option<&String>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let compare = |is_right: fn(i64, i64) -> bool| {
        let value = value.and_then(|it| it.parse().ok());
        let bound = values.first().and_then(|it| it.parse().ok());
        matches!((value, bound), (Some(value), Some(bound)) if is_right(value, bound))
    };
    match requirement.operator.as_str() {
        "In" => value.is_some_and(|it| values.contains(it)),
        "NotIn" => !value.is_some_and(|it| values.contains(it)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compare(|value, bound| value > bound),
        "Lt" => compare(|value, bound| value < bound),
        _ => false,
    }
}
