//! Quotas in a whole cluster under paused time: they are counted, they hold, what is freed is given
//! out again, and aggregated roles follow theirs.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;
use std::time::Duration;

use client::{Client, DeleteOptions, ListOptions, PatchKind};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ResourceQuota, Secret, Service};
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
    bounded_from(3, hard).await
}

async fn bounded_from(seed: u64, hard: &Value) -> Cluster {
    let cluster = Cluster::start(Options { seed, nodes: 3 }).await.unwrap();
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

/// What may be there in a storm.
const HARD: [(&str, u64); 6] = [
    ("count/configmaps", 7),
    ("pods", 4),
    ("requests.cpu", 2),
    ("secrets", 3),
    ("services", 6),
    ("services.nodeports", 2),
];
const WRITERS: u64 = 8;
const WRITES: u64 = 60;

/// What objects take, by the words of a quota. CPU in halves.
fn taken<'a>(objects: impl IntoIterator<Item = (&'a str, Value)>) -> BTreeMap<&'static str, u64> {
    let mut all: BTreeMap<&'static str, u64> = HARD.iter().map(|it| (it.0, 0)).collect();
    let mut take = |what: &'static str, n: u64| *all.entry(what).or_default() += n;
    for (resource, object) in objects {
        match resource {
            "configmaps" => take("count/configmaps", 1),
            "secrets" => take("secrets", 1),
            "services" => {
                take("services", 1);
                take("services.nodeports", u64::from(object["spec"]["type"] == "NodePort"));
            }
            // What is on its way out may count until it is gone, or not.
            "pods" if object["metadata"]["deletionTimestamp"].is_null() => {
                let is_over = ["Succeeded", "Failed"]
                    .contains(&object["status"]["phase"].as_str().unwrap_or_default());
                take("pods", u64::from(!is_over));
                take("requests.cpu", u64::from(!is_over));
            }
            _ => {}
        }
    }
    all
}

fn bound_of(what: &str) -> u64 {
    let (_, n) = HARD.iter().find(|it| it.0 == what).unwrap();
    if what == "requests.cpu" { n * 2 } else { *n }
}

/// Whenever anything was stored: never more than there may be.
async fn check_never_over(cluster: &Cluster, seed: u64) {
    let mut there: BTreeMap<String, Value> = BTreeMap::new();
    let mut most: BTreeMap<&str, u64> = BTreeMap::new();
    let history = cluster.history().await.unwrap();
    for (key, value) in history.changes("/default/") {
        match value {
            Some(value) => {
                there.insert(key.to_string(), serde_json::from_slice(value).unwrap_or_default())
            }
            None => there.remove(key.as_ref()),
        };
        // As etcd has them: below `services` there are `specs` and `endpoints`.
        let resource = |key: &str| match key.split('/').nth(2) {
            Some("services") if !key.contains("/specs/") => String::new(),
            found => found.unwrap_or_default().to_owned(),
        };
        let objects: Vec<_> = there.iter().map(|(key, it)| (resource(key), it.clone())).collect();
        let all = taken(objects.iter().map(|(resource, it)| (resource.as_str(), it.clone())));
        for (what, n) in &all {
            assert!(*n <= bound_of(what), "seed {seed}: {what} is {n} after {key}");
            most.entry(*what).and_modify(|it| *it = (*n).max(*it)).or_insert(*n);
        }
    }
    // All that there may be was there at some time.
    assert!(most.iter().all(|(what, n)| *n == bound_of(what)), "seed {seed}: {most:?}");
}

/// What a writer wants: few names, so that they get into each other's way.
async fn write(client: &Client, random: &stdx::Random) -> Result<(), apimachinery::ApiError> {
    let name = |of: &str, n: u64| format!("{of}-{}", random.below(n));
    let metadata = |name: &str| json!({"name": name, "namespace": "default"});
    let options = DeleteOptions::default;
    match random.below(12) {
        0..=2 => {
            let map = json!({"metadata": metadata(&name("map", 12))});
            client.api::<ConfigMap>().create(serde_json::from_value(map).unwrap()).await?;
        }
        3 => client
            .api::<ConfigMap>()
            .delete("default", &name("map", 12), options())
            .await
            .map(drop)?,
        4 => {
            let secret = json!({"metadata": metadata(&name("secret", 6))});
            client.api::<Secret>().create(serde_json::from_value(secret).unwrap()).await?;
        }
        5 => client
            .api::<Secret>()
            .delete("default", &name("secret", 6), options())
            .await
            .map(drop)?,
        6 | 7 => {
            let kind = if random.below(2) == 0 { "NodePort" } else { "ClusterIP" };
            let service = json!({
                "metadata": metadata(&name("service", 9)),
                "spec": {"type": kind, "ports": [{"port": 80}]},
            });
            client.api::<Service>().create(serde_json::from_value(service).unwrap()).await?;
        }
        8 => {
            // What changes takes more, or less.
            let kind = if random.below(2) == 0 { "NodePort" } else { "ClusterIP" };
            let patch = json!({"spec": {"type": kind}}).to_string().into();
            client
                .api::<Service>()
                .patch("default", &name("service", 9), PatchKind::Merge, patch)
                .await?;
        }
        9 => client
            .api::<Service>()
            .delete("default", &name("service", 9), options())
            .await
            .map(drop)?,
        10 => {
            let rest =
                if random.below(2) == 0 { json!({"restartPolicy": "Never"}) } else { json!({}) };
            client.api::<Pod>().create(pod(&name("pod", 8), &rest)).await?;
        }
        _ => client.api::<Pod>().delete("default", &name("pod", 8), options()).await.map(drop)?,
    }
    Ok(())
}

