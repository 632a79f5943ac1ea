//! Every field of a pod's spec, and who sees to it: `fields.txt`. What nobody does is refused with
//! its path, never passed over: by this table when the pod comes, or by whoever sets the container
//! or the volume up.
//!
//! A test compares the table with the schema, in both directions: a field that a new version of the
//! API brings fails it until somebody has decided.

use std::sync::LazyLock;

use api::Resource as _;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::{Candidate, Handler, Rejection};

static TABLE: &str = include_str!("fields.txt");

/// Containers of all sorts have the same fields; the table lists them once.
const CONTAINERS: &[&str] = &["containers", "ephemeralContainers", "initContainers"];

/// A line with `refused`.
struct Refused {
    path: Vec<&'static str>,
    /// Values that ask for nothing.
    harmless: Vec<&'static str>,
}

static REFUSED: LazyLock<Vec<Refused>> = LazyLock::new(|| {
    let parse = |line: &'static str| {
        let (path, who) = line.split_once(' ')?;
        let rest = who.trim().strip_prefix("refused")?;
        let harmless = rest.trim().strip_prefix("unless").unwrap_or_default();
        Some(Refused {
            path: path.trim_end_matches(".*").split('.').collect(),
            harmless: harmless.split_whitespace().collect(),
        })
    };
    TABLE.lines().filter_map(parse).collect()
});

pub(super) struct Fields;

impl Handler for Fields {
    fn admit(&self, candidate: &Candidate<'_>) -> Result<(), Rejection> {
        admit(candidate.pod)
    }
}

fn admit(pod: &Pod) -> Result<(), Rejection> {
    let found = refused(pod);
    if found.is_empty() {
        return Ok(());
    }
    let message = format!("Pod uses fields that this node does not support: {}", found.join(", "));
    Err(("PodFeatureUnsupported".to_owned(), message))
}

/// The same for one container, before it starts: ephemeral ones come when the pod was let in long
/// ago.
pub(crate) fn of_container(pod: &Pod, name: &str) -> Vec<String> {
    let Some(tree) = tree(pod) else { return Vec::new() };
    let mut found = Vec::new();
    for list in CONTAINERS {
        for (index, container) in tree[*list].as_array().into_iter().flatten().enumerate() {
            if container["name"] != name {
                continue;
            }
            for rule in REFUSED.iter().filter(|it| it.path[0] == "containers") {
                collect(
                    rule,
                    &rule.path[1..],
                    container,
                    &format!("spec.{list}[{index}]"),
                    &mut found,
                );
            }
        }
    }
    found
}

/// `spec.hostUsers: false` and so on.
fn refused(pod: &Pod) -> Vec<String> {
    let Some(tree) = tree(pod) else { return Vec::new() };
    let mut found = Vec::new();
    for rule in REFUSED.iter() {
        let lists = if rule.path[0] == "containers" { CONTAINERS } else { &rule.path[..1] };
        for first in lists {
            if let Some(value) = tree.get(*first) {
                collect(rule, &rule.path[1..], value, &format!("spec.{first}"), &mut found);
            }
        }
    }
    found
}

fn tree(pod: &Pod) -> Option<Value> {
    let tree: Value = serde_json::from_slice(&pod.encode()).ok()?;
    tree.get("spec").cloned()
}

