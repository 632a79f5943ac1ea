//! The server over a store that it does not have to itself: other servers, broken connections, full
//! disks; and what each kind asks of the store.

use std::sync::Arc;
use std::time::Duration;

use api::Resource as _;
use api::core::{ConfigMap, Service};
use api::rbac::ClusterRole;
use apiserver::{Compaction, Config};
use client::{Client, ListOptions, WatchEventKind, WatchStream};
use futures_util::StreamExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kvstore::memory::Memory;
use kvstore::{Durability, Error, Op, Store as _, Txn};
use serde_json::{Value, json};
use stdx::World;

use crate::harness::remote::Remote;
use crate::harness::wire::{ADMIN, Site};
use crate::harness::{self, Harness};

fn config_map(name: &str) -> ConfigMap {
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some("default".to_owned()),
        ..ObjectMeta::default()
    };
    ConfigMap { metadata, ..ConfigMap::default() }
}

async fn create(client: &Client, name: &str) -> Arc<ConfigMap> {
    let created = client.api::<ConfigMap>().create(config_map(name)).await.expect("created");
    created.object().expect("decoded")
}

fn version(object: &ConfigMap) -> u64 {
    let version = object.metadata.resource_version.as_deref().expect("a version");
    version.parse().expect("a number")
}

async fn names(client: &Client) -> Vec<String> {
    let list = client.api::<ConfigMap>().list("default", ListOptions::default()).await;
    list.expect("a list").items.iter().map(|it| it.meta.key.name.clone()).collect()
}

/// Few addresses, so that two servers would soon give the same one.
fn shared() -> Config {
    let service_cidrs = vec!["10.96.0.0/25".parse().expect("a range")];
    Config { compaction: Compaction::ByServer, service_cidrs, ..Config::default() }
}

async fn over(memory: &Arc<Memory>, seed: u64) -> (Arc<Remote>, Harness) {
    let remote = Remote::new(memory.clone());
    let world = World::simulated(seed);
    let harness = harness::try_start_over(world, remote.clone(), shared()).await;
    (remote, harness.expect("the server starts"))
}

#[tokio::test(start_paused = true)]
async fn what_is_written_through_one_server_is_read_at_once_through_another() {
    let memory = Arc::new(Memory::new());
    let (_, one) = over(&memory, 1).await;
    let (_, other) = over(&memory, 2).await;
    let (one, other) = (&one.client, &other.client);
    for index in 0..50 {
        let name = format!("c{index:02}");
        let created = create(one, &name).await;
        let found = other.api::<ConfigMap>().get("default", &name).await.expect("seen");
        assert_eq!(version(&found), version(&created));
        let changed =
            ConfigMap { data: Some([("a".into(), "b".into())].into()), ..(*found).clone() };
        let changed = other.api::<ConfigMap>().update(changed).await.expect("updated");
        let changed = changed.object().expect("decoded");
        let found = one.api::<ConfigMap>().get("default", &name).await.expect("seen");
        assert_eq!((version(&found), &found.data), (version(&changed), &changed.data));
        let stale = one.api::<ConfigMap>().update((*created).clone()).await.expect_err("refused");
        assert!(stale.is_conflict(), "{stale}");
        // Keys that no server watches move the revision on as well.
        memory.txn(Txn::of(vec![Op::put("elsewhere", "x")])).await.expect("written");
        assert_eq!(names(one).await.len(), index + 1);
    }
}

