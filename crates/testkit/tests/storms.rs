//! All controllers while nodes die, calls fail and others take over the lead: quotas and budgets
//! hold at every moment, Jobs count what ended, nothing is left over, and in the end there is rest.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use client::{Client, DeleteOptions, ListOptions, PatchKind};
use futures_util::future::join_all;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ResourceQuota};
use k8s_openapi::api::policy::v1::{Eviction, PodDisruptionBudget};
use serde_json::{Value, json};
use testkit::{Cluster, Options};

const NODES: u64 = 8;
const ROUNDS: usize = 8;
/// Where the quota is.
const BOUNDED: &str = "kube-public";
const PODS_MAX: usize = 9;
/// With the one that every namespace has.
const MAPS_MAX: usize = 6;
const JOBS: usize = 3;
/// Of the Deployment with a budget; all but one of them are to be available.
const GUARDED: i32 = 5;
/// Of the Deployment with a quota, which is too much for that; and at last.
const WANTED: i32 = 14;
const MODEST: i32 = 6;

fn run<T>(simulation: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(simulation)
}

fn template(app: &str, script: &str, restart: &str) -> Value {
    let told = json!({"simulator.xebec.local/containers": script});
    let annotations = if script.is_empty() { Value::Null } else { told };
    json!({
        "metadata": {"labels": {"app": app}, "annotations": annotations},
        "spec": {
            "restartPolicy": restart,
            "containers": [{"name": "main", "image": "xebec.local/toolbox"}],
        },
    })
}

async fn deploy(admin: &Client, namespace: &str, app: &str, replicas: i32) {
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": app, "namespace": namespace},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": app}},
            "template": template(app, "", "Always"),
        },
    }))
    .unwrap();
    admin.api().create(deployment).await.unwrap();
}

async fn set_up(cluster: &Cluster) {
    let admin = &cluster.admin;
    let quota: ResourceQuota = serde_json::from_value(json!({
        "metadata": {"name": "q", "namespace": BOUNDED},
        "spec": {"hard": {"pods": PODS_MAX.to_string(), "configmaps": MAPS_MAX.to_string()}},
    }))
    .unwrap();
    admin.api().create(quota).await.unwrap();
    let is_counted =
        async |admin: &Client| used(admin).await == json!({"configmaps": "1", "pods": "0"});
    assert!(cluster.until(Duration::from_secs(60), is_counted).await, "{}", used(admin).await);
    let budget: PodDisruptionBudget = serde_json::from_value(json!({
        "metadata": {"name": "guarded", "namespace": "default"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
    }))
    .unwrap();
    admin.api().create(budget).await.unwrap();
    deploy(admin, "default", "guarded", GUARDED).await;
    deploy(admin, BOUNDED, "many", WANTED).await;
    for index in 0..JOBS {
        let job: Job = serde_json::from_value(json!({
            "metadata": {"name": format!("job-{index}"), "namespace": BOUNDED},
            "spec": {
                "completions": 6, "parallelism": 3, "backoffLimit": 100_000,
                "completionMode": if index == 0 { "Indexed" } else { "NonIndexed" },
                "template": template("job", "after=15 fails=20", "Never"),
            },
        }))
        .unwrap();
        admin.api().create(job).await.unwrap();
    }
}

async fn used(admin: &Client) -> Value {
    let quota = admin.api::<ResourceQuota>().get(BOUNDED, "q").await.unwrap();
    json!(quota.status.as_ref().and_then(|it| it.used.clone()))
}

async fn pods(admin: &Client, namespace: &str) -> Vec<Pod> {
    let list = admin.api::<Pod>().list(namespace, ListOptions::default()).await.unwrap();
    list.items.iter().map(|it| Pod::clone(&it.shared().unwrap())).collect()
}

fn is_healthy(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|it| it.conditions.iter().flatten());
    let is_ready = conditions.into_iter().any(|it| it.type_ == "Ready" && it.status == "True");
    is_ready && pod.metadata.deletion_timestamp.is_none()
}

/// All who are healthy are to go at once; as many go as the budget allows, which is asked when it
/// has seen what there is.
async fn evict(admin: &Client, seed: u64) {
    let healthy: Vec<Pod> = pods(admin, "default").await.into_iter().filter(is_healthy).collect();
    let budget = admin.api::<PodDisruptionBudget>().get("default", "guarded").await.unwrap();
    let status = budget.status.clone().unwrap_or_default();
    if status.current_healthy != i32::try_from(healthy.len()).ok() {
        return;
    }
    let evictions = healthy.iter().map(|pod| {
        let name = pod.metadata.name.clone().unwrap();
        let metadata = json!({"name": name, "namespace": "default"});
        let eviction: Eviction = serde_json::from_value(json!({"metadata": metadata})).unwrap();
        let api = admin.api::<Pod>();
        async move { api.create_subresource("default", &name, "eviction", eviction).await }
    });
    let gone = join_all(evictions).await.iter().filter(|it| it.is_ok()).count();
    let allowed = status.disruptions_allowed.unwrap_or_default();
    assert!(gone <= usize::try_from(allowed).unwrap(), "seed {seed}: {gone} went of {allowed}");
}

