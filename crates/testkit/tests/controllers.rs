//! Single controllers in a whole cluster under paused time: budgets hold evictions back, and Secrets
//! get their tokens.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use apimachinery::ApiError;
use client::{Client, DeleteOptions, ListOptions, PatchKind};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, ServiceAccount};
use k8s_openapi::api::policy::v1::{Eviction, PodDisruptionBudget};
use serde_json::json;
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

/// A Deployment of three, of which none may go.
async fn guarded() -> Cluster {
    let cluster = Cluster::start(Options { seed: 7, nodes: 3 }).await.unwrap();
    let labels = json!({"app": "web"});
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "xebec.local/toolbox"}]},
            },
        },
    }))
    .unwrap();
    cluster.admin.api().create(deployment).await.unwrap();
    let budget: PodDisruptionBudget = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": "100%", "selector": {"matchLabels": labels}},
    }))
    .unwrap();
    cluster.admin.api().create(budget).await.unwrap();
    cluster
}

/// Two of the three may go: 34 %, rounded up.
async fn loosen(cluster: &Cluster) {
    let is_held = async |admin: &Client| allowed(admin).await == (Some(0), Some(3));
    assert!(cluster.until(MINUTE, is_held).await, "{:?}", allowed(&cluster.admin).await);
    let spec = json!({"spec": {"minAvailable": null, "maxUnavailable": "34%"}}).to_string();
    let budgets = cluster.admin.api::<PodDisruptionBudget>();
    budgets.patch("default", "web", PatchKind::Merge, spec.into()).await.unwrap();
    let is_well = async |admin: &Client| allowed(admin).await == (Some(2), Some(3));
    assert!(cluster.until(MINUTE, is_well).await, "{:?}", allowed(&cluster.admin).await);
}

async fn allowed(admin: &Client) -> (Option<i32>, Option<i32>) {
    let budget = admin.api::<PodDisruptionBudget>().get("default", "web").await.unwrap();
    let status = budget.status.clone().unwrap_or_default();
    (status.disruptions_allowed, status.current_healthy)
}

async fn pods(admin: &Client) -> Vec<Pod> {
    let list = admin.api::<Pod>().list("default", ListOptions::default()).await.unwrap();
    list.items.iter().map(|it| Pod::clone(&it.shared().unwrap())).collect()
}

fn is_healthy(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|it| it.conditions.iter().flatten());
    let is_ready = conditions.into_iter().any(|it| it.type_ == "Ready" && it.status == "True");
    is_ready && pod.metadata.deletion_timestamp.is_none()
}

async fn evict(admin: &Client, pod: &Pod) -> Result<(), ApiError> {
    let name = pod.metadata.name.clone().unwrap();
    let meta = json!({"name": name, "namespace": "default"});
    let eviction: Eviction = serde_json::from_value(json!({"metadata": meta})).unwrap();
    admin.api::<Pod>().create_subresource("default", &name, "eviction", eviction).await
}

