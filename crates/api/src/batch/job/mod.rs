//! Job: pods that run until enough of them have succeeded.

pub mod conditions;
mod defaults;
pub mod indexes;
pub mod labels;
mod table;
#[cfg(test)]
mod tests;
pub(crate) mod validation;
pub(crate) mod warnings;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::table::Column;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::JobSpec;
use serde_json::Value;

use crate::apps::workload;
use crate::kind::{Part, Resource};

pub(crate) use defaults::apply_to_policies;

pub use k8s_openapi::api::batch::v1::Job;

/// Who is meant by `managedBy` unless somebody else is named.
pub const CONTROLLER: &str = "kubernetes.io/job-controller";
/// On a pod of a Job until it is counted.
pub const TRACKING_FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// Which of the completions a pod is for: a label and an annotation of it.
pub const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// How many pods of the same index failed before: an annotation.
pub const INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// The same of those that a policy says to ignore.
pub const INDEX_IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

impl Resource for Job {
    codec!();
    spec_and_status!();

    fn apply_defaults(&mut self) {
        defaults::apply(self);
    }

    fn prepare_create(&mut self) {
        labels::generate(self);
        // As whoever reads it next would find it.
        labels::take_over(self);
        self.clear_status();
    }

    /// What is checked depends on what there was before: see `validate_create` and
    /// `validate_update`.
    fn validate(&self, _errors: &mut FieldErrors) {}

    fn validate_create(&self, errors: &mut FieldErrors) {
        validation::validate_create(self, errors);
    }

    fn validate_update(&self, stored: &Self, part: Part, errors: &mut FieldErrors) {
        validation::validate_update(self, stored, part, errors);
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = workload::name_warnings(&self.metadata);
        warnings.extend(warnings_of_spec(self));
        warnings
    }

    fn update_warnings(&self, stored: &Self, part: Part) -> Vec<String> {
        if part == Part::Status || !workload::is_new_generation(&self.metadata, &stored.metadata) {
            return Vec::new();
        }
        warnings_of_spec(self)
    }

    fn columns() -> &'static [Column] {
        table::COLUMNS
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        table::row(self, now)
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        let succeeded = self.status.as_ref().and_then(|it| it.succeeded).unwrap_or(0);
        vec![("status.successful", succeeded.to_string())]
    }

    fn field_names() -> &'static [(&'static str, &'static str)] {
        &[("status.successful", "status.successful")]
    }
}

fn warnings_of_spec(job: &Job) -> Vec<String> {
    let Some(spec) = &job.spec else { return Vec::new() };
    warnings::of_spec(spec, &Path::new("spec"))
}

/// Whether a controller other than the built-in one cares for it.
pub fn is_managed_elsewhere(spec: &JobSpec) -> bool {
    spec.managed_by.as_deref().is_some_and(|it| it != CONTROLLER)
}

/// Whether each completion has its number.
pub fn is_indexed(spec: &JobSpec) -> bool {
    spec.completion_mode.as_deref() == Some("Indexed")
}
