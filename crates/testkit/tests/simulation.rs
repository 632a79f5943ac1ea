//! Whole clusters under paused time: random node deaths and API faults, a history that repeats, and
//! rest afterwards.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;
use std::time::Duration;

use client::{Client, ListOptions};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, Service};
use serde_json::json;
use testkit::{Cluster, History, Options};
use tokio::time::Instant;

const NODES: usize = 100;
const DEPLOYMENTS: usize = 20;
/// Deployments behind one Service.
const GROUP: usize = 4;
const REPLICAS: i32 = 5;
const JOBS: usize = 8;
/// Where the Jobs are.
const BATCH: &str = "kube-public";
/// What an idle cluster writes.
const LEASES: &str = "leases/kube-node-lease";

fn run<T>(simulation: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(simulation)
}

fn deployment(index: usize) -> Deployment {
    let name = format!("app-{index}");
    serde_json::from_value(json!({
        "metadata": { "name": name, "namespace": "default" },
        "spec": {
            "replicas": REPLICAS,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name, "group": group(index) } },
                "spec": { "containers": [{ "name": "main", "image": "xebec.local/toolbox" }] },
            },
        },
    }))
    .unwrap()
}

fn group(index: usize) -> String {
    format!("group-{}", index / GROUP)
}

fn service(index: usize) -> Service {
    serde_json::from_value(json!({
        "metadata": { "name": group(index), "namespace": "default" },
        "spec": { "selector": { "group": group(index) }, "ports": [{ "port": 80 }] },
    }))
    .unwrap()
}

async fn deploy(admin: &Client, deployments: usize) {
    for index in 0..deployments {
        if index % GROUP == 0 {
            admin.api::<Service>().create(service(index)).await.unwrap();
        }
        admin.api::<Deployment>().create(deployment(index)).await.unwrap();
    }
}

/// One in two is indexed, one in four counts failures by index; some pods fail.
fn job(index: usize) -> Job {
    let mut spec = json!({
        "completions": 12, "parallelism": 4, "backoffLimit": 100_000,
        "template": {
            "metadata": { "annotations": { "simulator.xebec.local/containers": "after=20 fails=15" } },
            "spec": {
                "restartPolicy": "Never",
                "containers": [{ "name": "main", "image": "xebec.local/toolbox" }],
            },
        },
    });
    if index.is_multiple_of(2) {
        spec["completionMode"] = json!("Indexed");
    }
    if index.is_multiple_of(4) {
        spec["backoffLimitPerIndex"] = json!(100);
    }
    if index.is_multiple_of(3) {
        spec["podReplacementPolicy"] = json!("Failed");
    }
    let metadata = json!({ "name": format!("job-{index}"), "namespace": BATCH });
    serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()
}

/// What of the Jobs is still missing: all of them are complete.
async fn incomplete(admin: &Client) -> Vec<String> {
    let list = admin.api::<Job>().list(BATCH, ListOptions::default()).await.unwrap();
    let jobs = list.items.iter().map(|it| it.shared::<Job>().unwrap());
    let is_complete = |job: &Job| {
        let conditions = job.status.as_ref().and_then(|it| it.conditions.as_deref());
        conditions
            .unwrap_or_default()
            .iter()
            .any(|it| it.type_ == "Complete" && it.status == "True")
    };
    let open = jobs.filter(|it| !is_complete(it));
    open.map(|it| format!("Job {:?}: {}", it.metadata.name, json!(it.status))).collect()
}

/// Each Job counts what ended, and indexed ones are complete.
async fn check_counts(cluster: &Cluster, seed: u64) {
    let history = cluster.history().await.unwrap();
    let found = testkit::miscounted_jobs(&cluster.admin, &history, BATCH).await.unwrap();
    assert!(found.is_empty(), "seed {seed}: {found:?}");
    let list = cluster.admin.api::<Job>().list(BATCH, ListOptions::default()).await.unwrap();
    for stored in &list.items {
        let job = stored.shared::<Job>().unwrap();
        if job.spec.as_ref().unwrap().completion_mode.as_deref() == Some("Indexed") {
            let indexes = job.status.as_ref().and_then(|it| it.completed_indexes.as_deref());
            assert_eq!(indexes, Some("0-11"), "seed {seed}: {}", stored.meta.key);
        }
    }
}

