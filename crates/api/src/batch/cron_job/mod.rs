//! CronJob: a Job at each time of a schedule.

mod defaults;
mod table;
#[cfg(test)]
mod tests;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use super::job::warnings;
use crate::kind::{Part, Resource};

pub use k8s_openapi::api::batch::v1::CronJob;

impl Resource for CronJob {
    codec!();
    spec_and_status!();

    fn apply_defaults(&mut self) {
        defaults::apply(self);
    }

    /// What is checked depends on what there was before: see `validate_create` and
    /// `validate_update`.
    fn validate(&self, _errors: &mut FieldErrors) {}

    fn validate_create(&self, errors: &mut FieldErrors) {
        validation::validate_create(self, errors);
    }

    fn validate_update(&self, stored: &Self, part: Part, errors: &mut FieldErrors) {
        if part != Part::Status {
            validation::validate_update(self, stored, errors);
        }
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = warnings::of_name(&self.metadata);
        warnings.extend(warnings_of_spec(self));
        warnings
    }

    fn update_warnings(&self, _stored: &Self, part: Part) -> Vec<String> {
        if part == Part::Status { Vec::new() } else { warnings_of_spec(self) }
    }

    fn columns() -> &'static [Column] {
        table::COLUMNS
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        table::row(self, now)
    }
}

fn warnings_of_spec(cron_job: &CronJob) -> Vec<String> {
    let spec = &cron_job.spec;
    let path = Path::new("spec.jobTemplate.spec");
    let job = spec.job_template.spec.as_ref();
    let mut warnings = job.map(|it| warnings::of_spec(it, &path)).unwrap_or_default();
    if spec.schedule.contains("TZ") {
        // The path is the one that clients are told.
        let warning = "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
                       https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for \
                       more details";
        warnings.push(warning.to_owned());
    }
    warnings
}
