//! The Node authorizer: a node may touch its own Node, its own Lease, its pods, and what those pods refer to.
//!
//! The fixed rules are those of the bootstrap role `system:node`; this narrows them to what belongs to the node.

mod references;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::core::Pod;
use api::{Lookup, Stored};
use apimachinery::{GroupResource, ObjectKey, User};
use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::attributes::Attributes;
use crate::authorizer::Decision;
use crate::bootstrap;
use crate::rule;
use references::Reference;

const GROUP_NODES: &str = "system:nodes";
const USER_PREFIX: &str = "system:node:";
const NAMESPACE_LEASES: &str = "kube-node-lease";

pub struct NodeAuthorizer {
    lookup: Arc<dyn Lookup>,
    rules: Vec<PolicyRule>,
}

impl NodeAuthorizer {
    pub fn new(lookup: Arc<dyn Lookup>) -> Self {
        let roles = bootstrap::objects().cluster_roles.into_iter();
        let rules = roles
            .filter(|it| it.metadata.name.as_deref() == Some("system:node"))
            .flat_map(|it| it.rules.unwrap_or_default())
            .collect();
        Self { lookup, rules }
    }

    /// The node that `user` is the identity of.
    pub fn node_of(user: &User) -> Option<&str> {
        user.name.strip_prefix(USER_PREFIX).filter(|it| !it.is_empty() && user.is_in(GROUP_NODES))
    }

    pub fn decide(&self, user: &User, attributes: &Attributes) -> Decision {
        let Some(node) = Self::node_of(user) else {
            return Decision::NoOpinion { reason: String::new() };
        };
        match self.refusal(node, attributes) {
            Some(why) => Decision::NoOpinion { reason: why.to_owned() },
            None if self.rules.iter().any(|it| rule::allows(it, attributes)) => {
                Decision::Allow { reason: String::new() }
            }
            None => Decision::NoOpinion { reason: String::new() },
        }
    }

    /// Why the node may not do this although its role could.
    fn refusal(&self, node: &str, attributes: &Attributes) -> Option<&'static str> {
        if !attributes.is_resource {
            return None;
        }
        let subresource = attributes.subresource.as_str();
        match (attributes.group.as_str(), attributes.resource.as_str()) {
            ("", "nodes") => own_node(node, attributes),
            ("", "pods") => self.own_pod(node, attributes),
            ("coordination.k8s.io", "leases") => own_lease(node, attributes),
            ("storage.k8s.io", "csinodes") => is_other_name(node, attributes)
                .then_some("can only access CSINode with the same name as the requesting node"),
            ("", "secrets") => self.referenced(node, attributes, Reference::Secret),
            ("", "configmaps") => self.referenced(node, attributes, Reference::ConfigMap),
            ("", "persistentvolumeclaims") => {
                self.referenced(node, attributes, Reference::PersistentVolumeClaim)
            }
            ("", "serviceaccounts") if subresource == "token" || subresource.is_empty() => {
                self.referenced(node, attributes, Reference::ServiceAccount)
            }
            // Which of these belong to a node is only known once their kinds are served: refused until then.
            ("", "persistentvolumes")
            | ("storage.k8s.io", "volumeattachments")
            | ("resource.k8s.io", _) => Some("no relationship found between node and this object"),
            _ => None,
        }
    }

    fn own_pod(&self, node: &str, attributes: &Attributes) -> Option<&'static str> {
        let verb = attributes.verb.as_str();
        let key = ObjectKey::new(attributes.namespace.as_str(), attributes.name.as_str());
        if matches!(verb, "list" | "watch") && attributes.is_selected_by("spec.nodeName", node) {
            return None;
        }
        match (verb, attributes.name.as_str()) {
            ("list" | "watch", "") => {
                Some("can only list/watch pods with spec.nodeName field selector")
            }
            ("create", "") => None,
            (_, "") => Some("no object name found"),
            ("get" | "list" | "watch", _) => {
                let pod = self.lookup.find(&pods(), &key);
                (!pod.is_some_and(|it| is_bound(&it, node)))
                    .then_some("no relationship found between node and this object")
            }
            // A pod that is gone answers 404, whoever asks.
            _ => self
                .lookup
                .find(&pods(), &key)
                .is_some_and(|it| !is_bound(&it, node))
                .then_some("can only write pods that are bound to the requesting node"),
        }
    }

    fn referenced(
        &self,
        node: &str,
        attributes: &Attributes,
        reference: Reference,
    ) -> Option<&'static str> {
        if attributes.name.is_empty() {
            return Some("no object name found");
        }
        let is_referenced = self
            .lookup
            .list(&pods(), Some(&attributes.namespace))
            .iter()
            .filter(|it| is_bound(it, node))
            .filter_map(|it| it.typed(<Pod as api::Resource>::decode).ok())
            .any(|it| references::refers(&it, reference, &attributes.name));
        (!is_referenced).then_some("no relationship found between node and this object")
    }
}

fn pods() -> GroupResource {
    GroupResource::new("", "pods")
}

/// Reads the selectable field where the cache has it, so that pods of other nodes are not decoded.
fn is_bound(pod: &Stored, node: &str) -> bool {
    match pod.meta.fields.iter().find(|(name, _)| *name == "spec.nodeName") {
        Some((_, value)) => value == node,
        None => pod
            .typed(<Pod as api::Resource>::decode)
            .is_ok_and(|it| it.spec.as_ref().and_then(|it| it.node_name.as_deref()) == Some(node)),
    }
}

/// Whether the request names another object than the one called like the node.
fn is_other_name(node: &str, attributes: &Attributes) -> bool {
    !(attributes.name == node || (attributes.verb == "create" && attributes.name.is_empty()))
}

fn own_node(node: &str, attributes: &Attributes) -> Option<&'static str> {
    let is_narrowed = attributes.is_selected_by("metadata.name", node);
    (is_other_name(node, attributes) && !is_narrowed)
        .then_some("can only access the Node object with the same name as the requesting node")
}

fn own_lease(node: &str, attributes: &Attributes) -> Option<&'static str> {
    if attributes.namespace != NAMESPACE_LEASES {
        return Some("can only access leases in the \"kube-node-lease\" system namespace");
    }
    is_other_name(node, attributes)
        .then_some("can only access node lease with the same name as the requesting node")
}
