//! StatefulSets and DaemonSets on simulated nodes, under paused time: identities, order, rollouts
//! back and forth, nodes that come and go, and rest under faults.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::Resource;
use client::{Api, Client, DeleteOptions, ListOptions, PatchKind};
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, StatefulSet};
use k8s_openapi::api::core::v1::{Event, Node, PersistentVolumeClaim, Pod, ServiceAccount};
use serde_json::{Value, json};
use testkit::{Cluster, Options};

const LIMIT: Duration = Duration::from_secs(600);

fn run<T>(simulation: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(simulation)
}

fn spec(name: &str, rest: &Value) -> Value {
    let mut spec = json!({
        "selector": { "matchLabels": { "app": name } },
        "template": {
            "metadata": { "labels": { "app": name } },
            "spec": { "containers": [{ "name": "main", "image": "xebec.local/toolbox:1" }] },
        },
    });
    spec.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    json!({ "metadata": { "name": name, "namespace": "default" }, "spec": spec })
}

async fn create<T: Resource>(admin: &Client, object: Value) {
    let object = T::decode(object.to_string().as_bytes()).unwrap();
    admin.api::<T>().create(object).await.unwrap();
}

async fn patch<T: Resource>(admin: &Client, name: &str, body: Value) {
    let api: Api<T> = admin.api();
    api.patch("default", name, PatchKind::Merge, body.to_string().into()).await.unwrap();
}

async fn set_image<T: Resource>(admin: &Client, name: &str, tag: u8) {
    let container = json!({ "name": "main", "image": format!("xebec.local/toolbox:{tag}") });
    let body = json!({ "spec": { "template": { "spec": { "containers": [container] } } } });
    patch::<T>(admin, name, body).await;
}

async fn get<T: Resource>(admin: &Client, name: &str) -> Value {
    let object = admin.api::<T>().get("default", name).await.unwrap();
    serde_json::from_slice(&object.encode()).unwrap()
}

async fn list<T: Resource>(admin: &Client, namespace: &str) -> Vec<Value> {
    let list = admin.api::<T>().list(namespace, ListOptions::default()).await.unwrap();
    list.items.iter().map(|it| serde_json::from_slice(&it.bytes).unwrap()).collect()
}

/// Names and images of the pods that nobody deletes.
async fn images(admin: &Client) -> Vec<String> {
    let pods = list::<Pod>(admin, "default").await;
    let there = pods.iter().filter(|it| it["metadata"]["deletionTimestamp"].is_null());
    let text = |it: &Value| it.as_str().unwrap().to_owned();
    let mut images: Vec<String> = there
        .map(|it| {
            let image = text(&it["spec"]["containers"][0]["image"]);
            format!("{}:{}", text(&it["metadata"]["name"]), image.rsplit(':').next().unwrap())
        })
        .collect();
    images.sort();
    images
}

/// Until the status has these fields, whatever others there are.
async fn until<T: Resource>(cluster: &Cluster, name: &str, expected: &Value) {
    let is_right = cluster.until(LIMIT, async |admin| {
        let object = get::<T>(admin, name).await;
        let is_seen = object["status"]["observedGeneration"] == object["metadata"]["generation"];
        is_seen
            && expected.as_object().unwrap().iter().all(|(key, it)| object["status"][key] == *it)
    });
    let is_right = is_right.await;
    let status = get::<T>(&cluster.admin, name).await["status"].clone();
    assert!(is_right, "{status} is not {expected}, pods {:?}", images(&cluster.admin).await);
}

fn complete(replicas: i32) -> Value {
    json!({ "replicas": replicas, "readyReplicas": replicas, "updatedReplicas": replicas, "currentReplicas": replicas })
}

async fn revisions(admin: &Client) -> Vec<i64> {
    let all = list::<ControllerRevision>(admin, "default").await;
    let mut numbers: Vec<i64> = all.iter().map(|it| it["revision"].as_i64().unwrap()).collect();
    numbers.sort_unstable();
    numbers
}

