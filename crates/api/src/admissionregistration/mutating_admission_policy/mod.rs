//! MutatingAdmissionPolicy: changes to what is written, as expressions, where they are bound.
//! Stored as v1. (Upstream stores it as v1beta1 for as long as the server before this version has
//! to read it; the fields are the same, and values of either version are read.)

#[cfg(test)]
mod tests;
pub mod v1alpha1;
pub mod v1beta1;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use super::{match_resources, parameters, reserved_names};
use crate::kind::{Part, Resource};
use crate::{cell, semantic, version};

pub use k8s_openapi::api::admissionregistration::v1::MutatingAdmissionPolicy;

impl Resource for MutatingAdmissionPolicy {
    codec!();

    fn convert_stored(
        api_version: &str,
        json: &[u8],
    ) -> Option<Result<Vec<u8>, serde_json::Error>> {
        match api_version {
            "admissionregistration.k8s.io/v1beta1" => {
                Some(version::convert_stored::<v1beta1::MutatingAdmissionPolicy, Self>(json))
            }
            "admissionregistration.k8s.io/v1alpha1" => {
                Some(version::convert_stored::<v1alpha1::MutatingAdmissionPolicy, Self>(json))
            }
            _ => None,
        }
    }

    fn apply_defaults(&mut self) {
        let spec = self.spec.get_or_insert_default();
        spec.failure_policy.get_or_insert_with(|| "Fail".to_owned());
        if let Some(resources) = &mut spec.match_constraints {
            match_resources::apply_defaults(resources);
        }
    }

    fn has_same_spec(&self, stored: &Self) -> bool {
        self.spec == stored.spec || semantic::equal_at("spec", self, stored)
    }

    /// What is wrong depends on what was there: see below.
    fn validate(&self, _errors: &mut FieldErrors) {}

    fn validate_create(&self, errors: &mut FieldErrors) {
        validation::validate(self, None, errors);
    }

    fn validate_update(&self, stored: &Self, _part: Part, errors: &mut FieldErrors) {
        validation::validate(self, Some(stored), errors);
    }

    fn warnings(&self) -> Vec<String> {
        reserved_names::warnings(&self.metadata, &[])
    }

    fn columns() -> &'static [Column] {
        const {
            &[
                Column::name(),
                Column::new("Mutations", "integer"),
                Column::new("ParamKind", "string"),
                Column::new("Age", "string"),
            ]
        }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        let spec = self.spec.as_ref();
        vec![
            cell::name(&self.metadata),
            Value::from(spec.and_then(|it| it.mutations.as_ref()).map_or(0, Vec::len)),
            parameters::kind_cell(spec.and_then(|it| it.param_kind.as_ref())),
            cell::age(&self.metadata, now),
        ]
    }
}