async fn next(stream: &mut WatchStream) -> Option<(WatchEventKind, String, u64)> {
    let event = stream.next().await?.ok()?;
    Some((event.kind, event.object.meta.key.name.clone(), event.object.meta.resource_version))
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_costs_watchers_nothing() {
    let memory = Arc::new(Memory::new());
    let (remote, server) = over(&memory, 1).await;
    let (_, other) = over(&memory, 2).await;
    let api = server.client.api::<ConfigMap>();
    let mut stream = api.watch("default", ListOptions::default()).await.expect("a watch");
    for index in 0..5 {
        remote.break_watches(Error::Unavailable { why: "the connection broke".to_owned() });
        let name = format!("c{index}");
        let created = create(&other.client, &name).await;
        let seen = next(&mut stream).await;
        assert_eq!(seen, Some((WatchEventKind::Added, name, version(&created))));
    }
    assert_eq!(names(&server.client).await.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fell_out_of_the_history_reads_anew_and_sends_watchers_to_list() {
    let memory = Arc::new(Memory::new());
    let (remote, server) = over(&memory, 1).await;
    let (_, other) = over(&memory, 2).await;
    let kept = create(&server.client, "kept").await;
    create(&server.client, "goes").await;
    let api = server.client.api::<ConfigMap>();
    let mut stream = api.watch("default", ListOptions::default()).await.expect("a watch");
    for _ in 0..2 {
        next(&mut stream).await.expect("an object");
    }
    let address = service(&other.client, "s", "").await;
    // From here on this server does not hear of anything, until the history is gone.
    let oldest = memory.revision();
    remote.break_watches(Error::Compacted { requested: oldest, oldest });
    other
        .client
        .api::<ConfigMap>()
        .delete("default", "goes", Default::default())
        .await
        .expect("gone");
    create(&other.client, "new").await;
    let role = json!({"metadata": {"name": "r"}, "rules": []}).to_string();
    let role = ClusterRole::decode(role.as_bytes()).expect("a role");
    other.client.api::<ClusterRole>().create(role).await.expect("created");
    memory.compact(memory.revision()).await.expect("compacted");
    assert_eq!(names(&server.client).await, ["kept", "new"]);
    assert_eq!(version(&api.get("default", "kept").await.expect("found")), version(&kept));
    let mut last = None;
    while let Some(item) = stream.next().await {
        last = Some(item);
    }
    let error = last.expect("an item").expect_err("the watch cannot go on");
    assert_eq!(error.code(), 410);
    // Observers know of what was missed.
    let taken = server.client.api::<Service>().create(service_of("t", &address)).await;
    assert!(taken.expect_err("the address is taken").message().contains("already allocated"));
    let options = ListOptions {
        resource_version: Some(version(&kept).to_string()),
        ..ListOptions::default()
    };
    let code = match api.watch("default", options).await {
        Err(err) => err.code(),
        Ok(mut stream) => stream.next().await.expect("an item").expect_err("too old").code(),
    };
    assert_eq!(code, 410);
}

fn service_of(name: &str, address: &str) -> Service {
    let value = json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"clusterIP": address, "ports": [{"port": 80}]},
    });
    Service::decode(value.to_string().as_bytes()).expect("a Service")
}

async fn service(client: &Client, name: &str, address: &str) -> String {
    let created = client.api::<Service>().create(service_of(name, address)).await.expect("created");
    let created = created.object().expect("decoded");
    created.spec.as_ref().and_then(|it| it.cluster_ip.clone()).expect("an address")
}

