//! A node writes only what is its own, looking into the object where the Node authorizer sees only its name. What is
//! neither the node's nor known to be harmless is refused.

mod nodes;
mod others;
mod pods;
#[cfg(test)]
mod tests;
mod tokens;

use std::future::ready;
use std::sync::Arc;

use api::core::Pod;
use api::{Lookup, Resource};
use apimachinery::{ApiError, GroupResource, ObjectKey, User};
use futures_util::future::BoxFuture;

use crate::attributes::{Attributes, Operation};
use crate::chain::Plugin;
use crate::rights::Rights;

pub struct NodeRestriction {
    lookup: Arc<dyn Lookup>,
    rights: Arc<dyn Rights>,
}

type Verdict = Result<(), ApiError>;

impl NodeRestriction {
    pub fn new(lookup: Arc<dyn Lookup>, rights: Arc<dyn Rights>) -> Self {
        Self { lookup, rights }
    }

    fn check(&self, node: &str, attributes: &Attributes<'_>) -> Verdict {
        if node.is_empty() {
            let why = format!("could not determine node from user {:?}", attributes.user.name);
            return Err(attributes.forbidden(&why));
        }
        let resource = &attributes.resource;
        match (resource.group.as_str(), resource.resource.as_str()) {
            ("", "pods") => self.check_pod(node, attributes),
            ("", "nodes") => nodes::check(node, attributes),
            ("", "serviceaccounts") => self.check_token(node, attributes),
            ("", "persistentvolumeclaims") => others::check_claim(node, attributes),
            ("coordination.k8s.io", "leases") => others::check_lease(node, attributes),
            ("storage.k8s.io", "csinodes") => others::check_csi_node(node, attributes),
            ("resource.k8s.io", "resourceslices") => others::check_slice(node, attributes),
            ("certificates.k8s.io", "certificatesigningrequests") => {
                others::check_signing_request(attributes)
            }
            ("certificates.k8s.io", "podcertificaterequests") => {
                Err(attributes.forbidden("PodCertificateRequest feature gate is disabled"))
            }
            _ => Ok(()),
        }
    }

    /// An object that a node names, or that it is not there.
    fn find<T: Resource>(&self, namespace: &str, name: &str) -> Result<Arc<T>, ApiError> {
        self.lookup.get::<T>(&ObjectKey::new(namespace, name)).ok_or_else(|| {
            ApiError::not_found(&GroupResource::new(T::FACTS.group, T::FACTS.plural), name)
        })
    }
}

fn is_bound(pod: &Pod, node: &str) -> bool {
    pod.spec.as_ref().and_then(|it| it.node_name.as_deref()) == Some(node)
}

/// The name in the path, or on creation the one in the object.
fn name_of<'a>(attributes: &'a Attributes<'_>) -> &'a str {
    if !attributes.name.is_empty() {
        return attributes.name;
    }
    attributes.object.as_deref().and_then(|it| it.meta().name.as_deref()).unwrap_or_default()
}

fn unexpected_operation(attributes: &Attributes<'_>) -> ApiError {
    attributes.forbidden(&format!("unexpected operation {:?}", attributes.operation.text()))
}

/// A writer that this plugin cannot see into is refused.
fn unexpected_type(attributes: &Attributes<'_>) -> ApiError {
    attributes.forbidden("unexpected type")
}

/// The node whose user this is; empty if it is that of no node in particular.
fn node_of(user: &User) -> Option<&str> {
    user.name.strip_prefix("system:node:").filter(|_| user.is_in("system:nodes"))
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
            Some(node) if attributes.operation != Operation::Connect => {
                self.check(node, attributes)
            }
            _ => Ok(()),
        };
        Box::pin(ready(outcome))
    }
}
