//! The priority classes of the system stay: what keeps a cluster alive refers to them.

use api::scheduling::priority_class::SYSTEM;
use apimachinery::ApiError;
use client::Verb;

use crate::pipeline::Request;
use crate::pipeline::hooks::{Hooks, Of};

pub(crate) struct PriorityClasses;

impl Hooks for PriorityClasses {
    fn of(&self) -> &'static [Of] {
        &[("scheduling.k8s.io", "priorityclasses")]
    }

    /// As upstream, of single deletions alone: a collection goes with them.
    fn validate_call(&self, request: &Request) -> Result<(), ApiError> {
        let is_of_system = SYSTEM.iter().any(|it| it.0 == request.name());
        if request.call.verb == Verb::Delete && is_of_system {
            let resource = request.kind.names().group_resource();
            let why = "this is a system priority class and cannot be deleted";
            return Err(ApiError::forbidden(&resource, request.name(), why));
        }
        Ok(())
    }
}
