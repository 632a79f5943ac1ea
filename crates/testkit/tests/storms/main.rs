//! All controllers while nodes die, calls fail, containers crash and turn unready, templates change
//! and others take over the lead: quotas and budgets hold at every moment, Jobs count what ended,
//! no two pods have one identity, nothing is left over, and in the end there is rest.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use client::{Client, DeleteOptions, ListOptions, PatchKind};
use futures_util::future::join_all;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ResourceQuota};
use k8s_openapi::api::policy::v1::{Eviction, PodDisruptionBudget};
use serde_json::{Value, json};
use stdx::Random;
use testkit::{Cluster, Options};

const NODES: u64 = 8;
const ROUNDS: usize = 8;
/// Where the quota is.
const BOUNDED: &str = "kube-public";
const PODS_MAX: usize = 9;
/// With the one that every namespace has.
const MAPS_MAX: usize = 6;
const JOBS: usize = 3;
/// Where StatefulSets, a DaemonSet and a CronJob are.
const SETS: &str = "kube-system";
/// Each with how its pods start, and how many there are at last.
const STATEFUL: [(&str, &str, i32); 2] = [("db", "OrderedReady", 3), ("web", "Parallel", 4)];
/// Who takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cast {
    /// Deployments whose pods run on, and Jobs.
    Few,
    /// And sets, a CronJob, and pods that crash and turn unready.
    All,
}

/// Pods that run on, most of the time.
const RESTLESS: &str = "flaps=10 crashes=5";
/// And all the time when they are older than this.
const RESTLESS_FOR: Duration = Duration::from_secs(140);
/// For four hours at most.
const LOOK: Duration = Duration::from_secs(20);
const LOOKS_MAX: u32 = 4 * 3600 / 20;
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

/// With the image of this round.
fn changing(app: &str, script: &str, round: usize) -> Value {
    let mut template = template(app, script, "Always");
    template["spec"]["containers"][0]["image"] = json!(format!("xebec.local/toolbox:{round}"));
    template
}

async fn make_sets(admin: &Client) {
    for (name, policy, replicas) in STATEFUL {
        let set = json!({
            "metadata": {"name": name, "namespace": SETS},
            "spec": {
                "replicas": replicas, "serviceName": name, "podManagementPolicy": policy,
                "selector": {"matchLabels": {"app": name}},
                "template": changing(name, RESTLESS, 0),
            },
        });
        admin.api::<StatefulSet>().create(serde_json::from_value(set).unwrap()).await.unwrap();
    }
    let agent = json!({
        "metadata": {"name": "agent", "namespace": SETS},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": changing("agent", RESTLESS, 0),
        },
    });
    admin.api::<DaemonSet>().create(serde_json::from_value(agent).unwrap()).await.unwrap();
    let tick = json!({
        "metadata": {"name": "tick", "namespace": SETS},
        "spec": {
            "schedule": "* * * * *", "concurrencyPolicy": "Forbid",
            "successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 1,
            "jobTemplate": {"spec": {
                "backoffLimit": 100_000, "template": template("tick", "after=20 fails=20", "Never"),
            }},
        },
    });
    admin.api::<CronJob>().create(serde_json::from_value(tick).unwrap()).await.unwrap();
}

async fn patch<T: api::Resource>(admin: &Client, name: &str, spec: Value) {
    let body = json!({"spec": spec}).to_string().into();
    admin.api::<T>().patch(SETS, name, PatchKind::Merge, body).await.unwrap();
}

/// One of the sets gets another template, or another size.
async fn change_sets(admin: &Client, random: &Random, round: usize) {
    let (name, _, replicas) = STATEFUL[random.below(2) as usize];
    match random.below(3) {
        0 => {
            let fewer = i32::try_from(random.below(3)).unwrap();
            patch::<StatefulSet>(admin, name, json!({"replicas": replicas - fewer})).await;
        }
        1 => {
            let template = changing("agent", RESTLESS, round);
            patch::<DaemonSet>(admin, "agent", json!({"template": template})).await;
        }
        _ => {
            let template = changing(name, RESTLESS, round);
            patch::<StatefulSet>(admin, name, json!({"template": template})).await;
        }
    }
}

async fn calm_sets(admin: &Client) {
    for (name, _, replicas) in STATEFUL {
        patch::<StatefulSet>(admin, name, json!({"replicas": replicas})).await;
    }
    patch::<CronJob>(admin, "tick", json!({"suspend": true})).await;
}

async fn deploy(admin: &Client, namespace: &str, app: &str, replicas: i32, script: &str) {
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": app, "namespace": namespace},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": app}},
            "template": template(app, script, "Always"),
        },
    }))
    .unwrap();
    admin.api().create(deployment).await.unwrap();
}

