//! Whether a node is one that a pod asks for: terms of node selectors, and taints. Pure.

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration};

/// Of a node with these labels and this name. A term without any requirement matches nothing.
pub fn matches_term<'a>(
    term: &NodeSelectorTerm,
    label: impl Fn(&str) -> Option<&'a str>,
    name: &str,
) -> bool {
    let labels = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if labels.is_empty() && fields.is_empty() {
        return false;
    }
    labels.iter().all(|it| matches(it, label(&it.key)))
        && fields.iter().all(|it| it.key == "metadata.name" && matches(it, Some(name)))
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

/// An empty effect or key (with Exists) tolerates all of them.
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
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
