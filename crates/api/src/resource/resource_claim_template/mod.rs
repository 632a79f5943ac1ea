//! ResourceClaimTemplate: the claims that pods get of their own.

#[cfg(test)]
mod tests;
pub mod v1beta1;
pub mod v1beta2;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use super::claims;
use super::resource_claim::NOT_ALLOCATED;
use crate::kind::{Part, Resource};
use crate::{cell, version};

pub use k8s_openapi::api::resource::v1::ResourceClaimTemplate;

impl Resource for ResourceClaimTemplate {
    codec!();

    fn convert_stored(
        api_version: &str,
        json: &[u8],
    ) -> Option<Result<Vec<u8>, serde_json::Error>> {
        match api_version {
            "resource.k8s.io/v1beta1" => {
                Some(version::convert_stored::<v1beta1::ResourceClaimTemplate, Self>(json))
            }
            "resource.k8s.io/v1beta2" => {
                Some(version::convert_stored::<v1beta2::ResourceClaimTemplate, Self>(json))
            }
            _ => None,
        }
    }

    fn apply_defaults(&mut self) {
        self.spec.metadata.get_or_insert_default();
        claims::apply_defaults(&mut self.spec.spec);
    }

    fn validate(&self, errors: &mut FieldErrors) {
        validation::validate(self, errors);
    }

    fn validate_update(&self, stored: &Self, _part: Part, errors: &mut FieldErrors) {
        validation::validate_update(self, stored, errors);
    }

    fn warnings(&self) -> Vec<String> {
        vec![NOT_ALLOCATED.to_owned()]
    }

    fn columns() -> &'static [Column] {
        const { &[Column::name(), Column::new("Age", "string")] }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        vec![cell::name(&self.metadata), cell::age(&self.metadata, now)]
    }
}