/// What is still missing: every deployment has all its replicas available and no pod is left over.
async fn missing(admin: &Client) -> Vec<String> {
    let list = admin.api::<Deployment>().list("default", ListOptions::default()).await.unwrap();
    let mut missing = Vec::new();
    for stored in &list.items {
        let deployment = stored.shared::<Deployment>().unwrap();
        let status = deployment.status.clone().unwrap_or_default();
        if status.available_replicas != Some(REPLICAS) {
            let name = deployment.metadata.name.as_deref().unwrap_or_default();
            missing.push(format!("Deployment {name}: {}", json!(status)));
        }
    }
    let pods = admin.api::<Pod>().list("default", ListOptions::default()).await.unwrap();
    let (expected, found) = (list.items.len() * REPLICAS as usize, pods.items.len());
    if found != expected {
        missing.push(format!("{found} pods in place of {expected}"));
        for stored in &pods.items {
            let pod = stored.shared::<Pod>().unwrap();
            let deleted = &pod.metadata.deletion_timestamp;
            let node = pod.spec.as_ref().and_then(|it| it.node_name.as_deref());
            let status = pod.status.clone().unwrap_or_default();
            let ready = status.conditions.iter().flatten().find(|it| it.type_ == "Ready");
            let (phase, ready) = (status.phase, ready.map(|it| it.status.clone()));
            missing.push(format!(
                "Pod {} {node:?} {phase:?} {ready:?} deleted {deleted:?}",
                stored.meta.key
            ));
        }
    }
    missing
}

/// Waits for the cluster to converge; the simulated time that it took.
async fn converge(cluster: &Cluster, seed: u64, limit: Duration) -> Duration {
    let start = Instant::now();
    if !cluster.until(limit, async |admin| missing(admin).await.is_empty()).await {
        let missing = missing(&cluster.admin).await.join("\n");
        panic!("seed {seed} did not converge:\n{missing}");
    }
    start.elapsed()
}

/// What is written during `period`, by resource, once events and endpoints had time to follow.
async fn writes_at_rest(cluster: &Cluster, period: Duration) -> BTreeMap<String, usize> {
    tokio::time::sleep(Duration::from_secs(30)).await;
    let settled = cluster.history().await.unwrap();
    tokio::time::sleep(period).await;
    cluster.history().await.unwrap().writes_since(&settled)
}

/// Faults and node deaths for ten simulated minutes, then peace.
async fn storm(seed: u64) -> History {
    let cluster = Cluster::start(Options { seed, nodes: NODES }).await.unwrap();
    deploy(&cluster.admin, DEPLOYMENTS).await;
    for index in 0..JOBS {
        cluster.admin.api::<Job>().create(job(index)).await.unwrap();
    }
    cluster.faults.set_rate(50);
    let random = cluster.world.random.clone();
    let mut dead = Vec::new();
    for _ in 0..20 {
        let victim = format!("sim-{}", random.below(NODES as u64));
        cluster.fleet.kill(&victim);
        dead.push(victim);
        tokio::time::sleep(Duration::from_secs(30)).await;
        if random.below(2) == 0 && !dead.is_empty() {
            let index = random.below(dead.len() as u64) as usize;
            cluster.fleet.revive(&dead.swap_remove(index));
        }
    }
    cluster.faults.set_rate(0);
    for node in dead {
        cluster.fleet.revive(&node);
    }
    converge(&cluster, seed, Duration::from_secs(1200)).await;
    if !cluster.until(Duration::from_secs(7200), async |it| incomplete(it).await.is_empty()).await {
        panic!("seed {seed}:\n{}", incomplete(&cluster.admin).await.join("\n"));
    }
    check_counts(&cluster, seed).await;
    let writes = writes_at_rest(&cluster, Duration::from_secs(60)).await;
    assert_eq!(writes.keys().collect::<Vec<_>>(), [LEASES], "seed {seed}: {writes:?}");
    let violations = testkit::violations(&cluster.admin).await.unwrap();
    assert!(violations.is_empty(), "seed {seed}:\n{}", violations.join("\n"));
    let history = cluster.history().await.unwrap();
    cluster.stop().await.unwrap_or_else(|err| panic!("seed {seed}: {err}"));
    history
}