async fn events(admin: &Client, kind: &str) -> BTreeSet<String> {
    let events = list::<Event>(admin, "default").await;
    let about = events.iter().filter(|it| it["involvedObject"]["kind"] == kind);
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    about.map(|it| format!("{} {}", text(&it["reason"]), text(&it["message"]))).collect()
}

/// Every pod whose name was ever stored, in the order of creation.
async fn order(cluster: &Cluster) -> Vec<String> {
    let history = cluster.history().await.unwrap();
    let mut order: Vec<String> = Vec::new();
    for bytes in history.values("/pods/default/") {
        let pod: Pod = serde_json::from_slice(bytes).unwrap();
        let id = format!("{}/{}", pod.metadata.name.unwrap(), pod.metadata.uid.unwrap());
        if !order.contains(&id) {
            order.push(id);
        }
    }
    order.into_iter().map(|it| it.split('/').next().unwrap().to_owned()).collect()
}

#[test]
fn an_ordered_set_comes_up_scales_and_is_updated_in_order() {
    run(async {
        let cluster = Cluster::start(Options { seed: 1, nodes: 3 }).await.unwrap();
        let admin = &cluster.admin;
        create::<StatefulSet>(admin, spec("web", &json!({ "replicas": 3, "serviceName": "web" })))
            .await;
        until::<StatefulSet>(&cluster, "web", &complete(3)).await;
        assert_eq!(order(&cluster).await, ["web-0", "web-1", "web-2"]);
        let pod = get::<Pod>(admin, "web-1").await;
        assert_eq!(
            (&pod["spec"]["hostname"], &pod["spec"]["subdomain"]),
            (&json!("web-1"), &json!("web"))
        );
        assert_eq!(pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"], "1");
        let status = get::<StatefulSet>(admin, "web").await["status"].clone();
        assert_eq!(pod["metadata"]["labels"]["controller-revision-hash"], status["updateRevision"]);
        assert_eq!(status["collisionCount"], 0);

        set_image::<StatefulSet>(admin, "web", 2).await;
        until::<StatefulSet>(&cluster, "web", &complete(3)).await;
        assert_eq!(images(admin).await, ["web-0:2", "web-1:2", "web-2:2"]);
        assert_eq!(order(&cluster).await[3..], ["web-2", "web-1", "web-0"]);
        assert_eq!(revisions(admin).await, [1, 2]);
        let updated = get::<StatefulSet>(admin, "web").await["status"].clone();
        assert_eq!(updated["currentRevision"], updated["updateRevision"]);

        // Back again: the revision of then is used once more.
        set_image::<StatefulSet>(admin, "web", 1).await;
        until::<StatefulSet>(&cluster, "web", &complete(3)).await;
        assert_eq!(revisions(admin).await, [2, 3]);
        assert_eq!(
            get::<StatefulSet>(admin, "web").await["status"]["updateRevision"],
            status["updateRevision"]
        );

        patch::<StatefulSet>(admin, "web", json!({ "spec": { "replicas": 1 } })).await;
        until::<StatefulSet>(&cluster, "web", &complete(1)).await;
        assert_eq!(images(admin).await, ["web-0:1"]);
        let said = events(admin, "StatefulSet").await;
        for expected in [
            "SuccessfulCreate Create Pod web-0 in StatefulSet web successful",
            "SuccessfulDelete Delete Pod web-2 in StatefulSet web successful",
        ] {
            assert!(said.contains(expected), "{said:?}");
        }
        assert_eq!(testkit::violations(admin).await.unwrap(), [""; 0]);
        cluster.stop().await.unwrap();
    });
}

#[test]
fn a_partition_makes_canaries_and_keeps_the_others() {
    run(async {
        let cluster = Cluster::start(Options { seed: 1, nodes: 3 }).await.unwrap();
        let admin = &cluster.admin;
        let rolling = json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": 2 } });
        let rest = json!({ "replicas": 3, "serviceName": "web", "updateStrategy": rolling });
        create::<StatefulSet>(admin, spec("web", &rest)).await;
        until::<StatefulSet>(&cluster, "web", &complete(3)).await;
        set_image::<StatefulSet>(admin, "web", 2).await;
        until::<StatefulSet>(
            &cluster,
            "web",
            &json!({ "updatedReplicas": 1, "currentReplicas": 2, "readyReplicas": 3 }),
        )
        .await;
        assert_eq!(images(admin).await, ["web-0:1", "web-1:1", "web-2:2"]);
        // Whoever goes comes back as it was.
        for name in ["web-0", "web-2"] {
            let before = get::<Pod>(admin, name).await["metadata"]["uid"].clone();
            admin.api::<Pod>().delete("default", name, DeleteOptions::default()).await.unwrap();
            until_replaced(&cluster, name, &before).await;
        }
        until::<StatefulSet>(&cluster, "web", &json!({ "readyReplicas": 3, "updatedReplicas": 1 }))
            .await;
        assert_eq!(images(admin).await, ["web-0:1", "web-1:1", "web-2:2"]);
        let rolling = json!({ "rollingUpdate": { "partition": 0 } });
        patch::<StatefulSet>(admin, "web", json!({ "spec": { "updateStrategy": rolling } })).await;
        until::<StatefulSet>(&cluster, "web", &complete(3)).await;
        assert_eq!(images(admin).await, ["web-0:2", "web-1:2", "web-2:2"]);
        cluster.stop().await.unwrap();
    });
}

#[test]
fn claims_are_made_and_go_as_the_policy_says() {
    run(async {
        let cluster = Cluster::start(Options { seed: 1, nodes: 3 }).await.unwrap();
        let admin = &cluster.admin;
        let claim = json!({ "metadata": { "name": "data" }, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
        } });
        let rest = json!({
            "replicas": 2, "serviceName": "web", "podManagementPolicy": "Parallel",
            "volumeClaimTemplates": [claim],
            "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Delete", "whenScaled": "Retain" },
        });
        create::<StatefulSet>(admin, spec("web", &rest)).await;
        until::<StatefulSet>(&cluster, "web", &json!({ "replicas": 2 })).await;
        let claims = async || {
            let claims = list::<PersistentVolumeClaim>(admin, "default").await;
            let name = |it: &Value| it["metadata"]["name"].as_str().unwrap().to_owned();
            claims.iter().map(name).collect::<Vec<_>>()
        };
        assert_eq!(claims().await, ["data-web-0", "data-web-1"]);
        let owned = get::<PersistentVolumeClaim>(admin, "data-web-0").await;
        assert_eq!(owned["metadata"]["ownerReferences"][0]["kind"], "StatefulSet");
        assert_eq!(owned["metadata"]["labels"]["app"], "web");
        let pod = get::<Pod>(admin, "web-0").await;
        assert_eq!(pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], "data-web-0");
        // A pod that waits gets its claim again.
        let api = admin.api::<PersistentVolumeClaim>();
        api.delete("default", "data-web-0", DeleteOptions::default()).await.unwrap();
        assert!(cluster.until(LIMIT, async |_| claims().await.len() == 2).await);
        let said = events(admin, "StatefulSet").await;
        let expected =
            "SuccessfulCreate Create Claim data-web-0 Pod web-0 in StatefulSet web success";
        assert!(said.contains(expected), "{said:?}");

        // Scaled down: they stay, or go with their pods.
        patch::<StatefulSet>(admin, "web", json!({ "spec": { "replicas": 1 } })).await;
        until::<StatefulSet>(&cluster, "web", &json!({ "replicas": 1 })).await;
        assert_eq!(claims().await, ["data-web-0", "data-web-1"]);
        let policy = json!({ "whenScaled": "Delete" });
        let body =
            json!({ "spec": { "replicas": 2, "persistentVolumeClaimRetentionPolicy": policy } });
        patch::<StatefulSet>(admin, "web", body).await;
        until::<StatefulSet>(&cluster, "web", &json!({ "replicas": 2 })).await;
        patch::<StatefulSet>(admin, "web", json!({ "spec": { "replicas": 0 } })).await;
        assert!(
            cluster.until(LIMIT, async |_| claims().await.is_empty()).await,
            "{:?}",
            claims().await
        );

        patch::<StatefulSet>(admin, "web", json!({ "spec": { "replicas": 2 } })).await;
        assert!(cluster.until(LIMIT, async |_| claims().await.len() == 2).await);
        admin
            .api::<StatefulSet>()
            .delete("default", "web", DeleteOptions::default())
            .await
            .unwrap();
        assert!(
            cluster.until(LIMIT, async |_| claims().await.is_empty()).await,
            "{:?}",
            claims().await
        );
        assert!(cluster.until(LIMIT, async |admin| revisions(admin).await.is_empty()).await);
        cluster.stop().await.unwrap();
    });
}

