//! Role: what may be done in one namespace.

#[cfg(test)]
mod tests;

use apimachinery::{FieldErrors, NameRule};

use crate::kind::{Facts, Resource};

use super::rules;
use apimachinery::Scope;

pub use k8s_openapi::api::rbac::v1::Role;

impl Resource for Role {
    const FACTS: Facts = Facts {
        group: "rbac.authorization.k8s.io",
        kind: "Role",
        plural: "roles",
        singular: "role",
        registry_prefix: "roles",
        storage_version_hash: "7FuwZcIIItM=",
        definition: "io.k8s.api.rbac.v1.Role",
        name_rule: NameRule::PathSegment,
        creates_on_update: true,
        ..Facts::DEFAULT
    };

    codec!();

    fn validate(&self, errors: &mut FieldErrors) {
        rules::check(self.rules.as_ref(), Scope::Namespaced, errors);
    }
}
