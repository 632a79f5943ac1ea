//! MutatingAdmissionPolicyBinding: where a policy changes things, and with which parameters.
//! Stored as v1, as its policies are.

#[cfg(test)]
mod tests;
pub mod v1alpha1;
pub mod v1beta1;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use super::{bindings, match_resources, parameters, reserved_names, rules};
use crate::check::text;
use crate::kind::Resource;
use crate::{cell, semantic, version};

pub use k8s_openapi::api::admissionregistration::v1::MutatingAdmissionPolicyBinding;

impl Resource for MutatingAdmissionPolicyBinding {
    codec!();

    fn convert_stored(
        api_version: &str,
        json: &[u8],
    ) -> Option<Result<Vec<u8>, serde_json::Error>> {
        match api_version {
            "admissionregistration.k8s.io/v1beta1" => {
                Some(version::convert_stored::<v1beta1::MutatingAdmissionPolicyBinding, Self>(json))
            }
            "admissionregistration.k8s.io/v1alpha1" => Some(version::convert_stored::<
                v1alpha1::MutatingAdmissionPolicyBinding,
                Self,
            >(json)),
            _ => None,
        }
    }

    fn apply_defaults(&mut self) {
        let spec = self.spec.get_or_insert_default();
        if let Some(resources) = &mut spec.match_resources {
            match_resources::apply_defaults(resources);
        }
    }

    fn has_same_spec(&self, stored: &Self) -> bool {
        semantic::equal(&self.spec, &stored.spec)
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let Some(spec) = &self.spec else { return };
        let (param_ref, resources) = (spec.param_ref.as_ref(), spec.match_resources.as_ref());
        bindings::validate(text(spec.policy_name.as_ref()), param_ref, resources, errors);
        let all_rules = resources.and_then(|it| it.resource_rules.as_ref());
        let path = Path::new("spec").child("matchResources").child("resourceRules");
        rules::validate_mutating(all_rules, &path, errors);
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
        let spec = self.spec.as_ref();
        vec![
            cell::name(&self.metadata),
            Value::from(text(spec.and_then(|it| it.policy_name.as_ref()))),
            parameters::ref_cell(spec.and_then(|it| it.param_ref.as_ref())),
            cell::age(&self.metadata, now),
        ]
    }
}