#[test]
fn what_a_set_waits_for_is_in_its_status_until_it_is_over() {
    run(async {
        let cluster = Cluster::start(Options { seed: 1, nodes: 1 }).await.unwrap();
        let admin = &cluster.admin;
        let pod = json!({ "metadata": { "name": "web-0", "namespace": "default" }, "spec": {
            "containers": [{ "name": "main", "image": "xebec.local/toolbox" }],
        } });
        let is_there = async |admin: &Client| {
            admin.api::<ServiceAccount>().get("default", "default").await.is_ok()
        };
        assert!(cluster.until(LIMIT, is_there).await);
        create::<Pod>(admin, pod).await;
        let rest = json!({ "replicas": 1, "serviceName": "web", "minReadySeconds": 30 });
        create::<StatefulSet>(admin, spec("web", &rest)).await;
        let waits = async |reason: &str| {
            let is_right = cluster.until(LIMIT, async |admin| {
                let set = get::<StatefulSet>(admin, "web").await;
                set["status"]["conditions"][0]["reason"] == reason
            });
            assert!(is_right.await, "{}", get::<StatefulSet>(admin, "web").await);
        };
        waits("ConflictingController").await;
        let said = events(admin, "StatefulSet").await;
        assert!(
            said.contains("ConflictingController Pod web-0 exists and belongs to nobody"),
            "{said:?}"
        );
        admin.api::<Pod>().delete("default", "web-0", DeleteOptions::default()).await.unwrap();
        waits("PodNotAvailable").await;
        until::<StatefulSet>(
            &cluster,
            "web",
            &json!({ "availableReplicas": 1, "conditions": null }),
        )
        .await;
        cluster.stop().await.unwrap();
    });
}

