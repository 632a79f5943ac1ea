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
use crate::apps::workload;
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
        let mut warnings = workload::name_warnings(&self.metadata);
        warnings.extend(warnings_of_template(self));
        warnings
    }

    fn update_warnings(&self, stored: &Self, part: Part) -> Vec<String> {
        if part == Part::Status {
            return Vec::new();
        }
        let mut warnings = match workload::is_new_generation(&self.metadata, &stored.metadata) {
            true => warnings_of_template(self),
            false => Vec::new(),
        };
        // A new one is refused for it. The path is the one that clients are told.
        if self.spec.schedule.contains("TZ") {
            let warning = "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, \
                           see \
                           https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ \
                           for more details";
            warnings.push(warning.to_owned());
        }
        warnings
    }

    fn columns() -> &'static [Column] {
        table::COLUMNS
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        table::row(self, now)
    }
}

fn warnings_of_template(cron_job: &CronJob) -> Vec<String> {
    let path = Path::new("spec.jobTemplate.spec");
    let job = cron_job.spec.job_template.spec.as_ref();
    job.map(|it| warnings::of_spec(it, &path)).unwrap_or_default()
}
