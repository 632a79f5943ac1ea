//! A namespace that is missing is made when something is created in it.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use apimachinery::{ApiError, GroupResource, ObjectKey};
use futures_util::future::BoxFuture;

use crate::attributes::{Attributes, Operation};
use crate::chain::{Admitting, Phase, Plugin};
use crate::context::Context;

/// Makes namespaces as the server itself, whoever asked for what is in them.
pub trait Provisioner: Send + Sync {
    fn make<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<(), ApiError>>;
}

pub struct NamespaceAutoProvision {
    provisioner: Arc<dyn Provisioner>,
}

impl NamespaceAutoProvision {
    pub fn new(provisioner: Arc<dyn Provisioner>) -> Self {
        Self { provisioner }
    }
}

impl NamespaceAutoProvision {
    async fn provide(&self, context: &Context<'_>) -> Result<(), ApiError> {
        let namespace = context.request.namespace;
        let resource = GroupResource::new("", "namespaces");
        if context.lookup.find(&resource, &ObjectKey::cluster(namespace)).is_some() {
            return Ok(());
        }
        match self.provisioner.make(namespace).await {
            Err(err) if !err.is_already_exists() => Err(context.forbidden(err.message())),
            _ => Ok(()),
        }
    }
}

impl Plugin for NamespaceAutoProvision {
    fn name(&self) -> &'static str {
        "NamespaceAutoProvision"
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        let is_within = !request.namespace.is_empty() && !request.is_of("", "namespaces");
        phase == Phase::Mutate
            && request.operation == Operation::Create
            && is_within
            && !request.is_dry_run()
    }

    fn admit<'a>(&'a self, context: &'a mut Context<'_>) -> Admitting<'a> {
        Box::pin(self.provide(context))
    }
}
