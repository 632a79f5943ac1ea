//! DeviceClass: devices of one sort, by the expressions that they meet, with their configuration.

#[cfg(test)]
mod tests;
pub mod v1beta1;
pub mod v1beta2;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use crate::kind::{Part, Resource};
use crate::{cell, semantic, version};

pub use k8s_openapi::api::resource::v1::DeviceClass;

impl Resource for DeviceClass {
    codec!();

    fn convert_stored(
        api_version: &str,
        json: &[u8],
    ) -> Option<Result<Vec<u8>, serde_json::Error>> {
        match api_version {
            "resource.k8s.io/v1beta1" => {
                Some(version::convert_stored::<v1beta1::DeviceClass, Self>(json))
            }
            "resource.k8s.io/v1beta2" => {
                Some(version::convert_stored::<v1beta2::DeviceClass, Self>(json))
            }
            _ => None,
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

    fn columns() -> &'static [Column] {
        const { &[Column::name(), Column::new("Age", "string")] }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        vec![cell::name(&self.metadata), cell::age(&self.metadata, now)]
    }
}
