//! Watches that are slow, and lists beside writes: who resumes misses nothing, and a list is the
//! state of its revision.

use std::sync::Arc;

use api::core::ConfigMap;
use client::{Api, ListOptions, WatchEventKind, WatchStream};
use futures_util::StreamExt as _;
use kvstore::memory::Memory;
use kvstore::{Op, Store, Txn};
use serde_json::json;
use stdx::World;

use crate::harness;

/// What a watcher's queue holds.
const QUEUE: usize = 1_000;

fn put(name: &str) -> Op {
    let json = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": "default" },
    });
    Op::put(
        format!("/registry/configmaps/default/{name}").into_bytes(),
        json.to_string().into_bytes(),
    )
}

/// Writes to all names at once, as another server might; returns the revision.
async fn write(store: &Memory, names: &[&str]) -> u64 {
    let ops = names.iter().map(|it| put(it)).collect();
    store.txn(Txn::when(Vec::new(), ops)).await.expect("written").revision.0
}

fn after(revision: u64) -> ListOptions {
    ListOptions { resource_version: Some(revision.to_string()), ..ListOptions::default() }
}

/// Waits until the server has seen the revision.
async fn seen(api: &Api<ConfigMap>, revision: u64) {
    api.list("default", after(revision)).await.expect("a list");
}

/// The revisions of the events up to the end of the stream, or up to `last`.
async fn revisions(stream: &mut WatchStream, last: u64) -> Vec<u64> {
    let mut revisions = Vec::new();
    while let Some(event) = stream.next().await {
        let event = event.expect("no error");
        if event.kind != WatchEventKind::Bookmark {
            revisions.push(event.object.meta.resource_version);
        }
        if event.object.meta.resource_version >= last {
            break;
        }
    }
    revisions
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_falls_behind_ends_and_resumes_where_it_was() {
    let store = Arc::new(Memory::new());
    let server = harness::start_over(World::simulated(1), store.clone()).await;
    let api = server.client.api::<ConfigMap>();
    let start = write(&store, &["a"]).await;
    seen(&api, start).await;
    let mut slow = api.watch("default", after(start)).await.expect("a watch");
    let mut last = start;
    for _ in 0..QUEUE + 200 {
        last = write(&store, &["a"]).await;
    }
    seen(&api, last).await;
    let first = revisions(&mut slow, u64::MAX).await;
    assert_eq!(first, (start + 1..=start + QUEUE as u64).collect::<Vec<_>>());
    let mut resumed = api.watch("default", after(start + QUEUE as u64)).await.expect("a watch");
    let rest = revisions(&mut resumed, last).await;
    assert_eq!(rest, (start + QUEUE as u64 + 1..=last).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn who_takes_long_for_the_first_state_is_not_behind_before_it_began() {
    let store = Arc::new(Memory::new());
    let server = harness::start_over(World::simulated(1), store.clone()).await;
    let api = server.client.api::<ConfigMap>();
    let start = write(&store, &["a", "b"]).await;
    seen(&api, start).await;
    let options = ListOptions {
        send_initial_events: Some(true),
        resource_version_match: Some("NotOlderThan".to_owned()),
        allow_watch_bookmarks: true,
        ..ListOptions::default()
    };
    let mut stream = api.watch("default", options).await.expect("a watch");
    assert_eq!(revisions(&mut stream, start).await, [start]);
    let mut last = start;
    for _ in 0..QUEUE + 200 {
        last = write(&store, &["a"]).await;
    }
    seen(&api, last).await;
    let rest: Vec<u64> = revisions(&mut stream, last).await;
    assert_eq!(rest, [start].into_iter().chain(start + 1..=last).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_beside_writes_is_the_state_of_its_revision() {
    const WRITES: u64 = 2_000;
    let store = Arc::new(Memory::new());
    let server = harness::start_over(World::simulated(1), store.clone()).await;
    let api = server.client.api::<ConfigMap>();
    let names = ["a", "b", "c"];
    let first = write(&store, &names).await;
    seen(&api, first).await;
    server.tasks.spawn("writer", move |_| async move {
        for _ in 0..WRITES {
            write(&store, &names).await;
            tokio::task::yield_now().await;
        }
    });
    let mut revision = first;
    while revision < first + WRITES {
        let options =
            ListOptions { resource_version: Some("0".to_owned()), ..ListOptions::default() };
        let list = api.list("default", options).await.expect("a list");
        let listed: u64 = list.resource_version.parse().expect("a number");
        let versions: Vec<u64> = list.items.iter().map(|it| it.meta.resource_version).collect();
        // All of one write, and nothing from after the revision that the client would watch from.
        assert_eq!(versions, [versions[0]; 3], "at {listed}");
        assert!(versions[0] <= listed && versions[0] >= revision, "{versions:?} at {listed}");
        revision = versions[0];
        tokio::task::yield_now().await;
    }
}
