//! What API servers say of themselves: a Lease each, and what they store; and the namespaces that
//! they keep.

use std::sync::Arc;
use std::time::Duration;

use api::apiserverinternal::StorageVersion;
use api::coordination::lease::Lease;
use api::core::Namespace;
use apiserver::{Compaction, Config};
use client::DeleteOptions;
use features::{Gates, RuntimeConfig};
use kvstore::memory::Memory;
use serde_json::{Value, json};
use stdx::World;

use crate::harness::{self, Harness};

const NAMESPACE: &str = "kube-system";
/// Of the machines `one` and `two`, as upstream's servers on them are called.
const ONE: &str = "apiserver-lonn3mgjh4otei2c3b7rmvvvfq";
const TWO: &str = "apiserver-v43ve5boifz4om6rvlnrvkmb4i";

async fn start(memory: &Arc<Memory>, host: &str, seed: u64) -> Harness {
    let config = Config {
        compaction: Compaction::ByServer,
        host_name: host.to_owned(),
        ..harness::everything()
    };
    start_as(memory, config, seed).await
}

async fn start_as(memory: &Arc<Memory>, config: Config, seed: u64) -> Harness {
    let world = World::simulated(seed);
    harness::try_start_over(world, memory.clone(), config).await.expect("the server starts")
}

async fn seconds(n_seconds: u64) {
    tokio::time::sleep(Duration::from_secs(n_seconds)).await;
}

async fn lease(server: &Harness, name: &str) -> Option<Lease> {
    let found = server.client.api::<Lease>().get(NAMESPACE, name).await;
    found.ok().map(|it| Lease::clone(&it))
}

fn renewed(lease: &Lease) -> jiff::Timestamp {
    let time = lease.spec.as_ref().and_then(|it| it.renew_time.clone());
    time.expect("it says when").0
}

#[tokio::test(start_paused = true)]
async fn a_server_has_a_lease_for_as_long_as_it_lives() {
    let memory = Arc::new(Memory::new());
    let server = start(&memory, "one", 1).await;
    seconds(1).await;
    let first = lease(&server, ONE).await.expect("it is there");
    let labels = first.metadata.labels.clone().expect("labels");
    assert_eq!(labels["apiserver.kubernetes.io/identity"], "kube-apiserver");
    assert_eq!(labels["kubernetes.io/hostname"], "one");
    let spec = first.spec.clone().expect("a spec");
    let holder = spec.holder_identity.expect("a holder");
    assert!(holder.starts_with(&format!("{ONE}_")), "{holder}");
    assert_eq!(spec.lease_duration_seconds, Some(3600));
    seconds(11).await;
    let second = lease(&server, ONE).await.expect("it stays");
    let passed = renewed(&second).duration_since(renewed(&first)).as_secs();
    assert!((10..=11).contains(&passed), "{passed}");
    assert_eq!(first.metadata.uid, second.metadata.uid);
    // Somebody deletes it: it comes back.
    let deleted = server.client.api::<Lease>();
    deleted.delete(NAMESPACE, ONE, DeleteOptions::default()).await.expect("deleted");
    seconds(11).await;
    assert!(lease(&server, ONE).await.is_some());

    let other = start(&memory, "two", 2).await;
    seconds(1).await;
    assert!(lease(&other, TWO).await.is_some() && lease(&other, ONE).await.is_some());
    server.tasks.shutdown(Duration::from_secs(5)).await.expect("stopped");
    assert!(lease(&other, ONE).await.is_none(), "it took it along");
    // A new process on the same machine is somebody else.
    let again = start(&memory, "one", 3).await;
    seconds(1).await;
    let third = lease(&again, ONE).await.expect("it is there");
    assert_ne!(third.spec.and_then(|it| it.holder_identity), Some(holder));
    for server in [other, again] {
        server.tasks.shutdown(Duration::from_secs(5)).await.expect("stopped");
    }
}

