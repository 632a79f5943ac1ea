//! ClusterRole: what may be done anywhere; may be made up of others.

#[cfg(test)]
mod tests;

use apimachinery::{FieldErrors, Scope};

use crate::kind::Resource;

use super::rules;
use apimachinery::field::Path;
use apimachinery::validation::validate_label_selector;
use serde_json::Value;

pub use k8s_openapi::api::rbac::v1::ClusterRole;

impl Resource for ClusterRole {
    codec!();

    fn validate(&self, errors: &mut FieldErrors) {
        rules::validate(self.rules.as_ref(), Scope::Cluster, errors);
        let Some(aggregation) = &self.aggregation_rule else { return };
        let path = Path::new("aggregationRule").child("clusterRoleSelectors");
        let selectors = aggregation.cluster_role_selectors.as_deref().unwrap_or_default();
        if selectors.is_empty() {
            errors.required(
                &path,
                "at least one clusterRoleSelector required if aggregationRule is non-nil",
            );
        }
        for (index, selector) in selectors.iter().enumerate() {
            let path = path.index(index);
            let mut problems = FieldErrors::new();
            validate_label_selector(selector, &path, &mut problems);
            // What cannot be read is said of the parts, and of the whole.
            if !problems.is_empty() {
                problems.invalid(&path, Value::Null, "invalid label selector.");
            }
            errors.extend(problems);
        }
    }
}
