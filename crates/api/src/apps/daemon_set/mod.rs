//! DaemonSet: one pod of a template on each node that fits.

mod defaults;
mod generation;
mod table;
#[cfg(test)]
mod tests;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use super::workload;
use crate::kind::{Part, Resource};

pub use k8s_openapi::api::apps::v1::DaemonSet;

impl Resource for DaemonSet {
    codec!(with_selector);
    spec_and_status!();

    fn apply_defaults(&mut self) {
        defaults::apply(self);
        generation::write(self);
    }

    fn prepare_create(&mut self) {
        self.clear_status();
        generation::begin(self);
    }

    fn prepare_update(&mut self, stored: &Self, part: Part) {
        match part {
            Part::Status => self.keep_spec(stored),
            Part::Main | Part::Other(_) => self.keep_status(stored),
        }
        generation::carry_on(self, stored);
    }

    fn conversion_error(&self) -> Option<String> {
        generation::conversion_error(self)
    }

    fn validate(&self, errors: &mut FieldErrors) {
        validation::validate(self, errors);
    }

    fn validate_update(&self, stored: &Self, part: Part, errors: &mut FieldErrors) {
        validation::validate_update(self, stored, part, errors);
    }

    fn warnings(&self) -> Vec<String> {
        let Some(spec) = &self.spec else { return Vec::new() };
        workload::template_warnings(&spec.template, &Path::new("spec.template"))
    }

    fn update_warnings(&self, stored: &Self, part: Part) -> Vec<String> {
        if part == Part::Status || generation::is_same(self, stored) {
            return Vec::new();
        }
        self.warnings()
    }

    fn columns() -> &'static [Column] {
        table::COLUMNS
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        table::row(self, now)
    }
}
