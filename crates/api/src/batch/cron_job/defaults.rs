//! What a CronJob is when it does not say. Its jobs get their own defaults when they are made.

use k8s_openapi::api::batch::v1::CronJob;

use crate::apps::workload;
use crate::batch::job;

pub(super) fn apply(cron_job: &mut CronJob) {
    let spec = &mut cron_job.spec;
    if spec.concurrency_policy.as_ref().is_none_or(String::is_empty) {
        spec.concurrency_policy = Some("Allow".to_owned());
    }
    spec.suspend.get_or_insert(false);
    spec.successful_jobs_history_limit.get_or_insert(3);
    spec.failed_jobs_history_limit.get_or_insert(1);
    spec.job_template.metadata.get_or_insert_default();
    let job_spec = spec.job_template.spec.get_or_insert_default();
    job::apply_to_policies(job_spec.pod_failure_policy.as_mut());
    workload::apply_template_defaults(&mut job_spec.template);
}
