//! A node writes only what is its own, looking into the object where the authorizer sees only its name.

#[cfg(test)]
mod tests;

use std::future::ready;
use std::sync::Arc;

use api::Lookup;
use api::core::{Node, Pod};
use apimachinery::{ApiError, ObjectKey, User};
use futures_util::future::BoxFuture;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::service_account::ANNOTATION_MIRROR;
use crate::attributes::{Attributes, Operation};
use crate::chain::Plugin;

const NAMESPACE_LEASES: &str = "kube-node-lease";
/// Labels with this prefix are for administrators to pin workloads with; nodes may not set them.
const LABEL_RESTRICTED: &str = "node-restriction.kubernetes.io/";

pub struct NodeRestriction {
    lookup: Arc<dyn Lookup>,
}

/// Why a node may not; the caller adds which object.
type Verdict = Result<(), String>;

impl NodeRestriction {
    pub fn new(lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup }
    }

    fn check(&self, node: &str, attributes: &Attributes<'_>) -> Verdict {
        let Attributes { resource, subresource, .. } = attributes;
        match (resource.group.as_str(), resource.resource.as_str(), *subresource) {
            ("", "pods", "") => own_pod(node, attributes),
            ("", "pods", "status") => own_pod_status(node, attributes),
            ("", "pods", "eviction") => self.own_eviction(node, attributes),
            ("", "nodes", _) => own_node(node, attributes),
            ("", "serviceaccounts", "token") => self.own_token(node, attributes),
            ("coordination.k8s.io", "leases", _) => own_lease(node, attributes),
            _ => Ok(()),
        }
    }

    fn own_eviction(&self, node: &str, attributes: &Attributes<'_>) -> Verdict {
        let key = ObjectKey::new(attributes.namespace, attributes.name);
        match self.lookup.get::<Pod>(&key) {
            Some(pod) if !is_bound(&pod, node) => {
                Err(format!("node {node:?} can only evict pods with spec.nodeName set to itself"))
            }
            _ => Ok(()),
        }
    }

    fn own_token(&self, node: &str, attributes: &Attributes<'_>) -> Verdict {
        let Some(request) = attributes.object_as::<TokenRequest>() else { return Ok(()) };
        let bound = request.spec.as_ref().and_then(|it| it.bound_object_ref.as_ref());
        let Some(bound) = bound.filter(|it| it.kind.as_deref() == Some("Pod")) else {
            return Err("node requested token not bound to a pod".to_owned());
        };
        let name = bound.name.as_deref().unwrap_or_default();
        let Some(pod) = self.lookup.get::<Pod>(&ObjectKey::new(attributes.namespace, name)) else {
            return Err(format!("pod {name:?} not found"));
        };
        if bound.uid.as_deref().is_some_and(|it| Some(it) != pod.metadata.uid.as_deref()) {
            return Err(format!(
                "the UID in the bound object reference is not that of pod {name:?}"
            ));
        }
        if !is_bound(&pod, node) {
            return Err(
                "node requested token bound to a pod scheduled on a different node".to_owned()
            );
        }
        Ok(())
    }
}

fn is_bound(pod: &Pod, node: &str) -> bool {
    pod.spec.as_ref().and_then(|it| it.node_name.as_deref()) == Some(node)
}

fn own_pod(node: &str, attributes: &Attributes<'_>) -> Verdict {
    match attributes.operation {
        Operation::Create => {
            let Some(pod) = attributes.object_as::<Pod>() else { return Ok(()) };
            let annotations = pod.metadata.annotations.as_ref();
            if !annotations.is_some_and(|it| it.contains_key(ANNOTATION_MIRROR)) {
                return Err(format!(
                    "pod does not have {ANNOTATION_MIRROR:?} annotation, \
                     node {node:?} can only create mirror pods"
                ));
            }
            if is_bound(pod, node) {
                return Ok(());
            }
            Err(format!("node {node:?} can only create pods with spec.nodeName set to itself"))
        }
        Operation::Delete => match attributes.old_as::<Pod>() {
            Some(pod) if !is_bound(pod, node) => {
                Err(format!("node {node:?} can only delete pods with spec.nodeName set to itself"))
            }
            _ => Ok(()),
        },
        Operation::Update | Operation::Connect => {
            Err(format!("unexpected operation on a pod by node {node:?}"))
        }
    }
}

fn own_pod_status(node: &str, attributes: &Attributes<'_>) -> Verdict {
    let (Some(pod), Some(old)) = (attributes.object_as::<Pod>(), attributes.old_as::<Pod>()) else {
        return Ok(());
    };
    if !is_bound(old, node) {
        return Err(format!(
            "node {node:?} can only update pod status for pods with spec.nodeName set to itself"
        ));
    }
    if labels(&pod.metadata) != labels(&old.metadata) {
        return Err(format!("node {node:?} cannot update labels through pod status"));
    }
    Ok(())
}

/// Absent and empty maps are the same labels.
fn labels(meta: &ObjectMeta) -> impl PartialEq {
    meta.labels.clone().unwrap_or_default()
}

fn own_node(node: &str, attributes: &Attributes<'_>) -> Verdict {
    let object = attributes.object_as::<Node>();
    let named = object.and_then(|it| it.metadata.name.as_deref()).unwrap_or(attributes.name);
    if named != node || (!attributes.name.is_empty() && attributes.name != node) {
        return Err(format!("node {node:?} is not allowed to modify node {named:?}"));
    }
    let Some(object) = object else { return Ok(()) };
    let old = attributes.old_as::<Node>();
    if old.is_some_and(|old| taints(old) != taints(object)) {
        return Err(format!("node {node:?} is not allowed to modify taints"));
    }
    let changed: Vec<&str> = object
        .metadata
        .labels
        .iter()
        .flatten()
        .filter(|(key, value)| {
            let stored = old.and_then(|it| it.metadata.labels.as_ref()?.get(*key));
            stored != Some(*value) && key.contains(LABEL_RESTRICTED)
        })
        .map(|(key, _)| key.as_str())
        .collect();
    if changed.is_empty() {
        return Ok(());
    }
    let verb = if old.is_some() { "modify" } else { "set" };
    Err(format!(
        "node {node:?} is not allowed to {verb} the following labels: {}",
        changed.join(", ")
    ))
}

fn taints(node: &Node) -> impl PartialEq {
    node.spec.as_ref().and_then(|it| it.taints.clone()).unwrap_or_default()
}

fn own_lease(node: &str, attributes: &Attributes<'_>) -> Verdict {
    if attributes.namespace != NAMESPACE_LEASES {
        return Err(format!("can only access leases in the {NAMESPACE_LEASES:?} system namespace"));
    }
    let object = attributes.object.as_deref().and_then(|it| it.meta().name.as_deref());
    if attributes.name != node && object != Some(node) {
        return Err(
            "can only access node lease with the same name as the requesting node".to_owned()
        );
    }
    Ok(())
}

fn node_of(user: &User) -> Option<&str> {
    let name = user.name.strip_prefix("system:node:")?;
    (!name.is_empty() && user.is_in("system:nodes")).then_some(name)
}

impl Plugin for NodeRestriction {
    fn name(&self) -> &'static str {
        "NodeRestriction"
    }

    fn admit<'a>(
        &'a self,
        attributes: &'a mut Attributes<'_>,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        let outcome = match node_of(attributes.user) {
            Some(node) => self.check(node, attributes).map_err(|why| attributes.forbidden(&why)),
            None => Ok(()),
        };
        Box::pin(ready(outcome))
    }
}
