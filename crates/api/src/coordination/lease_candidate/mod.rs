//! LeaseCandidate: somebody who would hold a Lease, and what they are. Stored as v1beta1.

mod semantic_version;
#[cfg(test)]
mod tests;
pub mod v1alpha2;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use crate::check::text;
use crate::kind::{Part, Resource};
use crate::{cell, version};

pub use k8s_openapi::api::coordination::v1beta1::LeaseCandidate;

impl Resource for LeaseCandidate {
    codec!();

    fn convert_stored(
        api_version: &str,
        json: &[u8],
    ) -> Option<Result<Vec<u8>, serde_json::Error>> {
        let is_known = api_version == "coordination.k8s.io/v1alpha2";
        is_known.then(|| version::convert_stored::<v1alpha2::LeaseCandidate, Self>(json))
    }

    fn validate(&self, errors: &mut FieldErrors) {
        validation::validate(self, errors);
    }

    fn validate_update(&self, stored: &Self, _part: Part, errors: &mut FieldErrors) {
        validation::validate_update(self, stored, errors);
    }

    fn columns() -> &'static [Column] {
        const {
            &[
                Column::name(),
                Column::new("LeaseName", "string"),
                Column::new("BinaryVersion", "string"),
                Column::new("EmulationVersion", "string"),
                Column::new("Age", "string"),
            ]
        }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        vec![
            cell::name(&self.metadata),
            Value::from(self.spec.lease_name.as_str()),
            Value::from(self.spec.binary_version.as_str()),
            Value::from(text(self.spec.emulation_version.as_ref())),
            cell::age(&self.metadata, now),
        ]
    }
}
