//! ValidatingAdmissionPolicy: expressions that what is written has to meet, where it is bound.

#[cfg(test)]
mod tests;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use super::{match_resources, parameters, reserved_names};
use crate::cell;
use crate::kind::{Part, Resource};

pub use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;

impl Resource for ValidatingAdmissionPolicy {
    codec!();
    spec_and_status_alone!();

    fn apply_defaults(&mut self) {
        let spec = self.spec.get_or_insert_default();
        spec.failure_policy.get_or_insert_with(|| "Fail".to_owned());
        if let Some(resources) = &mut spec.match_constraints {
            match_resources::apply_defaults(resources);
        }
    }

    /// What is wrong depends on what was there: see below.
    fn validate(&self, _errors: &mut FieldErrors) {}

    fn validate_create(&self, errors: &mut FieldErrors) {
        validation::validate(self, None, errors);
    }

    fn validate_update(&self, stored: &Self, part: Part, errors: &mut FieldErrors) {
        match part {
            Part::Status => validation::validate_status(self, errors),
            Part::Main | Part::Other(_) => validation::validate(self, Some(stored), errors),
        }
    }

    fn warnings(&self) -> Vec<String> {
        reserved_names::warnings(&self.metadata, &[])
    }

    fn columns() -> &'static [Column] {
        const {
            &[
                Column::name(),
                Column::new("Validations", "integer"),
                Column::new("ParamKind", "string"),
                Column::new("Age", "string"),
            ]
        }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        let spec = self.spec.as_ref();
        let n_validations = spec.and_then(|it| it.validations.as_ref()).map_or(0, Vec::len);
        vec![
            cell::name(&self.metadata),
            Value::from(n_validations),
            parameters::kind_cell(spec.and_then(|it| it.param_kind.as_ref())),
            cell::age(&self.metadata, now),
        ]
    }
}