/// One seed by default; `SEEDS=100..200 cargo test -p testkit --test simulation converges` hunts
/// through many.
#[test]
fn a_cluster_converges_after_node_deaths_and_api_faults() {
    let seeds = std::env::var("SEEDS").unwrap_or_else(|_| "1..2".to_owned());
    let (first, end) = seeds.split_once("..").expect("a range of numbers");
    for seed in first.parse::<u64>().unwrap()..end.parse().unwrap() {
        run(storm(seed));
    }
}

#[test]
fn the_same_seed_gives_the_same_history() {
    // Two worlds at once: they share nothing.
    let (one, two) = std::thread::scope(|scope| {
        let one = scope.spawn(|| run(storm(7)));
        let two = run(storm(7));
        (one.join().unwrap(), two)
    });
    if let Some(difference) = one.first_difference(&two) {
        panic!("seed 7 gives two histories, which differ from {difference}");
    }
    assert_eq!(one.fingerprint, two.fingerprint);
}

#[test]
fn another_seed_gives_another_history() {
    let start = |seed| {
        run(async move {
            let cluster = Cluster::start(Options { seed, nodes: 3 }).await.unwrap();
            tokio::time::sleep(Duration::from_secs(30)).await;
            cluster.history().await.unwrap()
        })
    };
    assert_ne!(start(1).fingerprint, start(2).fingerprint);
}

#[test]
fn a_control_plane_starts_in_milliseconds_and_stops_with_no_late_task() {
    run(async {
        let start = Instant::now();
        let cluster = Cluster::start(Options { seed: 1, nodes: NODES }).await.unwrap();
        assert!(start.elapsed() < Duration::from_millis(20), "started in {:?}", start.elapsed());
        deploy(&cluster.admin, DEPLOYMENTS).await;
        // In the middle of work.
        tokio::time::sleep(Duration::from_millis(30)).await;
        let start = Instant::now();
        cluster.stop().await.unwrap();
        assert!(start.elapsed() < Duration::from_millis(20), "stopped in {:?}", start.elapsed());
    });
}

#[test]
fn deployments_are_available_within_a_second_when_nothing_fails() {
    run(async {
        let cluster = Cluster::start(Options { seed: 1, nodes: NODES }).await.unwrap();
        deploy(&cluster.admin, DEPLOYMENTS).await;
        let took = converge(&cluster, 1, Duration::from_secs(60)).await;
        assert!(took <= Duration::from_secs(1), "{took:?}");
    });
}

/// Idle means idle: ten simulated minutes after everything settled, leases are all that was
/// written.
#[test]
fn a_quiet_cluster_writes_lease_renewals_only() {
    run(async {
        let (seed, nodes) = (3, 10);
        let cluster = Cluster::start(Options { seed, nodes }).await.unwrap();
        deploy(&cluster.admin, GROUP).await;
        converge(&cluster, seed, Duration::from_secs(60)).await;
        let writes = writes_at_rest(&cluster, Duration::from_secs(600)).await;
        let renewals = writes.get(LEASES).copied().unwrap_or_default();
        assert!((59 * nodes..=61 * nodes).contains(&renewals), "{writes:?}");
        assert_eq!(writes.len(), 1, "{writes:?}");
        cluster.stop().await.unwrap();
    });
}
