//! Jobs by the clock, under paused time: CronJobs start them, their age ends them, and nothing is
//! written in between.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use client::{Client, ListOptions};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use testkit::{Cluster, Options};

fn run<T>(simulation: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(simulation)
}

fn job_spec(script: &str, rest: &Value) -> Value {
    let mut spec = json!({ "template": {
        "metadata": { "annotations": { "simulator.xebec.local/containers": script } },
        "spec": {
            "restartPolicy": "Never",
            "containers": [{ "name": "main", "image": "xebec.local/toolbox" }],
        },
    } });
    spec.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    spec
}

async fn create_job(admin: &Client, name: &str, script: &str, rest: &Value) {
    let metadata = json!({ "name": name, "namespace": "default" });
    let job = json!({ "metadata": metadata, "spec": job_spec(script, rest) });
    admin.api::<Job>().create(serde_json::from_value(job).unwrap()).await.unwrap();
}

async fn status(admin: &Client, name: &str) -> Value {
    json!(admin.api::<Job>().get("default", name).await.unwrap().status)
}

async fn jobs(admin: &Client) -> Vec<String> {
    let list = admin.api::<Job>().list("default", ListOptions::default()).await.unwrap();
    list.items.iter().map(|it| it.meta.key.name.clone()).collect()
}

async fn until_ended(cluster: &Cluster, name: &str, condition: &str) -> Value {
    let ended = cluster.until(Duration::from_secs(3600), async |admin| {
        let status = status(admin, name).await;
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|it| it["type"] == condition && it["status"] == "True")
    });
    let is_right = ended.await;
    let status = status(&cluster.admin, name).await;
    assert!(is_right, "{name} is not {condition}: {status}");
    status
}

#[test]
fn a_job_runs_to_its_end_and_its_pods_stay_to_be_read() {
    run(async {
        let cluster = Cluster::start(Options { seed: 1, nodes: 3 }).await.unwrap();
        let rest = json!({ "completions": 5, "parallelism": 2, "completionMode": "Indexed" });
        create_job(&cluster.admin, "pi", "after=3", &rest).await;
        let status = until_ended(&cluster, "pi", "Complete").await;
        assert_eq!((&status["succeeded"], &status["completedIndexes"]), (&json!(5), &json!("0-4")));
        let pods =
            cluster.admin.api::<Pod>().list("default", ListOptions::default()).await.unwrap();
        assert_eq!(pods.items.len(), 5);
        for pod in &pods.items {
            assert!(pod.meta.finalizers.is_empty(), "{} is held", pod.meta.key);
        }
        assert_eq!(testkit::violations(&cluster.admin).await.unwrap(), [""; 0]);
        cluster.stop().await.unwrap();
    });
}

#[test]
fn failures_are_retried_later_and_later_until_the_limit() {
    run(async {
        let cluster = Cluster::start(Options { seed: 1, nodes: 3 }).await.unwrap();
        let start = tokio::time::Instant::now();
        create_job(&cluster.admin, "bad", "after=1 exit=1", &json!({ "backoffLimit": 3 })).await;
        let status = until_ended(&cluster, "bad", "Failed").await;
        assert_eq!(status["failed"], 4, "{status}");
        let last = status["conditions"].as_array().unwrap().last().unwrap();
        assert_eq!(last["reason"], "BackoffLimitExceeded");
        // 10, 20 and 40 seconds of waiting, and the runs.
        let took = start.elapsed().as_secs();
        assert!((70..90).contains(&took), "{took}");
        cluster.stop().await.unwrap();
    });
}

#[test]
fn a_suspended_job_keeps_no_pod_and_goes_on_when_it_is_resumed() {
    run(async {
        let cluster = Cluster::start(Options { seed: 1, nodes: 3 }).await.unwrap();
        create_job(
            &cluster.admin,
            "pi",
            "after=60",
            &json!({ "parallelism": 3, "completions": 3 }),
        )
        .await;
        let patch = async |suspend: bool| {
            let body = json!({ "spec": { "suspend": suspend } }).to_string().into();
            let api = cluster.admin.api::<Job>();
            api.patch("default", "pi", client::PatchKind::Merge, body).await.unwrap();
        };
        let active = |count: Value| {
            cluster.until(Duration::from_secs(60), async move |admin| {
                let status = status(admin, "pi").await;
                status["active"] == count && status["terminating"] == 0
            })
        };
        assert!(active(json!(3)).await);
        patch(true).await;
        assert!(active(Value::Null).await);
        let suspended = status(&cluster.admin, "pi").await;
        assert_eq!(suspended["conditions"][0]["type"], "Suspended", "{suspended}");
        assert_eq!((&suspended["failed"], &suspended["startTime"]), (&Value::Null, &Value::Null));
        patch(false).await;
        let ended = until_ended(&cluster, "pi", "Complete").await;
        assert_eq!((&ended["succeeded"], &ended["failed"]), (&json!(3), &Value::Null));
        cluster.stop().await.unwrap();
    });
}

