//! Quotas in a whole cluster under paused time: they are counted, they hold, what is freed is given
//! out again, and aggregated roles follow theirs.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use client::{Client, DeleteOptions, ListOptions, PatchKind};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Pod, ResourceQuota, Secret};
use k8s_openapi::api::rbac::v1::ClusterRole;
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

async fn bounded(hard: &Value) -> Cluster {
    let cluster = Cluster::start(Options { seed: 3, nodes: 3 }).await.unwrap();
    let metadata = json!({"name": "q", "namespace": "default"});
    let quota = json!({"metadata": metadata, "spec": {"hard": hard}});
    let quota: ResourceQuota = serde_json::from_value(quota).unwrap();
    cluster.admin.api().create(quota).await.unwrap();
    let is_seen = async |admin: &Client| status(admin).await["hard"] == *hard;
    assert!(cluster.until(MINUTE, is_seen).await);
    cluster
}

async fn status(admin: &Client) -> Value {
    json!(admin.api::<ResourceQuota>().get("default", "q").await.unwrap().status)
}

async fn until_used(cluster: &Cluster, expected: Value) {
    let is_right = async |admin: &Client| status(admin).await["used"] == expected;
    let found = cluster.until(MINUTE, is_right).await;
    assert!(found, "expected {expected}, saw {}", status(&cluster.admin).await);
}

fn pod(name: &str, rest: &Value) -> Pod {
    let mut spec = json!({"containers": [{
        "name": "main", "image": "xebec.local/toolbox", "resources": {"requests": {"cpu": "500m"}},
    }]});
    spec.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    let is_brief = rest["restartPolicy"] == "Never";
    let told = json!({"simulator.xebec.local/containers": "after=20"});
    let annotations = if is_brief { told } else { Value::Null };
    let metadata = json!({"name": name, "namespace": "default", "annotations": annotations});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

#[test]
fn pods_are_counted_until_they_end_or_go() {
    run(async {
        let hard = json!({"count/pods": "3", "pods": "2", "requests.cpu": "1"});
        let cluster = bounded(&hard).await;
        let pods = cluster.admin.api::<Pod>();
        let never = json!({"restartPolicy": "Never"});
        pods.create(pod("brief", &never)).await.unwrap();
        pods.create(pod("long", &json!({}))).await.unwrap();
        let all = json!({"count/pods": "2", "pods": "2", "requests.cpu": "1"});
        assert_eq!(status(&cluster.admin).await["used"], all, "at once");
        let refusal = pods.create(pod("more", &json!({}))).await.unwrap_err();
        assert_eq!(refusal.code(), 403);
        let expected = "pods \"more\" is forbidden: exceeded quota: q, requested: pods=1,\
            requests.cpu=500m, used: pods=2,requests.cpu=1, limited: pods=2,requests.cpu=1";
        assert_eq!(refusal.to_string(), expected);
        // The one that ends counts as there, and takes nothing.
        until_used(&cluster, json!({"count/pods": "2", "pods": "1", "requests.cpu": "500m"})).await;
        pods.create(pod("more", &json!({}))).await.unwrap();
        pods.delete("default", "long", DeleteOptions::default()).await.unwrap();
        until_used(&cluster, json!({"count/pods": "2", "pods": "1", "requests.cpu": "500m"})).await;
        cluster.stop().await.unwrap();
    });
}

#[test]
fn a_replica_set_says_that_a_quota_stops_it_and_goes_on_when_it_may() {
    run(async {
        let cluster = bounded(&json!({"pods": "2"})).await;
        let labels = json!({"app": "web"});
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {
                "replicas": 4, "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "main", "image": "xebec.local/toolbox"}]},
                },
            },
        }))
        .unwrap();
        cluster.admin.api().create(deployment).await.unwrap();
        let failure = async |admin: &Client| {
            let sets = admin.api::<ReplicaSet>().list("default", ListOptions::default()).await;
            let set = sets.unwrap().items.first().map(|it| it.shared::<ReplicaSet>().unwrap());
            let conditions = set.and_then(|it| it.status.clone()?.conditions);
            conditions.into_iter().flatten().find(|it| it.type_ == "ReplicaFailure")
        };
        assert!(cluster.until(MINUTE, async |it| failure(it).await.is_some()).await);
        let said = failure(&cluster.admin).await.unwrap();
        assert_eq!(said.reason.as_deref(), Some("FailedCreate"));
        assert!(said.message.unwrap().contains("exceeded quota: q"));
        let patch = json!({"spec": {"hard": {"pods": "4"}}}).to_string().into();
        let quotas = cluster.admin.api::<ResourceQuota>();
        quotas.patch("default", "q", PatchKind::Merge, patch).await.unwrap();
        let hour = Duration::from_secs(3600);
        assert!(cluster.until(hour, async |it| failure(it).await.is_none()).await);
        until_used(&cluster, json!({"pods": "4"})).await;
        cluster.stop().await.unwrap();
    });
}

