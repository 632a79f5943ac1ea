//! Nothing is created in a namespace that is missing or on its way out, and the first namespaces
//! stay.

#[cfg(test)]
mod tests;

use std::future::ready;

use apimachinery::{ApiError, GroupResource, ObjectKey};

use crate::attributes::{Attributes, Operation};
use crate::chain::{Admitting, Phase, Plugin};
use crate::context::Context;

const IMMORTAL: &[&str] = &["default", "kube-public", "kube-system"];

pub struct NamespaceLifecycle;

fn is_namespace(request: &Attributes<'_>) -> bool {
    request.is_of("", "namespaces")
}

fn validate(context: &Context<'_>) -> Result<(), ApiError> {
    let request = &context.request;
    if is_namespace(request) {
        if IMMORTAL.contains(&request.name) {
            return Err(context.forbidden("this namespace may not be deleted"));
        }
        return Ok(());
    }
    let namespace = request.namespace;
    let resource = GroupResource::new("", "namespaces");
    let Some(stored) = context.lookup.find(&resource, &ObjectKey::cluster(namespace)) else {
        return Err(ApiError::not_found(&resource, namespace));
    };
    // Asked on every write: what is read out of each object anyway says enough.
    let phase = stored.meta.fields.iter().find(|it| it.0 == "status.phase");
    let is_terminating = phase.is_some_and(|it| *it.1 == *"Terminating") || stored.meta.is_deleting;
    if request.operation == Operation::Create && is_terminating {
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let cause = format!("namespace {namespace} is being terminated");
        return Err(context.forbidden(&why).with_cause(
            "NamespaceTerminating",
            &cause,
            "metadata.namespace",
        ));
    }
    Ok(())
}

impl Plugin for NamespaceLifecycle {
    fn name(&self) -> &'static str {
        "NamespaceLifecycle"
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        // An access review asks about a namespace; it stores nothing there.
        let is_review = request.kind.names().plural == "localsubjectaccessreviews";
        phase == Phase::Mutate
            && match request.operation {
                Operation::Delete => is_namespace(request),
                Operation::Create | Operation::Update => {
                    !request.namespace.is_empty() && !is_review && !is_namespace(request)
                }
                Operation::Connect => false,
            }
    }

    fn admit<'a>(&'a self, context: &'a mut Context<'_>) -> Admitting<'a> {
        Box::pin(ready(validate(context)))
    }
}
