//! What those keep of a node who follow all of them: whether it lives, what it offers and what it
//! repels.

use std::sync::Arc;

use apimachinery::GroupVersionResource;
use k8s_openapi::api::core::v1::{NodeCondition, Taint};
use serde::Deserialize;

use super::Node;
use crate::object::{Meta, Stored};
use crate::{Pairs, View};

/// Without addresses, images and what the kubelet says of its machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeView {
    /// Shared with the server's cache, in one process.
    pub meta: Arc<Meta>,
    pub taints: Vec<Taint>,
    pub is_unschedulable: bool,
    pub allocatable: Pairs,
    pub conditions: Vec<NodeCondition>,
}

#[derive(Deserialize)]
struct Parts {
    spec: Option<Spec>,
    status: Option<Status>,
}

#[derive(Default, Deserialize)]
struct Spec {
    taints: Option<Vec<Taint>>,
    unschedulable: Option<bool>,
}

#[derive(Default, Deserialize)]
struct Status {
    allocatable: Option<Pairs>,
    conditions: Option<Vec<NodeCondition>>,
}

impl View for NodeView {
    fn resource() -> GroupVersionResource {
        <Node as View>::resource()
    }

    fn read(stored: &Stored) -> Result<Self, serde_json::Error> {
        let Parts { spec, status } = serde_json::from_slice(&stored.bytes)?;
        let (spec, status) = (spec.unwrap_or_default(), status.unwrap_or_default());
        let mut view = Self {
            meta: stored.meta.clone(),
            taints: spec.taints.unwrap_or_default(),
            is_unschedulable: spec.unschedulable.unwrap_or(false),
            allocatable: status.allocatable.unwrap_or_default(),
            conditions: status.conditions.unwrap_or_default(),
        };
        // Decoding leaves spare capacity.
        view.taints.shrink_to_fit();
        view.conditions.shrink_to_fit();
        Ok(view)
    }
}

identified_by_meta!(NodeView, Node);

impl NodeView {
    pub fn name(&self) -> &str {
        &self.meta.key.name
    }

    pub fn condition(&self, kind: &str) -> Option<&NodeCondition> {
        self.conditions.iter().find(|it| it.type_ == kind)
    }

    pub fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(|it| it.status == "True")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::NodeView;
    use crate::core::node::Node;

    #[test]
    fn a_node_says_what_it_offers_and_repels_and_how_it_is() {
        let node = json!({
            "metadata": {"name": "n1", "labels": {"zone": "a"}},
            "spec": {"podCIDR": "10.0.0.0/24", "unschedulable": true, "taints": [{"key": "k", "effect": "NoExecute"}]},
            "status": {
                "allocatable": {"cpu": "4", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
                "images": [{"names": ["a"], "sizeBytes": 1}],
            },
        });
        let node = NodeView::from(&serde_json::from_value::<Node>(node).unwrap());
        assert_eq!((node.name(), node.meta.labels.get("zone")), ("n1", Some("a")));
        assert!(node.is_unschedulable && node.is_ready());
        assert_eq!(node.taints[0].key, "k");
        assert_eq!(node.allocatable.get("pods"), Some("110"));
        assert_eq!(node.condition("Ready").unwrap().reason.as_deref(), Some("KubeletReady"));
        let silent = NodeView::from(&Node::default());
        assert!(!silent.is_ready() && !silent.is_unschedulable && silent.taints.is_empty());
    }
}