#[test]
fn a_pod_that_failed_is_replaced_under_its_name() {
    run(async {
        let cluster = Cluster::start(Options { seed: 1, nodes: 2 }).await.unwrap();
        let admin = &cluster.admin;
        create::<StatefulSet>(admin, spec("web", &json!({ "replicas": 2, "serviceName": "web" })))
            .await;
        until::<StatefulSet>(&cluster, "web", &complete(2)).await;
        let before = get::<Pod>(admin, "web-0").await["metadata"]["uid"].clone();
        fail(admin, "web-0").await;
        until_replaced(&cluster, "web-0", &before).await;
        until::<StatefulSet>(&cluster, "web", &complete(2)).await;
        cluster.stop().await.unwrap();
    });
}

/// Until another pod has the name.
async fn until_replaced(cluster: &Cluster, name: &str, before: &Value) {
    let is_new =
        cluster.until(LIMIT, async |admin| match admin.api::<Pod>().get("default", name).await {
            Ok(pod) => json!(pod.metadata.uid) != *before,
            Err(_) => false,
        });
    assert!(is_new.await, "{name} is as before");
}

/// As a kubelet would say it.
async fn fail(admin: &Client, pod: &str) {
    let mut object = Pod::clone(&*admin.api::<Pod>().get("default", pod).await.unwrap());
    let status = object.status.get_or_insert_default();
    status.phase = Some("Failed".to_owned());
    status.reason = Some("Evicted".to_owned());
    admin.api::<Pod>().update_status(object).await.unwrap();
}