#[tokio::test(start_paused = true)]
async fn two_servers_never_give_the_same_address() {
    let memory = Arc::new(Memory::new());
    let (_, one) = over(&memory, 1).await;
    let (_, other) = over(&memory, 2).await;
    let mut given = std::collections::BTreeSet::new();
    for index in 0..50 {
        let (first, second) = (format!("a{index}"), format!("b{index}"));
        let both = tokio::join!(
            biased;
            service(&one.client, &first, ""),
            service(&other.client, &second, ""),
        );
        assert!(given.insert(both.0) && given.insert(both.1), "at {index}");
    }
    let taken = given.first().expect("an address");
    let refused = other.client.api::<Service>().create(service_of("c", taken)).await;
    assert!(refused.expect_err("taken").message().contains("already allocated"));
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_revision_that_this_server_has_not_reached_is_told_nothing_twice() {
    let memory = Arc::new(Memory::new());
    let (_, server) = over(&memory, 1).await;
    let first = version(&*create(&server.client, "a").await);
    let options =
        ListOptions { resource_version: Some((first + 1).to_string()), ..ListOptions::default() };
    let api = server.client.api::<ConfigMap>();
    let mut stream = api.watch("default", options).await.expect("a watch");
    create(&server.client, "b").await;
    let last = version(&*create(&server.client, "c").await);
    assert_eq!(next(&mut stream).await, Some((WatchEventKind::Added, "c".to_owned(), last)));
}

#[tokio::test(start_paused = true)]
async fn what_the_store_refuses_is_told_by_what_can_be_done_about_it() {
    let memory = Arc::new(Memory::new());
    let (remote, server) = over(&memory, 1).await;
    let api = server.client.api::<ConfigMap>();
    let why = || "no space left on device".to_owned();
    let check = async |error: Error, code: u16, retry_after: Option<i32>, text: &str| {
        remote.refuse(Some(error));
        let refused = api.create(config_map("x")).await.expect_err("refused");
        assert_eq!(
            (refused.code(), refused.retry_after_seconds()),
            (code, retry_after),
            "{refused}"
        );
        assert!(refused.message().contains(text), "{refused}");
        assert!(!refused.message().contains("device"), "why is for the log alone: {refused}");
        // Reads go on.
        assert!(names(&server.client).await.is_empty());
    };
    check(Error::ReadOnly { why: why() }, 503, None, "the store is read-only").await;
    check(Error::Unavailable { why: why() }, 503, Some(1), "cannot be reached").await;
    check(Error::Uncertain { why: why() }, 504, None, "it is not known whether").await;
    check(Error::TooLarge { what: "the value", size: 9, max: 8 }, 413, None, "too large").await;
    remote.refuse(None);
    create(&server.client, "x").await;
}

#[tokio::test]
async fn readyz_fails_while_the_store_cannot_be_written_and_says_why_to_who_may_know() {
    let remote = Remote::new(Arc::new(Memory::new()));
    let site = Site::start_over(remote.clone()).await;
    let mut admin = site.connect(ADMIN).await;
    let mut anybody = site.connect(None).await;
    let text = |body: Value| body.as_str().unwrap_or_default().to_owned();
    assert_eq!(admin.get("/readyz", "*/*").await.0, 200);
    remote.refuse(Some(Error::ReadOnly { why: "no space left on device".to_owned() }));
    let (code, body) = anybody.get("/readyz?verbose", "*/*").await;
    assert_eq!(code, 500);
    assert!(text(body).contains("[-]etcd failed: reason withheld"));
    assert_eq!(anybody.get("/readyz/etcd", "*/*").await.0, 403);
    let (code, body) = admin.get("/readyz/etcd", "*/*").await;
    assert_eq!(code, 500);
    assert!(text(body).contains("the store is read-only: no space left on device"));
    assert_eq!(admin.get("/livez", "*/*").await.0, 200, "a restart would not help");
    let (_, metrics) = admin.get("/metrics", "*/*").await;
    assert!(text(metrics).contains("apiserver_storage_read_only 1"));
    remote.refuse(None);
    assert_eq!(admin.get("/readyz", "*/*").await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn only_events_and_heartbeats_of_nodes_may_be_lost() {
    let memory = Arc::new(Memory::new());
    let (remote, server) = over(&memory, 1).await;
    create(&server.client, "x").await;
    let event = json!({
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "web"}, "reason": "Started",
    });
    let event = api::core::Event::decode(event.to_string().as_bytes()).expect("an Event");
    server.client.api::<api::core::Event>().create(event).await.expect("created");
    for namespace in ["kube-node-lease", "kube-system"] {
        let lease = json!({"metadata": {"name": "l", "namespace": namespace}, "spec": {}});
        type Lease = api::coordination::Lease;
        let lease = Lease::decode(lease.to_string().as_bytes()).expect("a Lease");
        server.client.api::<Lease>().create(lease).await.expect("created");
    }
    server
        .client
        .api::<api::core::Event>()
        .delete("default", "e", Default::default())
        .await
        .expect("gone");
    let seen = remote.seen();
    let check = |key: &str, expected: Durability| {
        let found: Vec<_> = seen.iter().filter(|it| it.0.iter().any(|it| it == key)).collect();
        assert!(!found.is_empty(), "{key}");
        assert!(found.iter().all(|it| it.1 == expected), "{key}: {found:?}");
    };
    check("/registry/events/default/e", Durability::Relaxed);
    check("/registry/leases/kube-node-lease/l", Durability::Relaxed);
    check("/registry/leases/kube-system/l", Durability::Durable);
    check("/registry/configmaps/default/x", Durability::Durable);
    check("/registry/namespaces/default", Durability::Durable);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_was_cut_short_is_finished_by_the_next() {
    let whole = Arc::new(Memory::new());
    let (remote, _first) = over(&whole, 1).await;
    let transactions = remote.seen();
    assert!(transactions.len() > 1, "one transaction does not hold all that a cluster starts with");
    assert!(transactions.iter().all(|it| it.0.len() <= kvstore::TXN_OPS_MAX));
    // A server that starts always says that it is there.
    let is_first = |key: &&String| !key.starts_with("/registry/masterleases/");
    let count =
        |it: &[(Vec<String>, Durability)]| it.iter().flat_map(|it| &it.0).filter(is_first).count();
    for survived in 0..transactions.len() {
        let memory = Arc::new(Memory::new());
        let remote = Remote::new(memory.clone());
        remote.fail_after(survived);
        assert!(harness::try_start_over(World::simulated(1), remote, shared()).await.is_err());
        let (remote, second) = over(&memory, 2).await;
        assert_eq!(count(&remote.seen()), count(&transactions[survived..]));
        second.client.api::<Service>().get("default", "kubernetes").await.expect("found");
    }
}

#[tokio::test(start_paused = true)]
async fn the_api_forgets_before_the_store_does() {
    let store = Arc::new(Memory::new());
    let server = harness::start_over(World::simulated(1), store.clone()).await;
    let first = version(&*create(&server.client, "a").await);
    create(&server.client, "b").await;
    let exact = ListOptions {
        resource_version: Some(first.to_string()),
        resource_version_match: Some("Exact".to_owned()),
        ..ListOptions::default()
    };
    let api = server.client.api::<ConfigMap>();
    tokio::time::sleep(Duration::from_secs(290)).await;
    assert_eq!(api.list("default", exact.clone()).await.expect("young").items.len(), 1);
    tokio::time::sleep(Duration::from_secs(320)).await;
    assert_eq!(api.list("default", exact).await.err().expect("old").code(), 410);
    assert_eq!(store.oldest(), kvstore::Revision(1), "the store still has it");
}
