//! ServiceCIDR: ranges that Services get their addresses from. Stored as v1.

#[cfg(test)]
mod tests;
pub mod v1beta1;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use crate::kind::{Part, Resource};
use crate::{cell, version};

pub use k8s_openapi::api::networking::v1::ServiceCIDR;

impl Resource for ServiceCIDR {
    codec!();
    spec_and_status_alone!();

    fn convert_stored(
        api_version: &str,
        json: &[u8],
    ) -> Option<Result<Vec<u8>, serde_json::Error>> {
        let is_known = api_version == "networking.k8s.io/v1beta1";
        is_known.then(|| version::convert_stored::<v1beta1::ServiceCIDR, Self>(json))
    }

    /// Both halves are always there.
    fn apply_defaults(&mut self) {
        self.spec.get_or_insert_default();
        self.status.get_or_insert_default();
    }

    /// Ranges that are there are not judged again.
    fn validate(&self, _errors: &mut FieldErrors) {}

    fn validate_create(&self, errors: &mut FieldErrors) {
        validation::validate(self, errors);
    }

    fn validate_update(&self, stored: &Self, part: Part, errors: &mut FieldErrors) {
        if part != Part::Status {
            validation::validate_update(self, stored, errors);
        }
    }

    fn columns() -> &'static [Column] {
        const { &[Column::name(), Column::new("CIDRs", "string"), Column::new("Age", "string")] }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        vec![
            cell::name(&self.metadata),
            Value::from(validation::cidrs(self).join(",")),
            cell::age(&self.metadata, now),
        ]
    }
}