#[test]
fn a_finished_job_vanishes_when_its_time_is_over() {
    run(async {
        let cluster = Cluster::start(Options { seed: 1, nodes: 3 }).await.unwrap();
        create_job(&cluster.admin, "brief", "after=1", &json!({ "ttlSecondsAfterFinished": 100 }))
            .await;
        until_ended(&cluster, "brief", "Complete").await;
        tokio::time::sleep(Duration::from_secs(95)).await;
        assert_eq!(jobs(&cluster.admin).await, ["brief"]);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(jobs(&cluster.admin).await, [""; 0]);
        let pods =
            cluster.admin.api::<Pod>().list("default", ListOptions::default()).await.unwrap();
        assert!(pods.items.is_empty());
        cluster.stop().await.unwrap();
    });
}

#[test]
fn a_cron_job_starts_a_job_each_minute_and_keeps_the_last_three() {
    run(async {
        let cluster = Cluster::start(Options { seed: 1, nodes: 3 }).await.unwrap();
        let cron_job = json!({
            "metadata": { "name": "tick", "namespace": "default" },
            "spec": { "schedule": "* * * * *", "jobTemplate": { "spec": job_spec("after=5", &json!({})) } },
        });
        let api = cluster.admin.api::<CronJob>();
        api.create(serde_json::from_value(cron_job).unwrap()).await.unwrap();
        // It was made on the minute.
        tokio::time::sleep(Duration::from_secs(630)).await;
        let patch = json!({ "spec": { "suspend": true } }).to_string().into();
        api.patch("default", "tick", client::PatchKind::Merge, patch).await.unwrap();
        tokio::time::sleep(Duration::from_secs(120)).await;
        let history = cluster.history().await.unwrap();
        let mut made: Vec<String> = Vec::new();
        for bytes in history.values("/jobs/default/") {
            let job: Job = serde_json::from_slice(bytes).unwrap();
            made.push(job.metadata.name.unwrap());
        }
        made.sort();
        made.dedup();
        assert_eq!(made.len(), 10, "{made:?}");
        assert_eq!(jobs(&cluster.admin).await, made[7..]);
        let status = api.get("default", "tick").await.unwrap().status.clone().unwrap();
        assert!(status.active.is_none() && status.last_successful_time.is_some(), "{status:?}");
        // By the clock, and by nothing else: nobody writes while nothing is due.
        tokio::time::sleep(Duration::from_secs(600)).await;
        let later = cluster.history().await.unwrap().writes_since(&history);
        assert_eq!(later.keys().collect::<Vec<_>>(), ["leases/kube-node-lease"]);
        cluster.stop().await.unwrap();
    });
}

#[test]
fn a_job_of_a_thousand_million_completions_is_refused_or_ends_with_a_reason() {
    run(async {
        let cluster = Cluster::start(Options { seed: 1, nodes: 2 }).await.unwrap();
        let admin = &cluster.admin;
        let many = 1_000_000_000;
        let spec = json!({
            "completions": many, "parallelism": many, "completionMode": "Indexed",
            "backoffLimitPerIndex": 1, "maxFailedIndexes": many,
        });
        let job = json!({
            "metadata": { "name": "all", "namespace": "default" }, "spec": job_spec("", &spec),
        });
        let refused = admin.api::<Job>().create(serde_json::from_value(job).unwrap()).await;
        let refused = refused.map(|_| ()).unwrap_err().message().to_owned();
        for part in [
            "spec.parallelism: Invalid value: 1000000000: must be less than or equal to 100000 when \
             completion mode is Indexed",
            "spec.maxFailedIndexes: Invalid value: 1000000000: must be less than or equal to \
             100000",
        ] {
            assert!(refused.contains(part), "{refused}");
        }
        // A few at a time are allowed: it takes as long as it may.
        for (name, mode) in [("indexed", "Indexed"), ("plain", "NonIndexed")] {
            let spec = json!({
                "completions": many, "parallelism": 3, "completionMode": mode,
                "activeDeadlineSeconds": 60,
            });
            create_job(admin, name, "after=5", &spec).await;
            let status = until_ended(&cluster, name, "Failed").await;
            let last = status["conditions"].as_array().unwrap().last().unwrap();
            assert_eq!(
                (last["reason"].as_str(), last["message"].as_str()),
                (Some("DeadlineExceeded"), Some("Job was active longer than specified deadline"))
            );
            assert!(status["succeeded"].as_i64().unwrap() > 3, "{status}");
            assert!(status.to_string().len() < 2000, "{status}");
        }
        assert_eq!(testkit::violations(admin).await.unwrap(), [""; 0]);
        cluster.stop().await.unwrap();
    });
}
