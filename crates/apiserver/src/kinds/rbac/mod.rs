//! Roles and bindings: what they say holds from the moment it is stored, and nobody grants what
//! they do not have.

use std::sync::Arc;

use apimachinery::{ApiError, GroupResource};
use authz::{Rbac, escalation};

use crate::cache::Change;
use crate::pipeline::Core;
use crate::pipeline::hooks::{Hooks, Of, Write};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(crate) struct Roles {
    rbac: Arc<Rbac>,
}

impl Roles {
    pub(crate) fn new(rbac: Arc<Rbac>) -> Self {
        Self { rbac }
    }
}

impl Hooks for Roles {
    fn of(&self) -> &'static [Of] {
        &[
            (GROUP, "clusterrolebindings"),
            (GROUP, "clusterroles"),
            (GROUP, "rolebindings"),
            (GROUP, "roles"),
        ]
    }

    fn observe(&self, resource: &GroupResource, change: &Change) {
        match &change.object {
            Some(object) => self.rbac.upsert(resource, object),
            None => self.rbac.remove(resource, &change.latest().meta.key),
        }
    }

    fn validate_write(&self, core: &Core, write: &Write<'_>) -> Result<(), ApiError> {
        let Write { request, object, old } = *write;
        let write = escalation::Write {
            user: request.user(),
            resource: &request.kind.names().group_resource(),
            namespace: request.namespace(),
            name: request.name(),
            object,
            old,
        };
        escalation::validate(&core.authorizer, &write)
    }
}
