//! Labels of nodes that go by another name now, and what is said to whoever still uses the old one.

use apimachinery::field::Path;
use apimachinery::validation::is_label_value;
use k8s_openapi::api::core::v1::NodeSelectorTerm;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

const DEPRECATED: [(&str, &str); 8] = [
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
];

/// What to use in place of a label, if there is something.
pub(crate) fn deprecation(label: &str) -> Option<&'static str> {
    DEPRECATED.iter().find(|it| it.0 == label).map(|it| it.1)
}

/// Of labels that were of beta quality: what they are called since.
pub(crate) fn stable_name(label: &str) -> Option<&'static str> {
    match label {
        "beta.kubernetes.io/arch" => Some("kubernetes.io/arch"),
        "beta.kubernetes.io/os" => Some("kubernetes.io/os"),
        "failure-domain.beta.kubernetes.io/region" => Some("topology.kubernetes.io/region"),
        "failure-domain.beta.kubernetes.io/zone" => Some("topology.kubernetes.io/zone"),
        "beta.kubernetes.io/instance-type" => Some("node.kubernetes.io/instance-type"),
        _ => None,
    }
}

pub(crate) fn warnings_of_term(term: &NodeSelectorTerm, path: &Path) -> Vec<String> {
    let keys = term.match_expressions.iter().flatten().map(|it| it.key.as_str());
    warnings_of_keys(keys, path)
}

pub(crate) fn warnings_of_selector(selector: &LabelSelector, path: &Path) -> Vec<String> {
    let keys = selector.match_expressions.iter().flatten().map(|it| it.key.as_str());
    let mut warnings = warnings_of_keys(keys, path);
    for label in selector.match_labels.iter().flat_map(|it| it.keys()) {
        if let Some(why) = deprecation(label) {
            warnings.push(format!("{}: {why}", path.child("matchLabels").child(label)));
        }
    }
    warnings
}

/// Of what is only preferred; its values are not refused when they can match nothing.
pub(crate) fn warnings_of_preference(term: &NodeSelectorTerm, path: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, expression) in term.match_expressions.iter().flatten().enumerate() {
        let path = path.child("matchExpressions").index(index);
        let key = &expression.key;
        if let Some(why) = deprecation(key) {
            warnings.push(format!("{}: {key} is {why}", path.child("key")));
        }
        for (index, value) in expression.values.iter().flatten().enumerate() {
            let path = path.child("values").index(index);
            for problem in is_label_value(value) {
                warnings.push(format!("{path}: {value} is invalid, {problem}"));
            }
        }
    }
    warnings
}

fn warnings_of_keys<'a>(keys: impl Iterator<Item = &'a str>, path: &Path) -> Vec<String> {
    let each = keys.enumerate().filter_map(|(index, key)| {
        let path = path.child("matchExpressions").index(index).child("key");
        deprecation(key).map(|why| format!("{path}: {key} is {why}"))
    });
    each.collect()
}