fn collect(rule: &Refused, rest: &[&str], value: &Value, path: &str, found: &mut Vec<String>) {
    if let Value::Array(items) = value
        && !rest.is_empty()
    {
        for (index, item) in items.iter().enumerate() {
            collect(rule, rest, item, &format!("{path}[{index}]"), found);
        }
        return;
    }
    let Some((field, rest)) = rest.split_first() else {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let is_empty = match value {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(members) => members.is_empty(),
            Value::String(text) => text.is_empty(),
            Value::Bool(_) | Value::Number(_) => false,
        };
        if !is_empty && !rule.harmless.contains(&text.as_str()) {
            let shown = if value.is_array() || value.is_object() {
                path.to_owned()
            } else {
                format!("{path}: {text}")
            };
            found.push(shown);
        }
        return;
    };
    if let Some(value) = value.get(field) {
        collect(rule, rest, value, &format!("{path}.{field}"), found);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use apimachinery::schema::SchemaRef;
    use serde_json::json;

    use super::*;

    /// All fields that hold values, lists and maps passed through.
    fn leaves(schema: &SchemaRef, path: &str, found: &mut BTreeSet<String>) {
        let schema = schema.resolve();
        if let Some(items) = schema.items.as_ref().or(schema.additional.as_ref()) {
            leaves(items, path, found);
        } else if schema.properties.is_empty() {
            found.insert(path.to_owned());
        } else {
            for (name, field) in &schema.properties {
                let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                leaves(field, &below, found);
            }
        }
    }

    fn schema_leaves() -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        leaves(&api::schema("io.k8s.api.core.v1.PodSpec"), "", &mut found);
        let merge = |path: String| match path.split_once('.') {
            Some((list, rest)) if CONTAINERS.contains(&list) => format!("containers.{rest}"),
            _ => path,
        };
        found.into_iter().map(merge).collect()
    }

    #[test]
    fn every_field_of_a_pod_is_done_or_refused() {
        let listed: Vec<(&str, &str)> = TABLE
            .lines()
            .filter(|it| !it.is_empty() && !it.starts_with('#'))
            .map(|it| it.split_once(' ').unwrap_or_else(|| panic!("nobody sees to {it}")))
            .collect();
        let covers = |line: &str, leaf: &str| match line.strip_suffix(".*") {
            Some(parent) => leaf.strip_prefix(parent).is_some_and(|it| it.starts_with('.')),
            None => line == leaf,
        };
        let leaves = schema_leaves();
        let missing: Vec<&String> =
            leaves.iter().filter(|leaf| !listed.iter().any(|it| covers(it.0, leaf))).collect();
        assert!(missing.is_empty(), "nobody has decided on: {missing:#?}");
        let stale: Vec<_> =
            listed.iter().filter(|line| !leaves.iter().any(|leaf| covers(line.0, leaf))).collect();
        assert!(stale.is_empty(), "no such fields: {stale:#?}");
        for (path, who) in &listed {
            // A whole branch may only be left to somebody who refuses it.
            let is_refused = who.trim().starts_with("refused") || who.contains("refuses");
            assert!(!path.ends_with(".*") || is_refused, "{path}: list its fields");
        }
        let paths: Vec<&str> = listed.iter().map(|it| it.0).collect();
        assert!(paths.is_sorted(), "in alphabetical order, please");
    }

    fn check(spec: Value, expected: &[&str]) {
        let pod = json!({ "metadata": { "name": "a" }, "spec": spec });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        assert_eq!(refused(&pod), expected);
    }

    #[test]
    fn what_is_not_done_is_refused_with_its_path() {
        check(json!({ "containers": [{ "name": "c", "image": "i" }], "hostUsers": true }), &[]);
        check(json!({ "containers": [], "hostUsers": false }), &["spec.hostUsers: false"]);
        check(
            json!({
                "containers": [{ "name": "c", "securityContext": { "procMount": "Default" } }],
                "initContainers": [
                    { "name": "i", "securityContext": { "procMount": "Unmasked" } },
                    { "name": "j", "resources": { "claims": [{ "name": "x" }] } },
                ],
                "ephemeralContainers": [
                    { "name": "e", "securityContext": { "windowsOptions": { "hostProcess": true } } },
                ],
            }),
            &[
                "spec.initContainers[1].resources.claims",
                "spec.initContainers[0].securityContext.procMount: Unmasked",
                "spec.ephemeralContainers[0].securityContext.windowsOptions",
            ],
        );
    }

    #[test]
    fn containers_that_come_later_are_looked_at_too() {
        let pod = json!({ "metadata": {}, "spec": {
            "containers": [{ "name": "c" }],
            "ephemeralContainers": [{ "name": "e", "targetContainerName": "c",
                "securityContext": { "procMount": "Unmasked" } }],
        }});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        assert_eq!(of_container(&pod, "c"), Vec::<String>::new());
        let expected = ["spec.ephemeralContainers[0].securityContext.procMount: Unmasked"];
        assert_eq!(of_container(&pod, "e"), expected);
    }
}
