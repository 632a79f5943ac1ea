//! ValidatingAdmissionPolicyBinding: where a policy holds, with which parameters, and what follows.

#[cfg(test)]
mod tests;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use super::{match_resources, parameters, reserved_names};
use crate::cell;
use crate::kind::Resource;
use crate::semantic;

pub use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;

impl Resource for ValidatingAdmissionPolicyBinding {
    codec!();

    fn apply_defaults(&mut self) {
        if let Some(resources) = &mut self.spec.match_resources {
            match_resources::apply_defaults(resources);
        }
    }

    fn has_same_spec(&self, stored: &Self) -> bool {
        self.spec == stored.spec || semantic::equal_at("spec", self, stored)
    }

    fn validate(&self, errors: &mut FieldErrors) {
        validation::validate(self, errors);
    }

    fn warnings(&self) -> Vec<String> {
        reserved_names::warnings(&self.metadata, &[])
    }

    fn columns() -> &'static [Column] {
        const {
            &[
                Column::name(),
                Column::new("PolicyName", "string"),
                Column::new("ParamRef", "string"),
                Column::new("Age", "string"),
            ]
        }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        vec![
            cell::name(&self.metadata),
            Value::from(self.spec.policy_name.as_str()),
            parameters::ref_cell(self.spec.param_ref.as_ref()),
            cell::age(&self.metadata, now),
        ]
    }
}
