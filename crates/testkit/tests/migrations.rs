//! Objects brought to the version that is stored now, in a whole cluster under paused time.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;
use std::time::Duration;

use api::Dynamic;
use api::apiserverinternal::StorageVersion;
use api::storagemigration::StorageVersionMigration;
use apimachinery::GroupVersionResource;
use client::{Client, DeleteOptions, PatchKind};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use testkit::{Cluster, Options};

const MINUTE: Duration = Duration::from_secs(60);
/// More than a page.
const N_FRUITS: usize = 620;

fn run<T>(simulation: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(simulation)
}

async fn start() -> Cluster {
    let (gates, served) = ("StorageVersionMigrator=true", "storagemigration.k8s.io/v1beta1=true");
    Cluster::start_with_gates(Options { seed: 3, nodes: 0 }, gates, served).await.unwrap()
}

fn definition() -> CustomResourceDefinition {
    let version = |name: &str| {
        json!({
            "name": name, "served": true, "storage": name == "v1",
            "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }},
        })
    };
    serde_json::from_value(json!({
        "metadata": {"name": "fruits.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "fruits", "kind": "Fruit"},
            "versions": [version("v1"), version("v2")],
        },
    }))
    .unwrap()
}

async fn plant(admin: &Client) {
    admin.api::<CustomResourceDefinition>().create(definition()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let fruits = admin.dynamic(GroupVersionResource::new("example.com", "v1", "fruits"));
    for number in 0..N_FRUITS {
        let fruit = json!({
            "apiVersion": "example.com/v1", "kind": "Fruit",
            "metadata": {"name": format!("fruit-{number}"), "namespace": "default"},
        });
        fruits.create(Dynamic::from_value(fruit).unwrap()).await.unwrap();
    }
}

/// From now on objects are stored as v2.
async fn change_storage(admin: &Client) {
    let flag = |index: usize, value: bool| json!({"op": "replace", "path": format!("/spec/versions/{index}/storage"), "value": value});
    let patch = json!([flag(0, false), flag(1, true)]).to_string().into();
    let api = admin.api::<CustomResourceDefinition>();
    api.patch("", "fruits.example.com", PatchKind::Json, patch).await.unwrap();
}

async fn ask(admin: &Client, name: &str, resource: Value) {
    let wanted = json!({"metadata": {"name": name}, "spec": {"resource": resource}});
    let wanted: StorageVersionMigration = serde_json::from_value(wanted).unwrap();
    admin.api().create(wanted).await.unwrap();
}

/// Status and message of a condition.
async fn condition(admin: &Client, name: &str, kind: &str) -> (String, String) {
    let migration = admin.api::<StorageVersionMigration>().get("", name).await.unwrap();
    let status = migration.status.clone().unwrap_or_default();
    let mut all = status.conditions.unwrap_or_default().into_iter();
    let found = all.find(|it| it.type_ == kind);
    found.map(|it| (it.status, it.message)).unwrap_or_default()
}

/// The versions that fruits are stored in now, and how many are in each.
async fn stored(cluster: &Cluster) -> BTreeMap<String, usize> {
    let history = cluster.history().await.unwrap();
    let mut latest = BTreeMap::new();
    for (key, value) in history.changes("/registry/example.com/fruits/") {
        latest.insert(key.into_owned(), value.map(<[u8]>::to_vec));
    }
    let mut versions = BTreeMap::new();
    for value in latest.into_values().flatten() {
        let object: Value = serde_json::from_slice(&value).unwrap();
        *versions.entry(object["apiVersion"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    versions
}

async fn stored_versions(admin: &Client) -> Vec<String> {
    let api = admin.api::<CustomResourceDefinition>();
    let definition = api.get("", "fruits.example.com").await.unwrap();
    definition.status.clone().unwrap().stored_versions.unwrap()
}

fn fruits() -> Value {
    json!({"group": "example.com", "resource": "fruits"})
}

#[test]
fn custom_resources_are_stored_in_the_new_version_and_the_old_one_is_forgotten() {
    run(async {
        let mut cluster = start().await;
        let admin = cluster.admin.clone();
        plant(&admin).await;
        change_storage(&admin).await;
        let all = |version: &str| BTreeMap::from([(version.to_owned(), N_FRUITS)]);
        assert_eq!(stored(&cluster).await, all("example.com/v1"));
        assert_eq!(stored_versions(&admin).await, ["v1", "v2"]);

        ask(&admin, "to-v2", fruits()).await;
        // Another leads while objects are written.
        while stored(&cluster).await == all("example.com/v1") {
            tokio::task::yield_now().await;
        }
        assert_ne!(stored(&cluster).await, all("example.com/v2"), "the change is not in between");
        cluster.change_leader().await.unwrap();

        let is_over =
            async |admin: &Client| condition(admin, "to-v2", "Running").await.0 == "False";
        assert!(cluster.until(MINUTE, is_over).await);
        let done = ("True".to_owned(), "Migration completed".to_owned());
        assert_eq!(condition(&admin, "to-v2", "Succeeded").await, done);
        assert_eq!(stored(&cluster).await, all("example.com/v2"));
        assert_eq!(stored_versions(&admin).await, ["v2"]);
        let writes = cluster.history().await.unwrap().values("/example.com/fruits/").count();
        assert_eq!(writes, 2 * N_FRUITS, "each was written again once");

        // There is nothing left to do, and the stored versions stay.
        ask(&admin, "again", fruits()).await;
        let is_over =
            async |admin: &Client| condition(admin, "again", "Running").await.0 == "False";
        assert!(cluster.until(MINUTE, is_over).await);
        assert_eq!(condition(&admin, "again", "Succeeded").await.0, "True");
        let again = cluster.history().await.unwrap().values("/example.com/fruits/").count();
        assert_eq!(again, writes);
        assert_eq!(stored_versions(&admin).await, ["v2"]);
        cluster.stop().await.unwrap();
    });
}

#[test]
fn what_cannot_be_migrated_fails_with_the_reason() {
    run(async {
        let cluster = start().await;
        ask(&cluster.admin, "nothing", json!({"group": "example.com", "resource": "ghosts"})).await;
        ask(&cluster.admin, "bindings", json!({"group": "", "resource": "bindings"})).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(condition(&cluster.admin, "nothing", "Failed").await.0, "");
        tokio::time::sleep(Duration::from_secs(40)).await;
        let (status, message) = condition(&cluster.admin, "nothing", "Failed").await;
        assert_eq!((&*status, &*message), ("True", "resource does not exist in discovery"));
        assert_eq!(condition(&cluster.admin, "nothing", "Running").await.0, "False");
        let (status, message) = condition(&cluster.admin, "bindings", "Failed").await;
        assert!(status == "True" && message.contains("does not support discovery operations"));
        cluster.stop().await.unwrap();
    });
}

#[test]
fn built_in_kinds_that_are_as_they_should_be_are_left_alone() {
    run(async {
        let cluster = start().await;
        // What others do to roles at first.
        tokio::time::sleep(MINUTE).await;
        let before = cluster.history().await.unwrap();
        ask(
            &cluster.admin,
            "roles",
            json!({
                "group": "rbac.authorization.k8s.io", "resource": "clusterroles",
            }),
        )
        .await;
        let is_over =
            async |admin: &Client| condition(admin, "roles", "Running").await.0 == "False";
        assert!(cluster.until(MINUTE, is_over).await);
        assert_eq!(condition(&cluster.admin, "roles", "Succeeded").await.0, "True");
        let writes = cluster.history().await.unwrap().writes_since(&before);
        assert!(writes.keys().all(|it| !it.contains("clusterroles")), "{writes:?}");
        cluster.stop().await.unwrap();
    });
}

/// Who is said to store Deployments.
async fn servers(admin: &Client) -> Vec<String> {
    let version = admin.api::<StorageVersion>().get("", "apps.deployments").await;
    let status = version.ok().and_then(|it| it.status.clone()).unwrap_or_default();
    let servers = status.storage_versions.unwrap_or_default();
    servers.into_iter().map(|it| it.api_server_id).collect()
}

#[test]
fn servers_that_are_gone_are_taken_out_of_storage_versions() {
    run(async {
        let options = Options { seed: 3, nodes: 0 };
        let (gate, served) = ("StorageVersionAPI=true", "internal.apiserver.k8s.io/v1alpha1=true");
        let cluster = Cluster::start_with_gates(options, gate, served).await.unwrap();
        let admin = &cluster.admin;
        for name in ["a", "b"] {
            let labels = json!({"apiserver.kubernetes.io/identity": "kube-apiserver"});
            let meta = json!({"name": name, "namespace": "kube-system", "labels": labels});
            let lease: Lease = serde_json::from_value(json!({"metadata": meta})).unwrap();
            admin.api().create(lease).await.unwrap();
        }
        let version = json!({"metadata": {"name": "apps.deployments"}, "spec": {}});
        let version: StorageVersion = serde_json::from_value(version).unwrap();
        let created = admin.api().create(version).await.unwrap().object().unwrap();
        let server = |id: &str| {
            json!({
                "apiServerID": id, "encodingVersion": "apps/v1", "decodableVersions": ["apps/v1"],
            })
        };
        let status = json!({
            "commonEncodingVersion": "apps/v1",
            "storageVersions": [server("a"), server("b"), server("never")],
        });
        let mut version = StorageVersion::clone(&created);
        version.status = Some(serde_json::from_value(status).unwrap());
        admin.api().update_status(version).await.unwrap();
        let are = async |expected: &[&str]| {
            cluster.until(MINUTE, async |admin| servers(admin).await == expected).await
        };
        assert!(are(&["a", "b"]).await);
        let leases = admin.api::<Lease>();
        leases.delete("kube-system", "a", DeleteOptions::default()).await.unwrap();
        assert!(are(&["b"]).await);
        leases.delete("kube-system", "b", DeleteOptions::default()).await.unwrap();
        let is_gone = async |admin: &Client| {
            admin.api::<StorageVersion>().get("", "apps.deployments").await.is_err()
        };
        assert!(cluster.until(MINUTE, is_gone).await);
        cluster.stop().await.unwrap();
    });
}
