//! ClusterRoleBinding: who has a role everywhere.

#[cfg(test)]
mod tests;

use apimachinery::{FieldErrors, Scope};

use crate::kind::Resource;

use super::subjects;
use crate::cell;
use crate::kind::Part;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

pub use k8s_openapi::api::rbac::v1::ClusterRoleBinding;

impl Resource for ClusterRoleBinding {
    codec!();

    fn apply_defaults(&mut self) {
        subjects::apply_defaults(&mut self.role_ref, self.subjects.as_mut());
    }

    fn validate(&self, errors: &mut FieldErrors) {
        subjects::validate(&self.role_ref, self.subjects.as_ref(), Scope::Cluster, errors);
    }

    fn validate_update(&self, stored: &Self, _part: Part, errors: &mut FieldErrors) {
        subjects::validate_unchanged(&self.role_ref, &stored.role_ref, errors);
    }

    fn columns() -> &'static [Column] {
        subjects::COLUMNS
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        let [users, groups, accounts] = subjects::cells(self.subjects.as_ref());
        vec![
            cell::name(&self.metadata),
            Value::from(format!("{}/{}", self.role_ref.kind, self.role_ref.name)),
            cell::age(&self.metadata, now),
            users,
            groups,
            accounts,
        ]
    }
}
