//! A CronJob that runs each minute, unless the run before is not over.

use client::Client;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use serde_json::json;
use testkit::History;

use crate::objects::{OPEN, create, list, patch, template};

pub(crate) async fn make(admin: &Client) {
    let tick = json!({
        "metadata": {"name": "tick", "namespace": OPEN},
        "spec": {
            "schedule": "* * * * *", "concurrencyPolicy": "Forbid",
            "successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 1,
            "jobTemplate": {"spec": {
                "backoffLimit": 100_000, "template": template("tick", "after=20 fails=20", "Never"),
            }},
        },
    });
    create::<CronJob>(admin, &tick).await;
}

pub(crate) async fn calm(admin: &Client) {
    patch::<CronJob>(admin, "tick", json!({"spec": {"suspend": true}})).await;
}

/// The last run is over, and kept; those before are not.
pub(crate) async fn missing(admin: &Client) -> Vec<String> {
    let mut missing = Vec::new();
    let tick = admin.api::<CronJob>().get(OPEN, "tick").await.unwrap();
    if tick.status.as_ref().is_some_and(|it| it.active.as_ref().is_some_and(|it| !it.is_empty())) {
        missing.push(format!("tick: {}", json!(tick.status)));
    }
    let n_runs = list::<Job>(admin, OPEN).await.len();
    if n_runs != 1 {
        missing.push(format!("{n_runs} runs of tick are kept"));
    }
    missing
}

pub(crate) async fn violations(admin: &Client, history: &History) -> Vec<String> {
    testkit::miscounted_jobs(admin, history, OPEN).await.unwrap()
}
