//! Nothing is created in a namespace that is missing or on its way out, and the first namespaces stay.

#[cfg(test)]
mod tests;

use std::future::ready;
use std::sync::Arc;

use api::Lookup;

use apimachinery::{ApiError, GroupResource, ObjectKey};
use futures_util::future::BoxFuture;

use crate::attributes::{Attributes, Operation};
use crate::chain::Plugin;

const IMMORTAL: &[&str] = &["default", "kube-public", "kube-system"];

pub struct NamespaceLifecycle {
    lookup: Arc<dyn Lookup>,
}

impl NamespaceLifecycle {
    pub fn new(lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup }
    }

    fn check(&self, attributes: &Attributes<'_>) -> Result<(), ApiError> {
        let is_namespace =
            attributes.resource.group.is_empty() && attributes.resource.resource == "namespaces";
        if is_namespace {
            let is_immortal = IMMORTAL.contains(&attributes.name);
            if attributes.operation == Operation::Delete && is_immortal {
                return Err(attributes.forbidden("this namespace may not be deleted"));
            }
            return Ok(());
        }
        let is_write = matches!(attributes.operation, Operation::Create | Operation::Update);
        // An access review asks about a namespace; it stores nothing there.
        let is_review = attributes.resource.resource == "localsubjectaccessreviews";
        if attributes.namespace.is_empty() || !is_write || is_review {
            return Ok(());
        }
        let namespace = attributes.namespace;
        let resource = GroupResource::new("", "namespaces");
        let Some(stored) = self.lookup.find(&resource, &ObjectKey::cluster(namespace)) else {
            return Err(ApiError::not_found(&resource, namespace));
        };
        // Asked on every write: what is read out of each object anyway says enough.
        let phase = stored.meta.fields.iter().find(|it| it.0 == "status.phase");
        let is_terminating =
            phase.is_some_and(|it| *it.1 == *"Terminating") || stored.meta.is_deleting;
        if attributes.operation == Operation::Create && is_terminating {
            let why = format!(
                "unable to create new content in namespace {namespace} because it is being terminated"
            );
            let cause = format!("namespace {namespace} is being terminated");
            return Err(attributes.forbidden(&why).with_cause(
                "NamespaceTerminating",
                &cause,
                "metadata.namespace",
            ));
        }
        Ok(())
    }
}

impl Plugin for NamespaceLifecycle {
    fn name(&self) -> &'static str {
        "NamespaceLifecycle"
    }

    fn admit<'a>(
        &'a self,
        attributes: &'a mut Attributes<'_>,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(ready(self.check(attributes)))
    }
}