fn on_nodes(count: i32) -> Value {
    // Some are left out when they are zero.
    let some = Some(count).filter(|it| *it > 0);
    json!({
        "desiredNumberScheduled": count, "currentNumberScheduled": count, "numberReady": count,
        "numberAvailable": some, "updatedNumberScheduled": some, "numberMisscheduled": 0,
    })
}

/// How many pods are on each node.
async fn placement(admin: &Client) -> BTreeMap<String, usize> {
    let mut placement = BTreeMap::new();
    for pod in list::<Pod>(admin, "default").await {
        if pod["metadata"]["deletionTimestamp"].is_null() {
            *placement.entry(pod["spec"]["nodeName"].as_str().unwrap().to_owned()).or_insert(0) +=
                1;
        }
    }
    placement
}

async fn names_of_nodes(admin: &Client) -> Vec<String> {
    let nodes = list::<Node>(admin, "").await;
    nodes.iter().map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

async fn change_node(admin: &Client, name: &str, body: Value) {
    let body = body.to_string().into();
    admin.api::<Node>().patch("", name, PatchKind::Merge, body).await.unwrap();
}

#[test]
fn every_node_has_one_daemon_and_follows_labels_and_taints() {
    run(async {
        let cluster = Cluster::start(Options { seed: 1, nodes: 4 }).await.unwrap();
        let admin = &cluster.admin;
        create::<DaemonSet>(admin, spec("agent", &json!({}))).await;
        until::<DaemonSet>(&cluster, "agent", &on_nodes(4)).await;
        assert!(placement(admin).await.values().all(|it| *it == 1));
        let nodes = names_of_nodes(admin).await;
        assert_eq!(placement(admin).await.len(), nodes.len());

        let taint =
            |effect: &str| json!({ "spec": { "taints": [{ "key": "mine", "effect": effect }] } });
        change_node(admin, &nodes[0], taint("NoSchedule")).await;
        until::<DaemonSet>(
            &cluster,
            "agent",
            &json!({ "desiredNumberScheduled": 3, "numberMisscheduled": 1 }),
        )
        .await;
        change_node(admin, &nodes[0], taint("NoExecute")).await;
        until::<DaemonSet>(&cluster, "agent", &on_nodes(3)).await;
        change_node(admin, &nodes[0], json!({ "spec": { "taints": null } })).await;
        until::<DaemonSet>(&cluster, "agent", &on_nodes(4)).await;

        let selector =
            json!({ "spec": { "template": { "spec": { "nodeSelector": { "disk": "ssd" } } } } });
        patch::<DaemonSet>(admin, "agent", selector).await;
        until::<DaemonSet>(&cluster, "agent", &on_nodes(0)).await;
        assert!(cluster.until(LIMIT, async |admin| placement(admin).await.is_empty()).await);
        change_node(admin, &nodes[2], json!({ "metadata": { "labels": { "disk": "ssd" } } })).await;
        until::<DaemonSet>(&cluster, "agent", &on_nodes(1)).await;
        assert_eq!(placement(admin).await, BTreeMap::from([(nodes[2].clone(), 1)]));
        assert_eq!(testkit::violations(admin).await.unwrap(), [""; 0]);
        cluster.stop().await.unwrap();
    });
}

#[test]
fn daemons_are_updated_within_their_bounds_and_rolled_back() {
    run(async {
        let cluster = Cluster::start(Options { seed: 1, nodes: 4 }).await.unwrap();
        let admin = &cluster.admin;
        create::<DaemonSet>(admin, spec("agent", &json!({}))).await;
        until::<DaemonSet>(&cluster, "agent", &on_nodes(4)).await;
        let first = get::<DaemonSet>(admin, "agent").await;
        assert_eq!(first["metadata"]["generation"], 1);
        set_image::<DaemonSet>(admin, "agent", 2).await;
        until::<DaemonSet>(&cluster, "agent", &on_nodes(4)).await;
        assert!(images(admin).await.iter().all(|it| it.ends_with(":2")));
        assert_eq!(revisions(admin).await, [1, 2]);

        let rolling = json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } });
        patch::<DaemonSet>(admin, "agent", json!({ "spec": { "updateStrategy": rolling } })).await;
        set_image::<DaemonSet>(admin, "agent", 1).await;
        until::<DaemonSet>(&cluster, "agent", &on_nodes(4)).await;
        assert!(cluster.until(LIMIT, async |admin| images(admin).await.len() == 4).await);
        assert!(images(admin).await.iter().all(|it| it.ends_with(":1")));
        assert_eq!(revisions(admin).await, [2, 3]);

        patch::<DaemonSet>(
            admin,
            "agent",
            json!({ "spec": { "updateStrategy": { "type": "OnDelete", "rollingUpdate": null } } }),
        )
        .await;
        set_image::<DaemonSet>(admin, "agent", 3).await;
        until::<DaemonSet>(
            &cluster,
            "agent",
            &json!({ "updatedNumberScheduled": null, "numberReady": 4 }),
        )
        .await;
        let name = images(admin).await[0].split(':').next().unwrap().to_owned();
        admin.api::<Pod>().delete("default", &name, DeleteOptions::default()).await.unwrap();
        until::<DaemonSet>(
            &cluster,
            "agent",
            &json!({ "updatedNumberScheduled": 1, "numberReady": 4 }),
        )
        .await;
        cluster.stop().await.unwrap();
    });
}

