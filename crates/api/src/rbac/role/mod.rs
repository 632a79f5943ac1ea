//! Role: what may be done in one namespace.

#[cfg(test)]
mod tests;

use apimachinery::FieldErrors;

use crate::kind::Resource;

use super::rules;
use apimachinery::Scope;

pub use k8s_openapi::api::rbac::v1::Role;

impl Resource for Role {
    codec!();

    fn validate(&self, errors: &mut FieldErrors) {
        rules::validate(self.rules.as_ref(), Scope::Namespaced, errors);
    }
}