/// How many writes were refused by the quota.
async fn write_all(cluster: &Cluster, writer: u64, seed: u64) -> usize {
    let client = cluster.faults.wrap(&cluster.admin);
    let random = stdx::Random::from_seed(seed * 1_000 + writer);
    let mut n_refused = 0;
    for _ in 0..WRITES {
        if let Err(err) = write(&client, &random).await {
            n_refused += usize::from(err.to_string().contains("exceeded quota"));
        }
        tokio::time::sleep(Duration::from_millis(random.below(1_500))).await;
    }
    n_refused
}

/// What is there, and what the quota says is.
async fn counted(admin: &Client) -> (BTreeMap<&'static str, u64>, Value) {
    let mut objects = Vec::new();
    macro_rules! add {
        ($kind:ty, $resource:literal) => {
            let list = admin.api::<$kind>().list("default", ListOptions::default()).await.unwrap();
            let values = list.items.iter().map(|it| serde_json::from_slice(&it.bytes).unwrap());
            objects.extend(values.map(|it| ($resource, it)));
        };
    }
    add!(ConfigMap, "configmaps");
    add!(Secret, "secrets");
    add!(Service, "services");
    add!(Pod, "pods");
    (taken(objects), status(admin).await["used"].clone())
}

fn used_of(all: &BTreeMap<&'static str, u64>) -> Value {
    let cpu = |halves: u64| {
        if halves.is_multiple_of(2) {
            (halves / 2).to_string()
        } else {
            format!("{}m", halves * 500)
        }
    };
    let text = |(what, n): (&&'static str, &u64)| {
        (*what, if *what == "requests.cpu" { cpu(*n) } else { n.to_string() })
    };
    json!(all.iter().map(text).collect::<BTreeMap<_, _>>())
}

async fn quota_storm(seed: u64) -> usize {
    let hard: BTreeMap<&str, String> =
        HARD.iter().map(|(what, n)| (*what, n.to_string())).collect();
    let mut cluster = bounded_from(seed, &json!(hard)).await;
    cluster.faults.set_rate(60);
    let mut n_refused = 0;
    for half in 0..2 {
        let writers = (0..WRITERS).map(|it| write_all(&cluster, half * WRITERS + it, seed));
        n_refused += futures_util::future::join_all(writers).await.into_iter().sum::<usize>();
        // Whoever counts now knows nothing but what is stored.
        cluster.change_leader().await.unwrap();
    }
    cluster.faults.set_rate(0);
    check_never_over(&cluster, seed).await;
    let is_counted = async |admin: &Client| {
        let (all, used) = counted(admin).await;
        used_of(&all) == used
    };
    // Those that end soon have ended by then, and everything is counted every five minutes.
    let found = cluster.until(20 * MINUTE, is_counted).await;
    let (all, used) = counted(&cluster.admin).await;
    assert!(found, "seed {seed}: {used}, but there is {all:?}");
    // What is left can be taken, and no more.
    let left = bound_of("count/configmaps") - all["count/configmaps"];
    for index in 0..=left {
        let map = json!({"metadata": {"name": format!("rest-{index}"), "namespace": "default"}});
        let made =
            cluster.admin.api::<ConfigMap>().create(serde_json::from_value(map).unwrap()).await;
        assert_eq!(made.is_ok(), index < left, "seed {seed}: {index} of {left}: {made:?}");
    }
    cluster.stop().await.unwrap();
    n_refused
}

/// A few seeds by default; `SEEDS=100..200 cargo test -p testkit --test quotas storm` hunts through
/// many.
#[test]
fn a_storm_of_writers_never_takes_more_and_what_is_counted_is_what_is_there() {
    let seeds = std::env::var("SEEDS").unwrap_or_else(|_| "1..6".to_owned());
    let (first, end) = seeds.split_once("..").expect("a range of numbers");
    for seed in first.parse::<u64>().unwrap()..end.parse().unwrap() {
        let n_refused = run(quota_storm(seed));
        assert!(n_refused > 50, "seed {seed}: the bounds are felt: {n_refused}");
    }
}