/// More than there may be, all at once; and some of them go again.
async fn make_maps(cluster: &Cluster, round: usize) {
    let api = cluster.admin.api::<ConfigMap>();
    let names: Vec<String> = (0..2 * MAPS_MAX).map(|it| format!("map-{round}-{it}")).collect();
    let maps = names.iter().map(|name| {
        let metadata = json!({"name": name, "namespace": BOUNDED});
        api.create(serde_json::from_value(json!({"metadata": metadata})).unwrap())
    });
    join_all(maps).await;
    let list = api.list(BOUNDED, ListOptions::default()).await.unwrap();
    for map in &list.items {
        let name = &map.meta.key.name;
        if name.starts_with("map-") && cluster.world.random.below(2) == 0 {
            api.delete(BOUNDED, name, DeleteOptions::default()).await.unwrap();
        }
    }
}

async fn storm(cluster: &mut Cluster, seed: u64) {
    cluster.faults.set_rate(40);
    let random = cluster.world.random.clone();
    let mut dead: Vec<String> = Vec::new();
    for round in 0..ROUNDS {
        let victim = format!("sim-{}", random.below(NODES));
        cluster.fleet.kill(&victim);
        dead.push(victim);
        make_maps(cluster, round).await;
        for _ in 0..4 {
            tokio::time::sleep(Duration::from_millis(1 + random.below(9_000))).await;
            evict(&cluster.admin, seed).await;
        }
        if random.below(2) == 0 {
            cluster.change_leader().await.unwrap();
        }
        if dead.len() > 2 || random.below(2) == 0 {
            let index = random.below(dead.len() as u64) as usize;
            cluster.fleet.revive(&dead.swap_remove(index));
        }
    }
    cluster.faults.set_rate(0);
    dead.iter().for_each(|it| cluster.fleet.revive(it));
    let patch = json!({"spec": {"replicas": MODEST}}).to_string().into();
    let deployments = cluster.admin.api::<Deployment>();
    deployments.patch(BOUNDED, "many", PatchKind::Merge, patch).await.unwrap();
}

/// What is not as it should be in the end.
async fn missing(admin: &Client) -> Vec<String> {
    let mut missing = Vec::new();
    for (namespace, name, replicas) in [("default", "guarded", GUARDED), (BOUNDED, "many", MODEST)]
    {
        let deployment = admin.api::<Deployment>().get(namespace, name).await.unwrap();
        let status = deployment.status.clone().unwrap_or_default();
        if (status.available_replicas, status.replicas) != (Some(replicas), Some(replicas)) {
            missing.push(format!("{name}: {}", json!(status)));
        }
    }
    let jobs = admin.api::<Job>().list(BOUNDED, ListOptions::default()).await.unwrap();
    for stored in &jobs.items {
        let status = stored.shared::<Job>().unwrap().status.clone().unwrap_or_default();
        if !api::batch::job::conditions::is_finished(&status) {
            missing.push(format!("{}: {}", stored.meta.key, json!(status)));
        }
    }
    let maps = admin.api::<ConfigMap>().list(BOUNDED, ListOptions::default()).await.unwrap();
    let expected = json!({"configmaps": maps.items.len().to_string(), "pods": MODEST.to_string()});
    let used = used(admin).await;
    if used != expected {
        missing.push(format!("the quota says {used} in place of {expected}"));
    }
    missing
}

async fn simulate(seed: u64) {
    let mut cluster = Cluster::start(Options { seed, nodes: NODES as usize }).await.unwrap();
    set_up(&cluster).await;
    storm(&mut cluster, seed).await;
    let limit = Duration::from_secs(4 * 3600);
    if !cluster.until(limit, async |admin| missing(admin).await.is_empty()).await {
        panic!("seed {seed}:\n{}", missing(&cluster.admin).await.join("\n"));
    }
    let history = cluster.history().await.unwrap();
    let mut found = testkit::violations(&cluster.admin).await.unwrap();
    found.extend(testkit::miscounted_jobs(&cluster.admin, &history, BOUNDED).await.unwrap());
    found.extend(testkit::pods_beyond(&history, BOUNDED, PODS_MAX).unwrap());
    found.extend(testkit::objects_beyond(&history, &format!("/configmaps/{BOUNDED}/"), MAPS_MAX));
    assert!(found.is_empty(), "seed {seed}:\n{}", found.join("\n"));
    tokio::time::sleep(Duration::from_secs(30)).await;
    let settled = cluster.history().await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let writes = cluster.history().await.unwrap().writes_since(&settled);
    assert_eq!(writes.keys().collect::<Vec<_>>(), ["leases/kube-node-lease"], "seed {seed}");
    cluster.stop().await.unwrap_or_else(|err| panic!("seed {seed}: {err}"));
}

/// Fifty seeds by default; `cargo xtask torture controllers --seeds 1000` goes through as many as
/// one likes.
#[test]
fn quotas_and_budgets_hold_and_jobs_count_right_whatever_happens() {
    let seeds = std::env::var("SEEDS").unwrap_or_else(|_| "1..51".to_owned());
    let (first, end) = seeds.split_once("..").expect("a range of numbers");
    let (first, end): (u64, u64) = (first.parse().unwrap(), end.parse().unwrap());
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    std::thread::scope(|scope| {
        for thread in 0..n_threads {
            scope.spawn(move || {
                for seed in (first + thread..end).step_by(n_threads as usize) {
                    run(simulate(seed));
                }
            });
        }
    });
}
