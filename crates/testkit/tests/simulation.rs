//! Whole clusters under paused time: random node deaths and API faults, and a history that repeats.

use std::time::Duration;

use client::{Client, ListOptions};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use testkit::{Cluster, History, Options};

const NODES: usize = 100;
const DEPLOYMENTS: usize = 20;
const REPLICAS: i32 = 5;

fn run<T>(simulation: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(simulation)
}

fn deployment(name: &str, replicas: i32) -> Deployment {
    serde_json::from_value(json!({
        "metadata": { "name": name, "namespace": "default" },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{ "name": "main", "image": "xebec.local/toolbox" }] },
            },
        },
    }))
    .unwrap()
}

/// Every deployment has all its replicas available and no pod is left over.
async fn has_converged(admin: &Client) -> bool {
    let deployments =
        admin.api::<Deployment>().list("default", ListOptions::default()).await.unwrap();
    let is_available = deployments.items.iter().all(|stored| {
        let deployment = stored.typed(<Deployment as api::Resource>::decode).unwrap();
        deployment.status.as_ref().and_then(|it| it.available_replicas) == Some(REPLICAS)
    });
    let pods =
        admin.api::<Pod>().list("default", ListOptions::default()).await.unwrap().items.len();
    is_available
        && deployments.items.len() == DEPLOYMENTS
        && pods == DEPLOYMENTS * REPLICAS as usize
}

/// Faults and node deaths for ten simulated minutes, then peace.
async fn storm(seed: u64) -> History {
    let cluster = Cluster::start(Options { seed, nodes: NODES }).await.unwrap();
    for index in 0..DEPLOYMENTS {
        cluster
            .admin
            .api::<Deployment>()
            .create(deployment(&format!("app-{index}"), REPLICAS))
            .await
            .unwrap();
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
    let converged = cluster.until(Duration::from_secs(1200), has_converged).await;
    assert!(converged, "seed {seed} did not converge");
    let history = cluster.history().await.unwrap();
    cluster.stop().await.unwrap();
    history
}

#[test]
fn a_cluster_converges_after_node_deaths_and_api_faults() {
    run(storm(1));
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let (one, two) = (run(storm(7)), run(storm(7)));
    assert_eq!(one, two);
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
