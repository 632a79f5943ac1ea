//! Quotas under many writers: a write and what it takes happen together or not at all, through
//! however many servers over one store.

use std::sync::Arc;
use std::time::Duration;

use api::core::{ConfigMap, ResourceQuota};
use apimachinery::ApiError;
use apiserver::{Compaction, Config};
use client::{DeleteOptions, PatchKind};
use futures_util::future::join_all;
use kvstore::Error;
use kvstore::memory::Memory;
use serde_json::{Value, json};
use stdx::World;

use crate::harness::remote::Remote;
use crate::harness::wire::{ADMIN, Site};
use crate::harness::{self, Harness};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn start(store: Arc<dyn kvstore::Store>, seed: u64) -> Harness {
    let config = Config { compaction: Compaction::ByServer, ..Config::default() };
    let started = harness::try_start_over(World::simulated(seed), store, config).await;
    started.expect("the server starts")
}

fn decoded<T: api::Resource>(value: &Value) -> T {
    T::decode(value.to_string().as_bytes()).expect("it can be read")
}

/// As its controller would, which does not run here.
async fn bound(server: &Harness, name: &str, hard: u32, used: u32) {
    let hard = json!({"count/configmaps": hard.to_string()});
    let metadata = json!({"name": name, "namespace": "default"});
    let api = server.client.api::<ResourceQuota>();
    let quota = json!({"metadata": metadata, "spec": {"hard": hard}});
    api.create(decoded(&quota)).await.expect("created");
    let status = json!({"hard": hard, "used": {"count/configmaps": used.to_string()}});
    let patch = json!({"status": status}).to_string().into();
    api.patch_status("default", name, PatchKind::Merge, patch).await.expect("its status is set");
}

fn map(name: &str) -> ConfigMap {
    decoded(&json!({"metadata": {"name": name, "namespace": "default"}}))
}

async fn used(server: &Harness, name: &str) -> String {
    let quota = server.client.api::<ResourceQuota>().get("default", name).await.expect("there");
    let used = quota.status.as_ref().and_then(|it| it.used.as_ref());
    used.and_then(|it| it.get("count/configmaps")).map_or(String::new(), |it| it.0.clone())
}

async fn create(server: &Harness, name: &str) -> Result<(), ApiError> {
    server.client.api::<ConfigMap>().create(map(name)).await.map(drop)
}

#[tokio::test(start_paused = true)]
async fn many_writers_through_two_servers_get_what_there_is() {
    let memory = Arc::new(Memory::new());
    let (one, two) = (start(memory.clone(), 1).await, start(memory.clone(), 2).await);
    bound(&one, "tight", 20, 0).await;
    bound(&one, "loose", 100, 7).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    let names: Vec<String> = (0..60).map(|it| format!("map-{it}")).collect();
    let servers = [&one, &two].into_iter().cycle();
    let writes = names.iter().zip(servers).map(|(name, server)| create(server, name));
    let outcomes = join_all(writes).await;
    let (made, refused): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    assert_eq!(made.len(), 20);
    for refusal in refused {
        let refusal = refusal.expect_err("refused");
        assert_eq!(refusal.code(), 403, "{refusal}");
        assert!(refusal.to_string().contains("exceeded quota: tight"), "{refusal}");
    }
    assert_eq!(
        (used(&two, "tight").await.as_str(), used(&one, "loose").await.as_str()),
        ("20", "27")
    );
}

#[tokio::test(start_paused = true)]
async fn what_does_not_happen_takes_nothing() {
    let remote = Remote::new(Arc::new(Memory::new()));
    let server = start(remote.clone(), 1).await;
    bound(&server, "q", 5, 0).await;
    create(&server, "a").await.expect("created");
    assert_eq!(used(&server, "q").await, "1");
    assert_eq!(create(&server, "a").await.expect_err("it is there").code(), 409);
    assert_eq!(used(&server, "q").await, "1", "what is there already");
    remote.refuse(Some(Error::Unavailable { why: "cut off".to_owned() }));
    assert_eq!(create(&server, "b").await.expect_err("the store refuses").code(), 503);
    remote.refuse(None);
    assert_eq!(used(&server, "q").await, "1", "what the store refuses");
    // Freed by its controller, when that has counted.
    let api = server.client.api::<ConfigMap>();
    api.delete("default", "a", DeleteOptions::default()).await.expect("deleted");
    assert_eq!(used(&server, "q").await, "1");
}

#[tokio::test(start_paused = true)]
async fn a_write_is_tried_again_while_others_change_the_quota() {
    let server = start(Arc::new(Memory::new()), 1).await;
    bound(&server, "q", 50, 0).await;
    // The quota itself is changed all the while.
    let labels = async {
        for index in 0..20 {
            let patch = json!({"metadata": {"labels": {"n": index.to_string()}}});
            let api = server.client.api::<ResourceQuota>();
            let patch = patch.to_string().into();
            // It may be too late itself.
            let _ = api.patch("default", "q", PatchKind::Merge, patch).await;
        }
    };
    let names: Vec<String> = (0..20).map(|it| format!("map-{it}")).collect();
    let writes = join_all(names.iter().map(|it| create(&server, it)));
    let (outcomes, ()) = futures_util::join!(writes, labels);
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(used(&server, "q").await, "20");
}

#[tokio::test]
async fn a_dry_run_is_refused_and_charged_nothing() {
    let site = Site::start().await;
    let mut connection = site.connect(ADMIN).await;
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let hard = json!({"count/configmaps": "1"});
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": hard}});
    assert_eq!(connection.call("POST", quotas, &quota).await.0, 201);
    let status = json!({"status": {"hard": hard, "used": {"count/configmaps": "0"}}});
    assert_eq!(connection.call("PATCH", &format!("{quotas}/q/status"), &status).await.0, 200);
    let named = |name: &str| json!({"metadata": {"name": name}});
    let dry = format!("{MAPS}?dryRun=All");
    assert_eq!(connection.call("POST", &dry, &named("a")).await.0, 201);
    let (_, read) = connection.call("GET", &format!("{quotas}/q"), &Value::Null).await;
    assert_eq!(read["status"]["used"]["count/configmaps"], "0");
    assert_eq!(connection.call("POST", MAPS, &named("a")).await.0, 201);
    let (code, refusal) = connection.call("POST", &dry, &named("b")).await;
    assert_eq!(code, 403, "{refusal}");
    let expected = "configmaps \"b\" is forbidden: exceeded quota: q, requested: \
        count/configmaps=1, used: count/configmaps=1, limited: count/configmaps=1";
    assert_eq!(refusal["message"], expected);
}
