//! What happens at the edges: forgotten history, watchers that do not keep up, the end of the
//! server.

use std::sync::Arc;
use std::time::Duration;

use api::Resource as _;
use api::core::{ConfigMap, Pod};
use client::{Client, ListOptions, PatchKind, WatchStream};
use futures_util::StreamExt as _;
use http_body_util::BodyExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kvstore::Store as _;
use serde_json::json;
use stdx::World;

use super::subresources::connect;
use crate::harness::{self, wire::ADMIN};

async fn create(client: &Client, name: &str) -> u64 {
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some("default".to_owned()),
        ..ObjectMeta::default()
    };
    let object = ConfigMap { metadata, ..ConfigMap::default() };
    let created = client.api::<ConfigMap>().create(object).await.expect("created");
    created.meta().resource_version
}

#[tokio::test(start_paused = true)]
async fn an_expired_continue_token_leads_to_an_inconsistent_one() {
    let store = Arc::new(kvstore::memory::Memory::new());
    let harness = harness::start_over(World::simulated(1), store.clone()).await;
    let mut first = 0;
    for name in ["a", "b", "c"] {
        first = create(&harness.client, name).await;
    }
    let api = harness.client.api::<ConfigMap>();
    let options = ListOptions { limit: Some(1), ..ListOptions::default() };
    let page = api.list("default", options.clone()).await.expect("page 1");
    create(&harness.client, "d").await;
    let exact = |match_: &str| ListOptions {
        resource_version: Some(first.to_string()),
        resource_version_match: Some(match_.to_owned()),
        ..ListOptions::default()
    };
    let old = api.list("default", exact("Exact")).await.expect("still known");
    assert_eq!(old.items.len(), 3);
    store.compact(store.revision()).await.expect("compacted");
    assert_eq!(api.list("default", exact("Exact")).await.err().expect("compacted").code(), 410);
    assert_eq!(api.list("default", exact("NotOlderThan")).await.expect("newer").items.len(), 4);
    let options = ListOptions { continue_token: page.continue_token, limit: None, ..options };
    let expired = api.list("default", options.clone()).await.err().expect("compacted");
    let status = expired.to_status();
    assert_eq!((status.code, status.reason.as_deref()), (Some(410), Some("Expired")));
    let token = status.metadata.continue_;
    assert!(token.is_some());
    let options = ListOptions { continue_token: token, ..options };
    let rest = api.list("default", options).await.expect("the rest");
    let names: Vec<_> = rest.items.iter().map(|it| it.meta.key.name.as_str()).collect();
    assert_eq!(names, ["b", "c", "d"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_forgotten_revision_is_told_to_list() {
    let harness = harness::start(World::simulated(1)).await;
    let first = create(&harness.client, "a").await;
    create(&harness.client, "b").await;
    tokio::time::sleep(Duration::from_secs(400)).await;
    create(&harness.client, "c").await;
    let options =
        ListOptions { resource_version: Some(first.to_string()), ..ListOptions::default() };
    let code = match harness.client.api::<ConfigMap>().watch("default", options).await {
        Err(err) => err.code(),
        Ok(mut stream) => stream.next().await.expect("an item").expect_err("too old").code(),
    };
    assert_eq!(code, 410);
}

async fn read(stream: &mut WatchStream, limit: usize) -> usize {
    let mut n_events = 0;
    while n_events < limit && matches!(stream.next().await, Some(Ok(_))) {
        n_events += 1;
    }
    n_events
}

#[tokio::test(start_paused = true)]
async fn a_slow_watcher_is_cut_off_and_holds_nobody_up() {
    const N_CHANGES: usize = 1_100;
    let harness = harness::start(World::simulated(1)).await;
    create(&harness.client, "a").await;
    let api = harness.client.api::<ConfigMap>();
    let now = api.list("default", ListOptions::default()).await.expect("a list").resource_version;
    let from_now = ListOptions { resource_version: Some(now), ..ListOptions::default() };
    let mut slow = api.watch("default", from_now).await.expect("a watch");
    let mut fast = api.watch("default", ListOptions::default()).await.expect("a watch");
    assert_eq!(read(&mut fast, 1).await, 1);
    for index in 0..N_CHANGES {
        let patch = json!({"data": {"key": index.to_string()}}).to_string();
        api.patch("default", "a", PatchKind::Merge, patch.into()).await.expect("patched");
        assert_eq!(read(&mut fast, 1).await, 1);
    }
    let n_seen = read(&mut slow, usize::MAX).await;
    assert_eq!(n_seen, 1_000);
}

#[tokio::test]
async fn the_server_stops_with_watches_open() {
    let (site, mut first) = connect().await;
    let mut second = site.connect_http2(ADMIN).await;
    let idle = site.connect(ADMIN).await;
    let path = "/api/v1/namespaces/default/configmaps?watch=1";
    let (_, events_first) = first.open("GET", path, &[], Default::default()).await;
    let (_, events_second) = second.open("GET", path, &[], Default::default()).await;
    let stopped = site.harness.tasks.shutdown(Duration::from_secs(5));
    let (stopped, first, second) =
        tokio::join!(stopped, events_first.collect(), events_second.collect());
    stopped.expect("no task is late");
    assert!(first.expect("a clean end").to_bytes().is_empty());
    assert!(second.expect("a clean end").to_bytes().is_empty());
    drop(idle);
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_created_is_refused_however_it_is_created() {
    let harness = harness::start(World::simulated(1)).await;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "serviceAccountName": "", "automountServiceAccountToken": false, "nodeName": "n",
            "schedulingGates": [{"name": "example.com/gate"}],
            "containers": [{"name": "web", "image": "web"}],
        },
    });
    let account = json!({"metadata": {"name": "default", "namespace": "default"}}).to_string();
    let account = api::core::ServiceAccount::decode(account.as_bytes()).expect("an account");
    harness.client.api::<api::core::ServiceAccount>().create(account).await.expect("created");
    let pods = harness.client.api::<Pod>();
    let created = pods.create(Pod::decode(pod.to_string().as_bytes()).expect("a Pod")).await;
    let applied = pods.patch("default", "web", PatchKind::Apply, pod.to_string().into()).await;
    for refused in [created, applied] {
        let refused = refused.expect_err("gated, and with a node");
        assert_eq!(refused.code(), 422);
        assert!(refused.message().contains("spec.nodeName: Forbidden"), "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_resource_is_discovered_once() {
    let store = Arc::new(kvstore::memory::Memory::new());
    let config = harness::everything();
    let harness = harness::try_start_over(World::simulated(1), store, config).await;
    let harness = harness.expect("the server starts");
    let discovered = harness.client.discover().await.expect("discovered");
    let mut seen = std::collections::BTreeSet::new();
    for it in &discovered {
        assert!(seen.insert(it.resource.group_resource()), "{:?}", it.resource);
    }
    assert!(api::kinds().iter().all(|it| seen.contains(&it.names().group_resource())));
}

#[tokio::test(start_paused = true)]
async fn a_restart_does_not_prolong_the_life_of_events() {
    let store = Arc::new(kvstore::memory::Memory::new());
    let world = World::simulated(1);
    let first = harness::start_over(world.clone(), store.clone()).await;
    let event = json!({
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "web"}, "reason": "Started",
    });
    let event = api::core::Event::decode(event.to_string().as_bytes()).expect("an Event");
    first.client.api::<api::core::Event>().create(event).await.expect("created");
    tokio::time::sleep(Duration::from_secs(3_000)).await;
    first.tasks.shutdown(Duration::from_secs(5)).await.expect("stopped");
    let second = harness::start_over(world, store).await;
    let events = second.client.api::<api::core::Event>();
    tokio::time::sleep(Duration::from_secs(590)).await;
    events.get("default", "e").await.expect("still there");
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(events.get("default", "e").await.expect_err("expired").is_not_found());
}
