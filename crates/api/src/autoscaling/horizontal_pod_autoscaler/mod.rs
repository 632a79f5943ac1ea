//! HorizontalPodAutoscaler: how many replicas of something there should be, by what is measured.
//! Stored as autoscaling/v2.

mod defaults;
mod metrics;
mod table;
#[cfg(test)]
mod tests;
pub mod v1;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::table::Column;
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerStatus;
use serde_json::Value;

use crate::kind::{Part, Resource};
use crate::version;

pub use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;

impl Resource for HorizontalPodAutoscaler {
    codec!();

    fn convert_stored(
        api_version: &str,
        json: &[u8],
    ) -> Option<Result<Vec<u8>, serde_json::Error>> {
        let is_known = api_version == "autoscaling/v1";
        is_known.then(|| version::convert_stored::<v1::HorizontalPodAutoscaler, Self>(json))
    }

    fn apply_defaults(&mut self) {
        defaults::apply(self);
    }

    /// The annotations that other versions keep what they cannot express in mean nothing here.
    fn prepare_create(&mut self) {
        v1::drop_saved(&mut self.metadata);
        self.status = Some(HorizontalPodAutoscalerStatus::default());
    }

    fn prepare_update(&mut self, stored: &Self, part: Part) {
        v1::drop_saved(&mut self.metadata);
        match part {
            Part::Status => self.spec.clone_from(&stored.spec),
            Part::Main | Part::Other(_) => self.status.clone_from(&stored.status),
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

    fn columns() -> &'static [Column] {
        table::COLUMNS
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        table::row(self, now)
    }
}