#[test]
fn a_drain_goes_on_as_fast_as_replacements_come_and_never_breaks_the_budget() {
    run(async {
        let cluster = guarded().await;
        let is_held = async |admin: &Client| allowed(admin).await == (Some(0), Some(3));
        assert!(cluster.until(MINUTE, is_held).await, "{:?}", allowed(&cluster.admin).await);
        let all = pods(&cluster.admin).await;
        assert_eq!(evict(&cluster.admin, &all[0]).await.unwrap_err().code(), 429);
        loosen(&cluster).await;
        let first: Vec<String> = all.into_iter().filter_map(|it| it.metadata.uid).collect();
        let mut n_evicted = 0;
        for _ in 0..600 {
            let all = pods(&cluster.admin).await;
            let n_healthy = all.iter().filter(|it| is_healthy(it)).count();
            assert!(n_healthy >= 1, "the budget is broken");
            let is_old = |it: &&Pod| first.contains(it.metadata.uid.as_ref().unwrap());
            let old: Vec<&Pod> = all.iter().filter(is_old).filter(|it| is_healthy(it)).collect();
            if old.is_empty() {
                break;
            }
            for pod in old {
                match evict(&cluster.admin, pod).await {
                    Ok(()) => n_evicted += 1,
                    Err(err) => assert_eq!(err.code(), 429, "{err}"),
                }
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(n_evicted, 3);
        let is_well = async |admin: &Client| allowed(admin).await == (Some(2), Some(3));
        assert!(cluster.until(MINUTE, is_well).await, "{:?}", allowed(&cluster.admin).await);
        let budget = cluster.admin.api::<PodDisruptionBudget>().get("default", "web").await;
        let status = budget.unwrap().status.clone().unwrap();
        assert_eq!(status.disrupted_pods.unwrap_or_default().len(), 0);
        assert_eq!((status.expected_pods, status.desired_healthy), (Some(3), Some(1)));
        let condition = &status.conditions.unwrap()[0];
        assert_eq!(
            (&*condition.type_, &*condition.reason),
            ("DisruptionAllowed", "SufficientPods")
        );
        cluster.stop().await.unwrap();
    });
}

#[test]
fn an_eviction_that_deletes_nothing_is_forgotten_after_two_minutes() {
    run(async {
        let cluster = guarded().await;
        loosen(&cluster).await;
        let pod = pods(&cluster.admin).await.remove(0).metadata.name.unwrap();
        let now = cluster.world.clock.now();
        let status = json!({"status": {"disruptionsAllowed": 1, "disruptedPods": {&pod: now}}});
        let budgets = cluster.admin.api::<PodDisruptionBudget>();
        let body = status.to_string().into();
        budgets.patch_status("default", "web", PatchKind::Merge, body).await.unwrap();
        let mark = json!({"status": {"conditions": [{
            "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting", "lastTransitionTime": now,
        }]}});
        let api = cluster.admin.api::<Pod>();
        let body = mark.to_string().into();
        api.patch_status("default", &pod, PatchKind::Strategic, body).await.unwrap();

        tokio::time::sleep(MINUTE).await;
        assert_eq!(allowed(&cluster.admin).await, (Some(1), Some(2)));
        tokio::time::sleep(MINUTE + Duration::from_secs(5)).await;
        assert_eq!(allowed(&cluster.admin).await, (Some(2), Some(3)));
        let pod = api.get("default", &pod).await.unwrap();
        let mut conditions = pod.status.iter().flat_map(|it| it.conditions.iter().flatten());
        let target = conditions.find(|it| it.type_ == "DisruptionTarget").unwrap();
        assert_eq!((&*target.status, &target.reason, &target.message), ("False", &None, &None));
        cluster.stop().await.unwrap();
    });
}

#[test]
fn a_secret_gets_its_token_keeps_it_and_goes_with_its_account() {
    run(async {
        let cluster = Cluster::start(Options { seed: 7, nodes: 0 }).await.unwrap();
        let (secrets, accounts) =
            (cluster.admin.api::<Secret>(), cluster.admin.api::<ServiceAccount>());
        let meta = json!({"name": "robot", "namespace": "default"});
        let account = serde_json::from_value(json!({"metadata": meta})).unwrap();
        let account = accounts.create(account).await.unwrap().object().unwrap();
        let annotations = json!({"kubernetes.io/service-account.name": "robot"});
        let secret: Secret = serde_json::from_value(json!({
            "metadata": {"name": "token", "namespace": "default", "annotations": annotations},
            "type": "kubernetes.io/service-account-token",
        }))
        .unwrap();
        secrets.create(secret).await.unwrap();
        let is_full = async |admin: &Client| {
            let secret = admin.api::<Secret>().get("default", "token").await.unwrap();
            let data = secret.data.clone().unwrap_or_default();
            let keys: Vec<&str> = data.keys().map(String::as_str).collect();
            keys == ["ca.crt", "namespace", "token"]
        };
        assert!(cluster.until(MINUTE, is_full).await);
        let filled = secrets.get("default", "token").await.unwrap();
        let annotations = filled.metadata.annotations.clone().unwrap();
        let uid = annotations.get("kubernetes.io/service-account.uid");
        assert_eq!(uid, account.metadata.uid.as_ref());

        let stripped = json!({"data": {"token": null}}).to_string();
        secrets.patch("default", "token", PatchKind::Merge, stripped.into()).await.unwrap();
        assert!(cluster.until(MINUTE, is_full).await);

        accounts.delete("default", "robot", DeleteOptions::default()).await.unwrap();
        let is_gone = async |admin: &Client| {
            admin.api::<Secret>().get("default", "token").await.is_err_and(|it| it.is_not_found())
        };
        assert!(cluster.until(MINUTE, is_gone).await);

        let maps = cluster.admin.api::<ConfigMap>();
        let name = "kube-apiserver-legacy-service-account-token-tracking";
        let map = maps.get("kube-system", name).await.unwrap();
        assert!(map.data.as_ref().is_some_and(|it| it.contains_key("since")));
        cluster.stop().await.unwrap();
    });
}
