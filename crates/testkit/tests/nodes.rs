//! What the control plane does about nodes, in a whole cluster under paused time: zones, taints,
//! labels, and pods that nobody will finish.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use api::Resource;
use client::{Client, DeleteOptions, ListOptions, PatchKind};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};
use testkit::{Cluster, Options};

const MINUTE: Duration = Duration::from_secs(60);

fn run<T>(simulation: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(simulation)
}

async fn list<T: Resource + Clone>(admin: &Client, namespace: &str) -> Vec<T> {
    let list = admin.api::<T>().list(namespace, ListOptions::default()).await.unwrap();
    list.items.iter().map(|it| T::clone(&it.shared().unwrap())).collect()
}

/// A cluster whose nodes are all ready.
async fn start(nodes: usize) -> (Cluster, Vec<String>) {
    let cluster = Cluster::start(Options { seed: 3, nodes }).await.unwrap();
    let is_ready = |it: &Node| status_of(it) == "True";
    let all_ready = async |admin: &Client| {
        let all = list::<Node>(admin, "").await;
        all.len() == nodes && all.iter().all(is_ready)
    };
    assert!(cluster.until(MINUTE, all_ready).await);
    let all = list::<Node>(&cluster.admin, "").await;
    let names = all.into_iter().filter_map(|it| it.metadata.name).collect();
    (cluster, names)
}

fn status_of(node: &Node) -> &str {
    let conditions = node.status.iter().flat_map(|it| it.conditions.iter().flatten());
    conditions.into_iter().find(|it| it.type_ == "Ready").map_or("", |it| &it.status)
}

fn is_driven_out(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|it| it.taints.iter().flatten());
    taints.into_iter().any(|it| it.effect == "NoExecute" && it.key.ends_with("unreachable"))
}

/// How many nodes are Unknown, and of how many the pods must leave.
async fn fallen(admin: &Client) -> (usize, usize) {
    let all = list::<Node>(admin, "").await;
    let unknown = all.iter().filter(|it| status_of(it) == "Unknown").count();
    (unknown, all.iter().filter(|it| is_driven_out(it)).count())
}

async fn patch_node(admin: &Client, name: &str, patch: Value) {
    let patch = patch.to_string().into();
    admin.api::<Node>().patch("", name, PatchKind::Strategic, patch).await.unwrap();
}

async fn set_zone(admin: &Client, name: &str, zone: &str) {
    let labels = json!({"topology.kubernetes.io/zone": zone});
    patch_node(admin, name, json!({"metadata": {"labels": labels}})).await;
}

async fn events(admin: &Client, reason: &str) -> usize {
    let all = list::<Event>(admin, "default").await;
    all.iter().filter(|it| it.reason.as_deref() == Some(reason)).count()
}

#[test]
fn nodes_that_fall_silent_lose_their_pods_one_after_the_other() {
    run(async {
        let (cluster, names) = start(10).await;
        for name in &names[..3] {
            cluster.fleet.kill(name);
        }
        let all_fell = async |admin: &Client| fallen(admin).await.0 == 3;
        assert!(cluster.until(2 * MINUTE, all_fell).await);
        let (_, n_first) = fallen(&cluster.admin).await;
        assert!((1..3).contains(&n_first), "one in ten seconds: {n_first}");
        let all_left = async |admin: &Client| fallen(admin).await.1 == 3;
        assert!(cluster.until(MINUTE, all_left).await);
        assert_eq!(events(&cluster.admin, "NodeNotReady").await, 3);
        assert_eq!(events(&cluster.admin, "RegisteredNode").await, 10);
        for name in &names[..3] {
            cluster.fleet.revive(name);
        }
        let all_back = async |admin: &Client| fallen(admin).await == (0, 0);
        assert!(cluster.until(MINUTE, all_back).await);
        cluster.stop().await.unwrap();
    });
}