#[test]
fn daemons_that_fail_come_again_later_and_later() {
    run(async {
        let cluster = Cluster::start(Options { seed: 1, nodes: 2 }).await.unwrap();
        let admin = &cluster.admin;
        create::<DaemonSet>(admin, spec("agent", &json!({}))).await;
        until::<DaemonSet>(&cluster, "agent", &on_nodes(2)).await;
        let name = images(admin).await[0].split(':').next().unwrap().to_owned();
        fail(admin, &name).await;
        let is_gone = cluster
            .until(LIMIT, async |admin| admin.api::<Pod>().get("default", &name).await.is_err());
        assert!(is_gone.await);
        until::<DaemonSet>(&cluster, "agent", &on_nodes(2)).await;
        let said = events(admin, "DaemonSet").await;
        let is_said = |it: &String| {
            it.starts_with(&format!(
                "FailedDaemonPod Found failed daemon pod default/{name} on node "
            ))
        };
        assert!(said.iter().any(is_said), "{said:?}");
        cluster.stop().await.unwrap();
    });
}

#[test]
fn sets_come_to_rest_after_faults_and_node_deaths() {
    for seed in 0..3 {
        run(async {
            let cluster = Cluster::start(Options { seed, nodes: 5 }).await.unwrap();
            let admin = &cluster.admin;
            cluster.faults.set_rate(100);
            for (name, policy) in [("db", "OrderedReady"), ("web", "Parallel")] {
                let rest =
                    json!({ "replicas": 4, "serviceName": name, "podManagementPolicy": policy });
                create::<StatefulSet>(admin, spec(name, &rest)).await;
            }
            create::<DaemonSet>(admin, spec("agent", &json!({}))).await;
            let nodes = names_of_nodes(admin).await;
            for tag in 2..5 {
                tokio::time::sleep(Duration::from_secs(60)).await;
                for name in ["db", "web"] {
                    set_image::<StatefulSet>(admin, name, tag).await;
                }
                set_image::<DaemonSet>(admin, "agent", tag).await;
                let victim = &nodes[usize::from(tag) % nodes.len()];
                cluster.fleet.kill(victim);
                tokio::time::sleep(Duration::from_secs(30)).await;
                cluster.fleet.revive(victim);
            }
            cluster.faults.set_rate(0);
            for name in ["db", "web"] {
                until::<StatefulSet>(&cluster, name, &complete(4)).await;
            }
            until::<DaemonSet>(&cluster, "agent", &on_nodes(5)).await;
            assert_eq!(images(admin).await.len(), 13);
            assert_eq!(testkit::violations(admin).await.unwrap(), [""; 0]);
            // And nobody writes any more but those who say that they live.
            tokio::time::sleep(Duration::from_secs(60)).await;
            let before = cluster.history().await.unwrap();
            tokio::time::sleep(Duration::from_secs(600)).await;
            let writes = cluster.history().await.unwrap().writes_since(&before);
            let noise: Vec<_> =
                writes.keys().filter(|it| it.contains("sets/") || it.contains("pods/")).collect();
            assert!(noise.is_empty(), "{noise:?}");
            cluster.stop().await.unwrap();
        });
    }
}

