//! ResourcePoolStatusRequest: a question about the pools of a driver, answered once in its status.

mod table;
#[cfg(test)]
mod tests;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use crate::kind::{Part, Resource};

pub use k8s_openapi::api::resource::v1alpha3::ResourcePoolStatusRequest;

const LIMIT: i32 = 100;

impl Resource for ResourcePoolStatusRequest {
    codec!();
    spec_and_status_alone!();

    fn apply_defaults(&mut self) {
        self.spec.limit.get_or_insert(LIMIT);
    }

    /// One that was not answered has none.
    fn prepare_create(&mut self) {
        self.status = None;
    }

    /// What is wrong depends on what was there: see below.
    fn validate(&self, _errors: &mut FieldErrors) {}

    fn validate_create(&self, errors: &mut FieldErrors) {
        validation::validate(self, errors);
    }

    fn validate_update(&self, stored: &Self, part: Part, errors: &mut FieldErrors) {
        match part {
            Part::Status => validation::validate_status(self, stored, errors),
            Part::Main | Part::Other(_) => validation::validate_update(self, stored, errors),
        }
    }

    fn columns() -> &'static [Column] {
        table::COLUMNS
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        table::row(self, now)
    }
}