#[test]
fn a_control_plane_that_hears_nobody_drives_nobody_out() {
    run(async {
        let (cluster, names) = start(4).await;
        names.iter().for_each(|it| cluster.fleet.kill(it));
        let all_fell = async |admin: &Client| fallen(admin).await.0 == 4;
        assert!(cluster.until(2 * MINUTE, all_fell).await);
        tokio::time::sleep(10 * MINUTE).await;
        assert_eq!(fallen(&cluster.admin).await, (4, 0));
        // One is heard again: three of four are a partial disruption of a small zone.
        cluster.fleet.revive(&names[0]);
        let one_back = async |admin: &Client| fallen(admin).await.0 == 3;
        assert!(cluster.until(MINUTE, one_back).await);
        tokio::time::sleep(10 * MINUTE).await;
        assert_eq!(fallen(&cluster.admin).await, (3, 0));
        cluster.fleet.revive(&names[1]);
        let others_leave = async |admin: &Client| fallen(admin).await == (2, 2);
        assert!(
            cluster.until(5 * MINUTE, others_leave).await,
            "{:?}",
            fallen(&cluster.admin).await
        );
        cluster.stop().await.unwrap();
    });
}

#[test]
fn a_zone_that_is_down_is_emptied_while_another_is_well() {
    run(async {
        let (cluster, names) = start(6).await;
        for (index, name) in names.iter().enumerate() {
            set_zone(&cluster.admin, name, if index < 3 { "a" } else { "b" }).await;
        }
        names[..3].iter().for_each(|it| cluster.fleet.kill(it));
        let all_left = async |admin: &Client| fallen(admin).await == (3, 3);
        assert!(cluster.until(3 * MINUTE, all_left).await, "{:?}", fallen(&cluster.admin).await);
        cluster.stop().await.unwrap();
    });
}

#[test]
fn nodes_say_for_how_long_kubelets_may_keep_what_they_read() {
    run(async {
        let (cluster, _) = start(3).await;
        let ttl = "node.alpha.kubernetes.io/ttl";
        let all_say = async |admin: &Client| {
            let all = list::<Node>(admin, "").await;
            let said = |it: &Node| it.metadata.annotations.as_ref()?.get(ttl).cloned();
            all.iter().all(|it| said(it).as_deref() == Some("0"))
        };
        assert!(cluster.until(MINUTE, all_say).await);
        cluster.stop().await.unwrap();
    });
}

/// Two pods of a Deployment and a Service that asks for close endpoints.
async fn web(cluster: &Cluster, n_pods: usize) {
    let labels = json!({"app": "web"});
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": n_pods,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "xebec.local/toolbox"}]},
            },
        },
    }))
    .unwrap();
    cluster.admin.api().create(deployment).await.unwrap();
    let service: Service = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "selector": labels, "ports": [{"port": 80}], "trafficDistribution": "PreferSameZone",
        },
    }))
    .unwrap();
    cluster.admin.api().create(service).await.unwrap();
}

#[test]
fn close_endpoints_follow_the_zones_of_their_nodes() {
    run(async {
        let (cluster, names) = start(2).await;
        set_zone(&cluster.admin, &names[0], "a").await;
        set_zone(&cluster.admin, &names[1], "b").await;
        web(&cluster, 4).await;
        let hints = async |admin: &Client| -> Vec<(String, String)> {
            let slices = list::<EndpointSlice>(admin, "default").await;
            let endpoints = slices.iter().flat_map(|it| it.endpoints.iter().flatten());
            endpoints
                .filter(|it| it.target_ref.is_some())
                .map(|it| {
                    let zones = it.hints.iter().flat_map(|it| it.for_zones.iter().flatten());
                    let zones: Vec<String> = zones.map(|it| it.name.clone()).collect();
                    (it.zone.clone().unwrap_or_default(), zones.join(","))
                })
                .collect()
        };
        let is_hinted = async |admin: &Client| {
            let all = hints(admin).await;
            all.len() == 4 && all.iter().all(|it| it.0 == it.1 && ["a", "b"].contains(&&*it.0))
        };
        assert!(cluster.until(MINUTE, is_hinted).await, "{:?}", hints(&cluster.admin).await);
        set_zone(&cluster.admin, &names[1], "c").await;
        let has_moved = async |admin: &Client| {
            let all = hints(admin).await;
            all.iter().all(|it| it.0 == it.1 && it.0 != "b") && all.iter().any(|it| it.0 == "c")
        };
        assert!(cluster.until(MINUTE, has_moved).await, "{:?}", hints(&cluster.admin).await);
        cluster.stop().await.unwrap();
    });
}

