//! CronJobs, as objects: one that is suspended starts nothing.

use anyhow::Result;
use serde_json::json;

use crate::cases::node::pods;
use crate::cases::{Case, case};
use crate::operations::{Operations, Status};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] =
    &[case!("[sig-apps] CronJob should support CronJob API operations [Conformance]", operations)];

async fn operations(scope: &Scope) -> Result<()> {
    let mut spec = pods::idle_spec();
    spec["restartPolicy"] = json!("OnFailure");
    let job = json!({ "spec": { "template": { "spec": spec } } });
    let last = |time: &str| json!({ "lastScheduleTime": time });
    let cron_jobs = Operations {
        group_version: "batch/v1",
        resource: "cronjobs",
        kind: "CronJob",
        is_namespaced: true,
        object: json!({ "spec": {
            "schedule": "0 0 29 2 *", "suspend": true, "concurrencyPolicy": "Allow", "jobTemplate": job,
        } }),
        change: json!({ "spec": { "concurrencyPolicy": "Forbid" } }),
        status: Some(Status {
            values: [last("2026-01-02T03:04:05Z"), last("2026-02-03T04:05:06Z")],
            takes_annotations: true,
        }),
        names: None,
    };
    cron_jobs.check(scope).await
}
