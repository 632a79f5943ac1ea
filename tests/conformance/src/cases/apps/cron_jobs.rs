//! CronJobs: as objects, and the Jobs that they start each minute, whose pods nobody runs.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::cases::node::pods;
use crate::cases::{Case, SLOW, case};
use crate::client::Collection;
use crate::expect::{items, name};
use crate::operations::{Operations, Status};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!("[sig-apps] CronJob should support CronJob API operations [Conformance]", operations),
    Case {
        codename: "[sig-apps] CronJob should not schedule jobs when suspended [Slow] [Conformance]",
        limit: SLOW,
        run: |scope| Box::pin(suspended(scope)),
    },
    Case {
        codename: "[sig-apps] CronJob should not schedule new jobs when ForbidConcurrent [Slow] [Conformance]",
        limit: SLOW,
        run: |scope| Box::pin(forbids(scope)),
    },
    Case {
        codename: "[sig-apps] CronJob should replace jobs when ReplaceConcurrent [Conformance]",
        limit: SLOW,
        run: |scope| Box::pin(replaces(scope)),
    },
    Case {
        codename: "[sig-apps] CronJob should schedule multiple jobs concurrently [Conformance]",
        limit: SLOW,
        run: |scope| Box::pin(allows(scope)),
    },
];

/// A minute and some more: whatever is due each minute was due.
const A_MINUTE: Duration = Duration::from_secs(75);

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

/// Each minute; the Jobs go on for ever.
async fn each_minute(scope: &Scope, policy: &str, is_suspended: bool) -> Result<()> {
    let mut spec = pods::idle_spec();
    spec["restartPolicy"] = json!("OnFailure");
    let job = json!({ "spec": { "template": { "spec": spec } } });
    let cron_job = json!({ "metadata": { "name": "tick" }, "spec": {
        "schedule": "* * * * *", "concurrencyPolicy": policy, "suspend": is_suspended, "jobTemplate": job,
    } });
    scope.own("batch/v1", "cronjobs").create(&cron_job).await.map(drop)
}

async fn names(jobs: &Collection<'_>) -> Result<BTreeSet<String>> {
    let list: Value = jobs.list(&[]).await?;
    items(&list)?.iter().map(|it| name(it).map(str::to_owned)).collect()
}

/// The first Job, which the CronJob says is active.
async fn first(scope: &Scope) -> Result<BTreeSet<String>> {
    let (jobs, cron_jobs) = (scope.own("batch/v1", "jobs"), scope.own("batch/v1", "cronjobs"));
    scope
        .until("a Job is started", async || {
            let tick = cron_jobs.get("tick").await?;
            let active = tick["status"]["active"].as_array().map_or(0, Vec::len);
            let names = names(&jobs).await?;
            ensure!(active == 1 && names.len() == 1, "{active} active, {names:?}");
            Ok(names)
        })
        .await
}

async fn suspended(scope: &Scope) -> Result<()> {
    each_minute(scope, "Allow", true).await?;
    scope.doing("letting a minute pass");
    tokio::time::sleep(A_MINUTE).await;
    let jobs = names(&scope.own("batch/v1", "jobs")).await?;
    ensure!(jobs.is_empty(), "expected no Job, saw {jobs:?}");
    Ok(())
}

async fn forbids(scope: &Scope) -> Result<()> {
    each_minute(scope, "Forbid", false).await?;
    let before = first(scope).await?;
    scope.doing("letting a minute pass");
    tokio::time::sleep(A_MINUTE).await;
    let after = names(&scope.own("batch/v1", "jobs")).await?;
    ensure!(before == after, "expected {before:?} alone, saw {after:?}");
    Ok(())
}

async fn replaces(scope: &Scope) -> Result<()> {
    each_minute(scope, "Replace", false).await?;
    let before = first(scope).await?;
    let jobs = scope.own("batch/v1", "jobs");
    scope
        .until("another Job takes its place", async || {
            let after = names(&jobs).await?;
            ensure!(after.len() == 1 && after.is_disjoint(&before), "{before:?}, then {after:?}");
            Ok(())
        })
        .await
}

async fn allows(scope: &Scope) -> Result<()> {
    each_minute(scope, "Allow", false).await?;
    let cron_jobs = scope.own("batch/v1", "cronjobs");
    scope
        .until("two Jobs are active", async || {
            let tick = cron_jobs.get("tick").await?;
            let active = tick["status"]["active"].as_array().map_or(0, Vec::len);
            ensure!(active > 1, "{active} active");
            Ok(())
        })
        .await?;
    let names = names(&scope.own("batch/v1", "jobs")).await?;
    ensure!(names.len() > 1, "expected two Jobs, saw {names:?}");
    Ok(())
}