#[test]
fn pods_of_a_node_that_is_off_are_replaced_when_somebody_says_so() {
    run(async {
        let (cluster, names) = start(4).await;
        web(&cluster, 4).await;
        let on = async |admin: &Client, node: &str| {
            let all = list::<Pod>(admin, "default").await;
            all.iter()
                .filter(|it| it.spec.as_ref().and_then(|it| it.node_name.as_deref()) == Some(node))
                .count()
        };
        let all_run = async |admin: &Client| {
            let all = list::<Pod>(admin, "default").await;
            let is_running =
                |it: &Pod| it.status.as_ref().and_then(|it| it.phase.as_deref()) == Some("Running");
            all.len() == 4 && all.iter().all(is_running)
        };
        assert!(cluster.until(2 * MINUTE, all_run).await);
        let victim = &names[0];
        assert!(on(&cluster.admin, victim).await > 0);
        cluster.fleet.kill(victim);
        // Evicted after five minutes, and then nobody confirms it.
        tokio::time::sleep(10 * MINUTE).await;
        assert!(on(&cluster.admin, victim).await > 0);
        let taint = json!({"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"});
        patch_node(&cluster.admin, victim, json!({"spec": {"taints": [taint]}})).await;
        let all_gone = async |admin: &Client| on(admin, victim).await == 0;
        assert!(cluster.until(MINUTE, all_gone).await);
        let api = cluster.admin.api::<Node>();
        api.delete("", victim, DeleteOptions::default()).await.unwrap();
        let is_told = async |admin: &Client| events(admin, "RemovingNode").await == 1;
        assert!(cluster.until(MINUTE, is_told).await);
        cluster.stop().await.unwrap();
    });
}

#[test]
fn nodes_get_their_parts_of_the_pod_network_when_somebody_gives_them_out() {
    run(async {
        let flags = [
            "--allocate-node-cidrs",
            "--cluster-cidr=10.50.0.0/22,fd50::/62",
            "--service-cluster-ip-range=10.50.1.0/24",
        ];
        let options = Options { seed: 5, nodes: 4 };
        let cluster = Cluster::start_with_controllers(options, &flags).await.unwrap();
        let parts = async |admin: &Client| -> Vec<String> {
            let all = list::<Node>(admin, "").await;
            let parts = all.iter().filter_map(|it| it.spec.clone()?.pod_cidrs);
            let mut parts: Vec<String> = parts.map(|it| it.join(" ")).collect();
            parts.sort();
            parts
        };
        let are_given = async |admin: &Client| parts(admin).await.len() == 3;
        assert!(cluster.until(MINUTE, are_given).await, "{:?}", parts(&cluster.admin).await);
        let is_told = async |admin: &Client| events(admin, "CIDRNotAvailable").await == 1;
        assert!(cluster.until(MINUTE, is_told).await);
        let given = parts(&cluster.admin).await;
        let v4: Vec<&str> = given.iter().filter_map(|it| it.split(' ').next()).collect();
        assert_eq!(v4, ["10.50.0.0/24", "10.50.2.0/24", "10.50.3.0/24"]);
        assert!(given.iter().all(|it| it.contains(" fd50:")), "{given:?}");
        // One that goes leaves its part to the one that waits.
        let all = list::<Node>(&cluster.admin, "").await;
        let has = |it: &&Node| it.spec.as_ref().is_some_and(|it| it.pod_cidr.is_some());
        let gone = all.iter().find(has).and_then(|it| it.metadata.name.clone()).unwrap();
        cluster.fleet.kill(&gone);
        let api = cluster.admin.api::<Node>();
        api.delete("", &gone, DeleteOptions::default()).await.unwrap();
        let again = async |admin: &Client| {
            let all = list::<Node>(admin, "").await;
            all.len() == 3 && all.iter().all(|it| has(&it))
        };
        assert!(cluster.until(MINUTE, again).await, "{:?}", parts(&cluster.admin).await);
        cluster.stop().await.unwrap();
    });
}