/// How many pods of the set were on their way out at the same time.
async fn most_leaving(cluster: &Cluster) -> usize {
    let history = cluster.history().await.unwrap();
    let (mut leaving, mut most) = (BTreeSet::new(), 0);
    for (key, value) in history.changes("/registry/pods/default/web-") {
        let pod: Option<Value> = value.map(|it| serde_json::from_slice(it).unwrap());
        if pod.is_some_and(|it| !it["metadata"]["deletionTimestamp"].is_null()) {
            leaving.insert(key.into_owned());
        } else {
            leaving.remove(&*key);
        }
        most = most.max(leaving.len());
    }
    most
}

#[test]
fn how_many_pods_may_be_away_is_said_where_the_gate_is_on() {
    for is_on in [false, true] {
        run(async {
            let options = Options { seed: 5, nodes: 1 };
            let gates = if is_on { "MaxUnavailableStatefulSet=true" } else { "" };
            let cluster = Cluster::start_with_gates(options, gates, "").await.unwrap();
            let admin = &cluster.admin;
            let strategy = json!({ "rollingUpdate": { "maxUnavailable": 2 } });
            let rest = json!({
                "replicas": 4, "podManagementPolicy": "Parallel", "serviceName": "web",
                "updateStrategy": strategy,
            });
            create::<StatefulSet>(admin, spec("web", &rest)).await;
            let all_have = async |admin: &Client, tag: u8| {
                let set = get::<StatefulSet>(admin, "web").await;
                let wanted: Vec<String> = (0..4).map(|it| format!("web-{it}:{tag}")).collect();
                images(admin).await == wanted && set["status"]["readyReplicas"] == 4
            };
            assert!(cluster.until(LIMIT, async |admin| all_have(admin, 1).await).await);
            let kept = &get::<StatefulSet>(admin, "web").await["spec"]["updateStrategy"];
            let expected = if is_on { json!(2) } else { Value::Null };
            assert_eq!(kept["rollingUpdate"]["maxUnavailable"], expected);
            // What is dropped is no change.
            patch::<StatefulSet>(admin, "web", json!({"spec": {"updateStrategy": strategy}})).await;
            assert_eq!(get::<StatefulSet>(admin, "web").await["metadata"]["generation"], 1);

            set_image::<StatefulSet>(admin, "web", 2).await;
            assert!(cluster.until(LIMIT, async |admin| all_have(admin, 2).await).await);
            assert_eq!(most_leaving(&cluster).await, if is_on { 2 } else { 1 });
            cluster.stop().await.unwrap();
        });
    }
}
