//! For tests: pods and nodes from a few lines of JSON, and what a plugin says about them.

use std::sync::Arc;

use api::core::node::NodeView;
use api::core::pod::PodView;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use crate::node::NodeState;
use crate::plugins::Plugin;
use crate::pod::PodRequirements;

/// A pod with one container, changed by `spec`.
pub(crate) fn pod(spec: Value) -> PodRequirements {
    named("web", spec)
}

pub(crate) fn named(name: &str, spec: Value) -> PodRequirements {
    let mut object = json!({ "metadata": { "name": name, "namespace": "default" }, "spec": { "containers": [{ "name": "main" }] } });
    merge(&mut object["spec"], spec);
    let pod = serde_json::from_value::<Pod>(object).unwrap();
    PodRequirements::of(&Arc::new(PodView::from(&pod)))
}

/// A pod that requests this much of everything named, as `{"cpu": "1"}`.
pub(crate) fn requesting(requests: &Value) -> PodRequirements {
    let resources = json!({ "requests": requests });
    pod(json!({ "containers": [{ "name": "main", "resources": resources }] }))
}

/// A node of 4 CPUs, 8 GiB and 110 pods, changed by `rest`.
pub(crate) fn node(name: &str, rest: Value) -> NodeState {
    let mut object = json!({
        "metadata": { "name": name },
        "spec": {},
        "status": { "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "110" } },
    });
    merge(&mut object, rest);
    let mut state = NodeState { name: name.to_owned(), ..NodeState::default() };
    state.observe(&NodeView::from(&serde_json::from_value::<Node>(object).unwrap()));
    state
}

fn merge(target: &mut Value, patch: Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(target.entry(key).or_insert(Value::Null), value);
            }
        }
        (target, patch) => *target = patch,
    }
}

/// Why the plugin rules the node out, as the scheduler would ask it; empty when it does not.
pub(crate) fn refusal(plugin: &dyn Plugin, pod: &PodRequirements, node: &NodeState) -> String {
    if !plugin.applies(pod) {
        return String::new();
    }
    plugin.filter(pod, node).err().map(|it| it.0.join(", ")).unwrap_or_default()
}

/// What the plugin gives each node, out of 100.
pub(crate) fn scores(plugin: &dyn Plugin, pod: &PodRequirements, nodes: &[NodeState]) -> Vec<i64> {
    let mut scores: Vec<i64> = nodes.iter().map(|it| plugin.score(pod, it)).collect();
    plugin.normalize(&mut scores);
    scores
}
