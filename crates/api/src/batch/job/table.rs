//! Jobs in `kubectl get`.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use serde_json::Value;

use apimachinery::table::{self, Column};

use super::conditions;
use crate::cell;

pub(super) const COLUMNS: &[Column] = &[
    Column::name(),
    Column::new("Status", "string"),
    Column::new("Completions", "string"),
    Column::new("Duration", "string"),
    Column::new("Age", "string"),
    Column::new("Containers", "string").wide(),
    Column::new("Images", "string").wide(),
    Column::new("Selector", "string").wide(),
];

pub(super) fn row(job: &Job, now: Timestamp) -> Vec<Value> {
    let (no_spec, no_status) = (JobSpec::default(), JobStatus::default());
    let spec = job.spec.as_ref().unwrap_or(&no_spec);
    let status = job.status.as_ref().unwrap_or(&no_status);
    let [names, images] = cell::template_containers(Some(&spec.template));
    vec![
        cell::name(&job.metadata),
        Value::from(state(job, status)),
        Value::from(completions(spec, status)),
        Value::from(duration(status, now)),
        cell::age(&job.metadata, now),
        names,
        images,
        spec.selector.as_ref().map_or_else(|| cell::or_none(""), cell::selector),
    ]
}

fn state(job: &Job, status: &JobStatus) -> &'static str {
    let is_ending = job.metadata.deletion_timestamp.is_some();
    let is = |condition| conditions::is_true(status, condition);
    [
        (is(conditions::COMPLETE), conditions::COMPLETE),
        (is(conditions::FAILED), conditions::FAILED),
        (is_ending, "Terminating"),
        (is(conditions::SUSPENDED), conditions::SUSPENDED),
        (is(conditions::FAILURE_TARGET), conditions::FAILURE_TARGET),
        (is(conditions::SUCCESS_CRITERIA_MET), conditions::SUCCESS_CRITERIA_MET),
    ]
    .into_iter()
    .find_map(|(is_it, name)| is_it.then_some(name))
    .unwrap_or("Running")
}

/// A work queue is done when one of its workers is.
fn completions(spec: &JobSpec, status: &JobStatus) -> String {
    let succeeded = status.succeeded.unwrap_or(0);
    match (spec.completions, spec.parallelism.unwrap_or(0)) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, workers @ 2..) => format!("{succeeded}/1 of {workers}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

/// Nothing before it has started.
fn duration(status: &JobStatus, now: Timestamp) -> String {
    let Some(start) = &status.start_time else { return String::new() };
    let end = status.completion_time.as_ref().map_or(now, |it| it.0);
    table::short_duration(end.duration_since(start.0).as_secs())
}
