//! Nothing is written or deleted in a namespace that is missing.

#[cfg(test)]
mod tests;

use std::future::ready;

use apimachinery::{ApiError, GroupResource, ObjectKey};

use crate::attributes::{Attributes, Operation};
use crate::chain::{Phase, Plugin, Validating};
use crate::context::Context;

pub struct NamespaceExists;

impl Plugin for NamespaceExists {
    fn name(&self) -> &'static str {
        "NamespaceExists"
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        let is_within = !request.namespace.is_empty() && !request.is_of("", "namespaces");
        phase == Phase::Validate && request.operation != Operation::Connect && is_within
    }

    fn validate<'a>(&'a self, context: &'a Context<'_>) -> Validating<'a> {
        let namespace = context.request.namespace;
        let resource = GroupResource::new("", "namespaces");
        let found = context.lookup.find(&resource, &ObjectKey::cluster(namespace));
        let missing = || ApiError::not_found(&resource, namespace);
        Box::pin(ready(found.map(|_| None).ok_or_else(missing)))
    }
}
