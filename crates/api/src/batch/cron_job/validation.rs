//! What is wrong with a CronJob.

use k8s_openapi::api::batch::v1::{CronJob, CronJobSpec, JobTemplateSpec};

use apimachinery::FieldErrors;
use apimachinery::cron::{Schedule, find_zone};
use apimachinery::field::Path;

use crate::batch::job::validation::validate_spec as validate_job_spec;
use crate::check::{self, text};
use crate::codec;

/// Jobs are called after it, with a dash and ten digits, and have labels with their names.
const NAME_BYTES_MAX: usize = 63 - 11;

pub(super) fn validate_create(cron_job: &CronJob, errors: &mut FieldErrors) {
    validate_spec(&cron_job.spec, None, errors);
    let name = text(cron_job.metadata.name.as_ref());
    if name.len() > NAME_BYTES_MAX {
        let path = Path::new("metadata.name");
        errors.invalid(&path, name, "must be no more than 52 characters");
    }
}

pub(super) fn validate_update(cron_job: &CronJob, stored: &CronJob, errors: &mut FieldErrors) {
    validate_spec(&cron_job.spec, Some(&stored.spec), errors);
}

fn validate_spec(spec: &CronJobSpec, old: Option<&CronJobSpec>, errors: &mut FieldErrors) {
    let path = Path::new("spec");
    validate_schedule(spec, old, &path.child("schedule"), errors);
    let deadline = spec.starting_deadline_seconds.unwrap_or(0);
    check::non_negative(deadline, &path.child("startingDeadlineSeconds"), errors);
    // One that is not known any more stays, for the rest to be changed.
    if let Some(zone) = &spec.time_zone
        && old.is_none_or(|it| it.time_zone != spec.time_zone)
    {
        validate_zone(zone, &path.child("timeZone"), errors);
    }
    let policy = text(spec.concurrency_policy.as_ref());
    let policies = ["Allow", "Forbid", "Replace"];
    check::one_of(policy, &policies, &path.child("concurrencyPolicy"), errors);
    validate_job_template(&spec.job_template, &path.child("jobTemplate"), errors);
    for (field, limit) in [
        ("successfulJobsHistoryLimit", spec.successful_jobs_history_limit),
        ("failedJobsHistoryLimit", spec.failed_jobs_history_limit),
    ] {
        check::non_negative(limit.unwrap_or(0), &path.child(field), errors);
    }
}

/// A zone in the schedule itself is left to those who had one there before there was a field.
fn validate_schedule(
    spec: &CronJobSpec,
    old: Option<&CronJobSpec>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let schedule = spec.schedule.as_str();
    if schedule.is_empty() {
        return errors.required(path, "");
    }
    if let Err(problem) = Schedule::parse(schedule) {
        errors.invalid(path, schedule, &problem.to_string());
    }
    if !schedule.contains("TZ") {
        return;
    }
    let had_zone = old.is_some_and(|it| it.schedule.contains("TZ"));
    if !had_zone {
        let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.invalid(path, schedule, detail);
    } else if spec.time_zone.is_some() {
        let detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
        errors.invalid(path, schedule, detail);
    }
}

fn validate_zone(zone: &str, path: &Path, errors: &mut FieldErrors) {
    if zone.is_empty() {
        return errors.invalid(path, zone, "timeZone must be nil or non-empty string");
    }
    if !zone.split('/').all(is_part_of_zone) {
        return errors.invalid(path, zone, &format!("unknown time zone {zone}"));
    }
    // The machine's own zone is a name that may be written, but not one that means anything here.
    if zone.eq_ignore_ascii_case("Local") {
        let detail = "timeZone must be an explicit time zone as defined in \
                      https://www.iana.org/time-zones";
        errors.invalid(path, zone, detail);
    }
    if zone != "Local"
        && let Err(problem) = find_zone(zone)
    {
        errors.invalid(path, zone, &problem.to_string());
    }
}

/// As names of the database are made; digits and `+` are in a few old ones.
fn is_part_of_zone(part: &str) -> bool {
    const BYTES_MAX: usize = 14;
    let is_allowed = |it: u8| it.is_ascii_alphanumeric() || b".-_+".contains(&it);
    (1..=BYTES_MAX).contains(&part.len())
        && part.bytes().all(is_allowed)
        && !matches!(part, "." | "..")
        && !part.starts_with('-')
}

/// Each job gets a selector of its own.
fn validate_job_template(template: &JobTemplateSpec, path: &Path, errors: &mut FieldErrors) {
    let spec = template.spec.clone().unwrap_or_default();
    let path = path.child("spec");
    validate_job_spec(&spec, &path, errors);
    if let Some(selector) = &spec.selector {
        let detail = "`selector` will be auto-generated";
        errors.invalid(&path.child("selector"), codec::tree(selector), detail);
    }
    if spec.manual_selector == Some(true) {
        let path = path.child("manualSelector");
        errors.not_supported_as_listed(&path, true, &["nil", "false"]);
    }
}
