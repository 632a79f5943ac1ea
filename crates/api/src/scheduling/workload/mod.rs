//! Workload: groups of pods that one controller makes, as templates.

#[cfg(test)]
mod tests;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::gates;
use crate::cell;
use crate::kind::{Part, Resource};

pub use k8s_openapi::api::scheduling::v1alpha2::Workload;

impl Resource for Workload {
    codec!();

    fn apply_defaults(&mut self) {
        let templates = self.spec.pod_group_templates.iter_mut();
        for basic in templates.filter_map(|it| it.scheduling_policy.basic.as_mut()) {
            // It has no fields.
            basic.0 = json!({});
        }
    }

    fn prepare_create(&mut self) {
        for template in &mut self.spec.pod_group_templates {
            gates::drop_disabled_of_template(template, None);
        }
    }

    /// Templates are told apart by their place.
    fn prepare_update(&mut self, stored: &Self, _part: Part) {
        let before = &stored.spec.pod_group_templates;
        for (index, template) in self.spec.pod_group_templates.iter_mut().enumerate() {
            gates::drop_disabled_of_template(template, before.get(index));
        }
    }

    /// What is asked for is looked at when it is new: it never changes.
    fn validate(&self, _errors: &mut FieldErrors) {}

    fn validate_create(&self, errors: &mut FieldErrors) {
        validation::validate(self, errors);
    }

    fn validate_update(&self, stored: &Self, _part: Part, errors: &mut FieldErrors) {
        validation::validate_update(self, stored, errors);
    }

    fn warnings(&self) -> Vec<String> {
        vec![super::NOT_SCHEDULED.to_owned()]
    }

    fn columns() -> &'static [Column] {
        const { &[Column::name(), Column::new("Age", "string")] }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        vec![cell::name(&self.metadata), cell::age(&self.metadata, now)]
    }
}