#[test]
fn any_resource_can_be_counted_also_a_custom_one() {
    run(async {
        let hard = json!({"count/widgets.example.com": "1", "secrets": "2"});
        let cluster = bounded(&hard).await;
        until_used(&cluster, json!({"secrets": "0"})).await;
        let secrets = cluster.admin.api::<Secret>();
        let secret = |name: &str| -> Secret {
            serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default"}}))
                .unwrap()
        };
        secrets.create(secret("a")).await.unwrap();
        secrets.create(secret("b")).await.unwrap();
        assert_eq!(secrets.create(secret("c")).await.unwrap_err().code(), 403);
        secrets.delete("default", "a", DeleteOptions::default()).await.unwrap();
        until_used(&cluster, json!({"secrets": "1"})).await;
        secrets.create(secret("c")).await.unwrap();
        let definition = serde_json::from_value(json!({
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object"}}}],
            },
        }));
        let definitions = cluster.admin.api::<api::apiextensions::CustomResourceDefinition>();
        definitions.create(definition.unwrap()).await.unwrap();
        until_used(&cluster, json!({"count/widgets.example.com": "0", "secrets": "2"})).await;
        let of = apimachinery::GroupVersionResource::new("example.com", "v1", "widgets");
        let widgets = cluster.admin.dynamic(of);
        let widget = |name: &str| {
            let value = json!({
                "apiVersion": "example.com/v1", "kind": "Widget",
                "metadata": {"name": name, "namespace": "default"},
            });
            api::Dynamic::decode(value.to_string().as_bytes()).unwrap()
        };
        widgets.create(widget("a")).await.unwrap();
        assert_eq!(widgets.create(widget("b")).await.unwrap_err().code(), 403);
        widgets.delete("default", "a", DeleteOptions::default()).await.unwrap();
        until_used(&cluster, json!({"count/widgets.example.com": "0", "secrets": "2"})).await;
        cluster.stop().await.unwrap();
    });
}

#[test]
fn a_quota_that_nothing_happens_to_is_not_written() {
    run(async {
        let cluster = bounded(&json!({"pods": "2", "services": "5"})).await;
        tokio::time::sleep(MINUTE).await;
        let before = cluster.history().await.unwrap();
        tokio::time::sleep(20 * MINUTE).await;
        let writes = cluster.history().await.unwrap().writes_since(&before);
        assert_eq!(writes.keys().collect::<Vec<_>>(), ["leases/kube-node-lease"]);
        // What somebody else has made of it is put right in time.
        let patch = json!({"status": {"used": {"pods": "1"}}}).to_string().into();
        let quotas = cluster.admin.api::<ResourceQuota>();
        quotas.patch_status("default", "q", PatchKind::Merge, patch).await.unwrap();
        tokio::time::sleep(5 * MINUTE).await;
        // The one Service that there always is.
        until_used(&cluster, json!({"pods": "0", "services": "1"})).await;
        cluster.stop().await.unwrap();
    });
}

#[test]
fn aggregated_roles_have_the_rules_of_those_that_they_select() {
    run(async {
        let cluster = Cluster::start(Options { seed: 1, nodes: 1 }).await.unwrap();
        let roles = cluster.admin.api::<ClusterRole>();
        let create = async |value: Value| {
            roles.create(serde_json::from_value(value).unwrap()).await.unwrap();
        };
        let selector = json!({"matchLabels": {"team": "a"}});
        create(json!({
            "metadata": {"name": "all"}, "aggregationRule": {"clusterRoleSelectors": [selector]},
        }))
        .await;
        let rule = |verb: &str| json!({"apiGroups": [""], "resources": ["pods"], "verbs": [verb]});
        for (name, verb) in [("b", "list"), ("a", "get"), ("c", "get")] {
            let metadata = json!({"name": name, "labels": {"team": "a"}});
            create(json!({"metadata": metadata, "rules": [rule(verb)]})).await;
        }
        let rules = async |admin: &Client| {
            json!(admin.api::<ClusterRole>().get("", "all").await.unwrap().rules)
        };
        let expected = json!([rule("get"), rule("list")]);
        assert!(cluster.until(MINUTE, async |it| rules(it).await == expected).await);
        let role = roles.get("", "all").await.unwrap();
        let managers = role.metadata.managed_fields.iter().flatten();
        let applied = managers.filter(|it| it.operation.as_deref() == Some("Apply"));
        let names: Vec<_> = applied.filter_map(|it| it.manager.clone()).collect();
        // An informer's form has no such records; the server's has.
        assert!(names.is_empty() || names == ["clusterrole-aggregation-controller"], "{names:?}");
        roles.delete("", "b", DeleteOptions::default()).await.unwrap();
        let expected = json!([rule("get")]);
        assert!(cluster.until(MINUTE, async |it| rules(it).await == expected).await);
        cluster.stop().await.unwrap();
    });
}