async fn set_up(cluster: &Cluster, cast: Cast) {
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
    let script = if cast == Cast::All { RESTLESS } else { "" };
    deploy(admin, "default", "guarded", GUARDED, script).await;
    deploy(admin, BOUNDED, "many", WANTED, script).await;
    if cast == Cast::All {
        make_sets(admin).await;
    }
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

async fn storm(cluster: &mut Cluster, seed: u64, cast: Cast) {
    cluster.faults.set_rate(40);
    let random = cluster.world.random.clone();
    let mut dead: Vec<String> = Vec::new();
    for round in 0..ROUNDS {
        let victim = format!("sim-{}", random.below(NODES));
        cluster.fleet.kill(&victim);
        dead.push(victim);
        make_maps(cluster, round).await;
        if cast == Cast::All {
            change_sets(&cluster.admin, &random, round + 1).await;
        }
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
    if cast == Cast::All {
        calm_sets(&cluster.admin).await;
    }
}

/// Which sets are not as they should be in the end.
async fn missing_sets(admin: &Client) -> Vec<String> {
    let mut missing = Vec::new();
    for (name, _, replicas) in STATEFUL {
        let set = admin.api::<StatefulSet>().get(SETS, name).await.unwrap();
        let status = set.status.clone().unwrap_or_default();
        let counts = (status.available_replicas, status.updated_replicas);
        if counts != (Some(replicas), Some(replicas)) || status.replicas != replicas {
            missing.push(format!("{name}: {}", json!(status)));
        }
    }
    let nodes = i32::try_from(NODES).unwrap();
    let agent = admin.api::<DaemonSet>().get(SETS, "agent").await.unwrap();
    let status = agent.status.clone().unwrap_or_default();
    if (status.number_available, status.updated_number_scheduled) != (Some(nodes), Some(nodes)) {
        missing.push(format!("agent: {}", json!(status)));
    }
    let tick = admin.api::<CronJob>().get(SETS, "tick").await.unwrap();
    if tick.status.as_ref().is_some_and(|it| it.active.as_ref().is_some_and(|it| !it.is_empty())) {
        missing.push(format!("tick: {}", json!(tick.status)));
    }
    let jobs = admin.api::<Job>().list(SETS, ListOptions::default()).await.unwrap();
    if jobs.items.len() != 1 {
        missing.push(format!("{} runs of tick are kept", jobs.items.len()));
    }
    missing
}

/// What is not as it should be in the end.
async fn missing(admin: &Client, cast: Cast) -> Vec<String> {
    let mut missing = match cast {
        Cast::All => missing_sets(admin).await,
        Cast::Few => Vec::new(),
    };
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

async fn converge(cluster: &Cluster, seed: u64, cast: Cast) {
    for _ in 0..LOOKS_MAX {
        if missing(&cluster.admin, cast).await.is_empty() {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
    panic!("seed {seed}:\n{}", missing(&cluster.admin, cast).await.join("\n"));
}

async fn simulate(seed: u64, cast: Cast) {
    let mut cluster = Cluster::start(Options { seed, nodes: NODES as usize }).await.unwrap();
    set_up(&cluster, cast).await;
    storm(&mut cluster, seed, cast).await;
    converge(&cluster, seed, cast).await;
    if cast == Cast::All {
        // Until the youngest pod is quiet.
        tokio::time::sleep(RESTLESS_FOR).await;
        converge(&cluster, seed, cast).await;
    }
    let history = cluster.history().await.unwrap();
    let mut found = testkit::violations(&cluster.admin).await.unwrap();
    found.extend(testkit::miscounted_jobs(&cluster.admin, &history, BOUNDED).await.unwrap());
    if cast == Cast::All {
        found.extend(testkit::miscounted_jobs(&cluster.admin, &history, SETS).await.unwrap());
        found.extend(testkit::shared_identities(&history, SETS).unwrap());
    }
    found.extend(cluster.fleet.doubles());
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

/// Fifty seeds by default, each fifth with everybody, who take half as long again; `cargo xtask
/// torture controllers --seeds 1000` goes through as many as one likes, all with everybody.
#[test]
fn quotas_and_budgets_hold_and_jobs_count_right_whatever_happens() {
    let wanted = std::env::var("SEEDS").ok();
    let seeds = wanted.as_deref().unwrap_or("1..51");
    let cast = |seed: u64| match wanted.is_some() || seed.is_multiple_of(5) {
        true => Cast::All,
        false => Cast::Few,
    };
    let (first, end) = seeds.split_once("..").expect("a range of numbers");
    let (first, end): (u64, u64) = (first.parse().unwrap(), end.parse().unwrap());
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    std::thread::scope(|scope| {
        for thread in 0..n_threads {
            scope.spawn(move || {
                for seed in (first + thread..end).step_by(n_threads as usize) {
                    run(simulate(seed, cast(seed)));
                }
            });
        }
    });
}
