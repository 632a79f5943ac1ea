//! What those keep of a node who follow all of them: whether it lives, what it offers and what it
//! repels.

use std::sync::Arc;

use apimachinery::GroupVersionResource;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NodeAddress, NodeCondition, Taint};
use serde::Deserialize;

use super::Node;
use crate::object::{Meta, Stored};
use crate::{Pairs, View};

/// Without images and what the kubelet says of its machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeView {
    /// Shared with the server's cache, in one process.
    pub meta: Arc<Meta>,
    pub taints: Vec<Taint>,
    pub is_unschedulable: bool,
    pub allocatable: Pairs,
    pub conditions: Vec<NodeCondition>,
    pub created: Option<Timestamp>,
    /// For how long kubelets may keep what they read: an annotation.
    pub ttl: Option<Box<str>>,
    /// `spec.podCIDRs`, or `spec.podCIDR` alone.
    pub pod_cidrs: Box<[Box<str>]>,
    pub addresses: Vec<NodeAddress>,
    /// Which ranges the node would have, if they are free: an annotation.
    pub wished_cidrs: Option<Box<str>>,
}

/// The annotation that says for how long kubelets may keep what they read.
pub const TTL: &str = "node.alpha.kubernetes.io/ttl";

#[derive(Deserialize)]
struct Parts {
    metadata: Option<Metadata>,
    spec: Option<Spec>,
    status: Option<Status>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    creation_timestamp: Option<Timestamp>,
    annotations: Option<Annotations>,
}

#[derive(Default, Deserialize)]
struct Annotations {
    #[serde(rename = "node.alpha.kubernetes.io/ttl")]
    ttl: Option<Box<str>>,
    #[serde(rename = "xebec.local/pod-cidrs")]
    wished_cidrs: Option<Box<str>>,
}

#[derive(Default, Deserialize)]
struct Spec {
    taints: Option<Vec<Taint>>,
    unschedulable: Option<bool>,
    #[serde(rename = "podCIDR")]
    pod_cidr: Option<Box<str>>,
    #[serde(rename = "podCIDRs")]
    pod_cidrs: Option<Box<[Box<str>]>>,
}

#[derive(Default, Deserialize)]
struct Status {
    allocatable: Option<Pairs>,
    conditions: Option<Vec<NodeCondition>>,
    addresses: Option<Vec<NodeAddress>>,
}

impl View for NodeView {
    fn resource() -> GroupVersionResource {
        <Node as View>::resource()
    }

    fn read(stored: &Stored) -> Result<Self, serde_json::Error> {
        let Parts { metadata, spec, status } = serde_json::from_slice(&stored.bytes)?;
        let (spec, status) = (spec.unwrap_or_default(), status.unwrap_or_default());
        let metadata = metadata.unwrap_or_default();
        let annotations = metadata.annotations.unwrap_or_default();
        let one = || spec.pod_cidr.filter(|it| !it.is_empty()).into_iter().collect();
        let mut view = Self {
            meta: stored.meta.clone(),
            taints: spec.taints.unwrap_or_default(),
            is_unschedulable: spec.unschedulable.unwrap_or(false),
            allocatable: status.allocatable.unwrap_or_default(),
            conditions: status.conditions.unwrap_or_default(),
            created: metadata.creation_timestamp,
            ttl: annotations.ttl,
            pod_cidrs: spec.pod_cidrs.filter(|it| !it.is_empty()).unwrap_or_else(one),
            addresses: status.addresses.unwrap_or_default(),
            wished_cidrs: annotations.wished_cidrs,
        };
        // Decoding leaves spare capacity.
        view.taints.shrink_to_fit();
        view.conditions.shrink_to_fit();
        view.addresses.shrink_to_fit();
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
            "metadata": {
                "name": "n1", "labels": {"zone": "a"},
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": {"other": "x", "node.alpha.kubernetes.io/ttl": "15"},
            },
            "spec": {"podCIDR": "10.0.0.0/24", "unschedulable": true, "taints": [{"key": "k", "effect": "NoExecute"}]},
            "status": {
                "allocatable": {"cpu": "4", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
                "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}],
                "images": [{"names": ["a"], "sizeBytes": 1}],
            },
        });
        let node = NodeView::from(&serde_json::from_value::<Node>(node).unwrap());
        assert_eq!((node.name(), node.meta.labels.get("zone")), ("n1", Some("a")));
        assert!(node.is_unschedulable && node.is_ready());
        assert_eq!(node.taints[0].key, "k");
        assert_eq!(node.allocatable.get("pods"), Some("110"));
        assert_eq!(node.condition("Ready").unwrap().reason.as_deref(), Some("KubeletReady"));
        assert_eq!(
            (node.ttl.as_deref(), &*node.pod_cidrs),
            (Some("15"), &["10.0.0.0/24".into()][..])
        );
        assert_eq!(node.created.unwrap().to_string(), "2026-01-01T00:00:00Z");
        assert_eq!(node.addresses[0].address, "192.0.2.1");
        let silent = NodeView::from(&Node::default());
        assert!(!silent.is_ready() && !silent.is_unschedulable && silent.taints.is_empty());
    }
}
