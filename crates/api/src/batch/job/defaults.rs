//! What a Job is when it does not say.

use k8s_openapi::api::batch::v1::{Job, PodFailurePolicy};

use super::labels;
use crate::apps::workload;

pub(super) fn apply(job: &mut Job) {
    let spec = job.spec.get_or_insert_default();
    if spec.parallelism.is_none() {
        spec.completions.get_or_insert(1);
        spec.parallelism = Some(1);
    }
    // With a limit for each index, that of all is out of the way.
    let limit = if spec.backoff_limit_per_index.is_some() { i32::MAX } else { 6 };
    spec.backoff_limit.get_or_insert(limit);
    spec.completion_mode.get_or_insert_with(|| "NonIndexed".to_owned());
    spec.suspend.get_or_insert(false);
    spec.manual_selector.get_or_insert(false);
    let replaced = if spec.pod_failure_policy.is_some() { "Failed" } else { "TerminatingOrFailed" };
    spec.pod_replacement_policy.get_or_insert_with(|| replaced.to_owned());
    apply_to_policies(spec.pod_failure_policy.as_mut());
    workload::apply_template_defaults(&mut spec.template);
    labels::take_over(job);
}

/// Also for the jobs of a CronJob, which get no other defaults before they are made.
pub(crate) fn apply_to_policies(policy: Option<&mut PodFailurePolicy>) {
    let rules = policy.into_iter().flat_map(|it| it.rules.iter_mut());
    for pattern in rules.flat_map(|it| it.on_pod_conditions.iter_mut().flatten()) {
        if pattern.status.as_ref().is_none_or(String::is_empty) {
            pattern.status = Some("True".to_owned());
        }
    }
}