#[tokio::test(start_paused = true)]
async fn leases_of_servers_that_are_silent_are_cleared_away() {
    let memory = Arc::new(Memory::new());
    let server = start(&memory, "one", 1).await;
    seconds(1).await;
    let now = server.world.clock.now();
    let dead = |name: &str, label: &str| -> Lease {
        let metadata = json!({
            "name": name, "namespace": NAMESPACE,
            "labels": {"apiserver.kubernetes.io/identity": label},
        });
        let renewed = json!({
            "renewTime": format!("{now:.6}"), "leaseDurationSeconds": 10, "holderIdentity": "x",
        });
        serde_json::from_value(json!({"metadata": metadata, "spec": renewed})).expect("a lease")
    };
    let leases = server.client.api::<Lease>();
    leases.create(dead("apiserver-dead", "kube-apiserver")).await.expect("created");
    leases.create(dead("other", "something")).await.expect("created");
    seconds(3700).await;
    assert!(lease(&server, "apiserver-dead").await.is_none());
    assert!(lease(&server, "other").await.is_some(), "it is no server's");
    assert!(lease(&server, ONE).await.is_some());
    server.tasks.shutdown(Duration::from_secs(5)).await.expect("stopped");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_knows_no_name_says_nothing() {
    let memory = Arc::new(Memory::new());
    let server = start(&memory, "", 1).await;
    seconds(20).await;
    let all = server.client.api::<Lease>().list(NAMESPACE, client::ListOptions::default()).await;
    assert!(all.expect("listed").items.is_empty());
}

async fn said(server: &Harness, name: &str) -> Option<StorageVersion> {
    let found = server.client.api::<StorageVersion>().get("", name).await;
    found.ok().map(|it| StorageVersion::clone(&it))
}

#[tokio::test(start_paused = true)]
async fn what_servers_store_is_said_where_somebody_wants_to_know() {
    let memory = Arc::new(Memory::new());
    let gated = |host: &str| Config {
        compaction: Compaction::ByServer,
        host_name: host.to_owned(),
        gates: Gates::parse("StorageVersionAPI=true").expect("it can be switched on"),
        runtime_config: RuntimeConfig::parse("internal.apiserver.k8s.io/v1alpha1=true")
            .expect("it can be asked for"),
        ..Config::default()
    };
    let one = start_as(&memory, gated("one"), 1).await;
    let two = start_as(&memory, gated("two"), 2).await;
    seconds(11).await;
    let deployments = said(&one, "apps.deployments").await.expect("it is said");
    let status = serde_json::to_value(deployments.status).expect("a status");
    let server = |id: &str| {
        json!({
            "apiServerID": id, "encodingVersion": "apps/v1",
            "decodableVersions": ["apps/v1"], "servedVersions": ["apps/v1"],
        })
    };
    let servers = status["storageVersions"].as_array().expect("servers");
    assert!(servers.len() == 2 && [ONE, TWO].iter().all(|it| servers.contains(&server(it))));
    assert_eq!(status["commonEncodingVersion"], "apps/v1");
    let condition = &status["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"]),
        (&json!("AllEncodingVersionsEqual"), &json!("True"))
    );

    // Nothing is written while nothing changes but the Leases, twice in ten seconds.
    let before = said(&one, "core.pods").await;
    seconds(60).await;
    assert_eq!(said(&one, "core.pods").await, before);
    let versions = one.client.api::<StorageVersion>();
    versions.delete("", "core.pods", DeleteOptions::default()).await.expect("deleted");
    seconds(12).await;
    assert!(said(&one, "core.pods").await.is_some(), "it is said again");

    let memory = Arc::new(Memory::new());
    let config = Config { gates: Gates::default(), ..gated("one") };
    let silent = start_as(&memory, config, 3).await;
    seconds(11).await;
    assert!(said(&silent, "core.pods").await.is_none(), "the gate is off");
    for server in [one, two, silent] {
        server.tasks.shutdown(Duration::from_secs(5)).await.expect("stopped");
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_of_the_system_that_is_deleted_comes_back_at_once() {
    let server = harness::start(World::simulated(1)).await;
    let namespaces = server.client.api::<Namespace>();
    let name = "kube-node-lease";
    let first = namespaces.get("", name).await.expect("it is there");
    namespaces.delete("", name, DeleteOptions::default()).await.expect("deleted");
    let mut ending = Namespace::clone(&namespaces.get("", name).await.expect("it is ending"));
    ending.spec.get_or_insert_default().finalizers = Some(Vec::new());
    namespaces.update_subresource(ending, "finalize").await.expect("finalized");
    seconds(1).await;
    let second = namespaces.get("", name).await.expect("it is back");
    assert_ne!(first.metadata.uid, second.metadata.uid);
    let status = serde_json::to_value(&second.status).expect("a status");
    assert_eq!(status["phase"], "Active");
    let label =
        second.metadata.labels.as_ref().and_then(|it| it.get("kubernetes.io/metadata.name"));
    assert_eq!(label.map(String::as_str), Some(name));
    // Others do not.
    let other = json!({"metadata": {"name": "other"}, "spec": Value::Null});
    let other: Namespace = serde_json::from_value(other).expect("a namespace");
    namespaces.create(other).await.expect("created");
    namespaces.delete("", "other", DeleteOptions::default()).await.expect("deleted");
    let mut ending = Namespace::clone(&namespaces.get("", "other").await.expect("it is ending"));
    ending.spec.get_or_insert_default().finalizers = Some(Vec::new());
    namespaces.update_subresource(ending, "finalize").await.expect("finalized");
    seconds(120).await;
    assert!(namespaces.get("", "other").await.is_err());
}
