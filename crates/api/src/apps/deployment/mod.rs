//! Deployment: a template, a number of replicas, and how to get from one template to the next.

mod defaults;
mod table;
#[cfg(test)]
mod tests;
mod validation;

use apimachinery::FieldErrors;

use crate::kind::Resource;

use apimachinery::field::Path;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use super::workload;
use crate::kind::{Part, Scale};
use crate::semantic;

pub use k8s_openapi::api::apps::v1::Deployment;

impl Resource for Deployment {
    codec!(with_selector);
    spec_and_status!();

    fn apply_defaults(&mut self) {
        defaults::apply(self);
    }

    fn prepare_update(&mut self, stored: &Self, part: Part) {
        if part == Part::Status {
            self.keep_spec(stored);
            self.metadata.labels.clone_from(&stored.metadata.labels);
        } else {
            self.keep_status(stored);
        }
    }

    /// Annotations count, since the controller copies them to replica sets.
    fn is_new_generation(&self, stored: &Self) -> bool {
        !self.has_same_spec(stored)
            || !semantic::equal(&self.metadata.annotations, &stored.metadata.annotations)
    }

    fn validate(&self, errors: &mut FieldErrors) {
        validation::validate(self, errors);
    }

    fn validate_update(&self, stored: &Self, part: Part, errors: &mut FieldErrors) {
        validation::validate_update(self, stored, part, errors);
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = workload::name_warnings(&self.metadata);
        warnings.extend(template_warnings(self));
        warnings
    }

    fn update_warnings(&self, stored: &Self, part: Part) -> Vec<String> {
        if part == Part::Status || !workload::is_new_generation(&self.metadata, &stored.metadata) {
            return Vec::new();
        }
        template_warnings(self)
    }

    fn columns() -> &'static [Column] {
        table::COLUMNS
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        table::row(self, now)
    }

    fn scale(&self) -> Option<Scale> {
        let spec = self.spec.as_ref()?;
        Some(Scale {
            spec_replicas: spec.replicas.unwrap_or(1),
            status_replicas: self.status.as_ref().and_then(|it| it.replicas).unwrap_or(0),
            selector: workload::selector_text(&spec.selector),
        })
    }

    fn set_replicas(&mut self, replicas: i32) {
        self.spec.get_or_insert_default().replicas = Some(replicas);
    }
}

fn template_warnings(deployment: &Deployment) -> Vec<String> {
    let Some(spec) = &deployment.spec else { return Vec::new() };
    workload::template_warnings(&spec.template, &Path::new("spec.template"))
}
