//! A node writes only what is its own, looking into the object where the Node authorizer sees only
//! its name. What is neither the node's nor known to be harmless is refused.

mod certificates;
mod nodes;
mod others;
mod pods;
#[cfg(test)]
mod tests;
mod tokens;

use std::sync::Arc;

use api::Resource;
use api::core::Pod;
use apimachinery::{ApiError, GroupResource, ObjectKey, User};

use crate::attributes::{Attributes, Operation};
use crate::chain::{Admitting, Phase, Plugin};
use crate::context::Context;

pub struct NodeRestriction;

type Verdict = Result<(), ApiError>;

async fn validate(node: &str, context: &Context<'_>) -> Verdict {
    if node.is_empty() {
        let why = format!("could not determine node from user {:?}", context.request.user.name);
        return Err(context.forbidden(&why));
    }
    let names = context.request.kind.names();
    match (names.group.as_str(), names.plural.as_str()) {
        ("", "pods") => pods::validate(node, context),
        ("", "nodes") => nodes::validate(node, context),
        ("", "serviceaccounts") => tokens::validate(node, context).await,
        ("", "persistentvolumeclaims") => others::validate_claim(node, context),
        ("coordination.k8s.io", "leases") => others::validate_lease(node, context),
        ("storage.k8s.io", "csinodes") => others::validate_csi_node(node, context),
        ("resource.k8s.io", "resourceslices") => others::validate_slice(node, context),
        ("certificates.k8s.io", "certificatesigningrequests") => {
            certificates::validate_request(node, context)
        }
        ("certificates.k8s.io", "podcertificaterequests") => {
            certificates::validate_pod_request(node, context)
        }
        _ => Ok(()),
    }
}

/// An object that a node names, or that it is not there.
fn find<T: Resource>(
    context: &Context<'_>,
    namespace: &str,
    name: &str,
) -> Result<Arc<T>, ApiError> {
    context.lookup.get::<T>(&ObjectKey::new(namespace, name)).ok_or_else(|| {
        ApiError::not_found(&GroupResource::new(T::FACTS.group, T::FACTS.plural), name)
    })
}

fn is_bound(pod: &Pod, node: &str) -> bool {
    pod.spec.as_ref().and_then(|it| it.node_name.as_deref()) == Some(node)
}

fn unexpected_operation(context: &Context<'_>) -> ApiError {
    let operation = context.request.operation.text();
    context.forbidden(&format!("unexpected operation {operation:?}"))
}

/// A writer that this plugin cannot see into is refused.
fn unexpected_type(context: &Context<'_>) -> ApiError {
    context.forbidden("unexpected type")
}

/// The node whose user this is; empty if it is that of no node in particular.
fn node_of(user: &User) -> Option<&str> {
    user.name.strip_prefix("system:node:").filter(|_| user.is_in("system:nodes"))
}

impl Plugin for NodeRestriction {
    fn name(&self) -> &'static str {
        "NodeRestriction"
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        phase == Phase::Mutate
            && request.operation != Operation::Connect
            && node_of(request.user).is_some()
    }

    fn admit<'a>(&'a self, context: &'a mut Context<'_>) -> Admitting<'a> {
        let node = node_of(context.request.user).unwrap_or_default();
        Box::pin(validate(node, context))
    }
}
