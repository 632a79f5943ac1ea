//! What happened longer ago than every client can count on, told to those who ask for it and may.

use std::time::Duration;

use api::core::ConfigMap;
use apimachinery::{ApiError, User};
use client::{Client, DeleteOptions, ListOptions, WatchEventKind};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use stdx::World;

use crate::harness::wire::{ADMIN, Site};
use crate::harness::{self, Harness};

/// Longer than the API remembers.
const LONG: Duration = Duration::from_secs(1_000);

fn map(name: &str, label: &str) -> ConfigMap {
    let metadata = json!({"name": name, "namespace": "default", "labels": {"l": label}});
    serde_json::from_value(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))
        .expect("a map")
}

/// From before a until long after: b is relabelled and deleted. The revision before all of it.
async fn past(server: &Harness) -> u64 {
    let api = server.client.api::<ConfigMap>();
    let before = api.create(map("before", "x")).await.expect("created").meta().resource_version;
    api.create(map("a", "x")).await.expect("created");
    api.create(map("b", "x")).await.expect("created");
    api.update(map("b", "y")).await.expect("updated");
    api.delete("default", "b", DeleteOptions::default()).await.expect("deleted");
    tokio::time::sleep(LONG).await;
    api.create(map("late", "x")).await.expect("created");
    before
}

fn from(revision: u64, is_beyond_horizon: bool) -> ListOptions {
    ListOptions {
        resource_version: Some(revision.to_string()),
        timeout_seconds: Some(1),
        is_beyond_horizon,
        ..ListOptions::default()
    }
}

/// `ADDED a`, until it ends.
async fn watch(client: &Client, options: ListOptions) -> Result<Vec<String>, ApiError> {
    let mut events = client.api::<ConfigMap>().watch("default", options).await?;
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        let event = event?;
        if event.kind != WatchEventKind::Bookmark {
            seen.push(format!("{:?} {}", event.kind, event.object.meta.key.name));
        }
    }
    Ok(seen)
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_back_as_far_as_the_store_and_then_on() {
    let server = harness::start(World::simulated(1)).await;
    let before = past(&server).await;
    assert_eq!(watch(&server.client, from(before, false)).await.unwrap_err().code(), 410);
    let all = watch(&server.client, from(before, true)).await.unwrap();
    assert_eq!(all, ["Added a", "Added b", "Modified b", "Deleted b", "Added late"]);
    let selected = ListOptions { label_selector: Some("l=x".to_owned()), ..from(before, true) };
    let selected = watch(&server.client, selected).await.unwrap();
    assert_eq!(selected, ["Added a", "Added b", "Deleted b", "Added late"], "b was relabelled");
}

#[tokio::test(start_paused = true)]
async fn a_list_is_of_any_state_that_the_store_has() {
    let server = harness::start(World::simulated(1)).await;
    let before = past(&server).await;
    let api = server.client.api::<ConfigMap>();
    let exactly = |is_beyond_horizon| ListOptions {
        resource_version_match: Some("Exact".to_owned()),
        timeout_seconds: None,
        ..from(before + 2, is_beyond_horizon)
    };
    assert_eq!(api.list("default", exactly(false)).await.err().expect("old").code(), 410);
    let then = api.list("default", exactly(true)).await.expect("a list");
    let names: Vec<_> = then.items.iter().map(|it| it.meta.key.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "before"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_gone_takes_a_right_of_its_own() {
    let server = harness::start(World::simulated(1)).await;
    let before = past(&server).await;
    let user = User::new("system:kube-controller-manager", &[]);
    let client = server.server.client(user, "test");
    assert_eq!(watch(&client, from(before, false)).await.unwrap_err().code(), 410, "it may watch");
    let refused = watch(&client, from(before, true)).await.unwrap_err();
    let text = "User \"system:kube-controller-manager\" cannot get path \"/history\"";
    assert!(refused.code() == 403 && refused.message().contains(text), "{}", refused.message());
}

#[tokio::test]
async fn the_header_is_for_lists_and_watches_and_has_one_value() {
    let site = Site::start().await;
    let mut connection = site.connect(ADMIN).await;
    let list = "/api/v1/namespaces/default/configmaps";
    let cases = [
        (list, "store", 200, ""),
        (list, "all", 400, "the header \"xebec-history\" must be \"store\""),
        (
            "/api/v1/namespaces/default",
            "store",
            400,
            "is for the verbs list and watch, not for \"get\"",
        ),
    ];
    for (path, value, code, expected) in cases {
        let headers = [("xebec-history", value)];
        let (head, body) = connection.send("GET", path, &headers, &Value::Null).await;
        let text = String::from_utf8_lossy(&body);
        let body: Value = serde_json::from_str(&text).expect("JSON");
        let message = body["message"].as_str().unwrap_or_default();
        assert_eq!(head.status.as_u16(), code, "{path}: {message}");
        assert!(message.contains(expected), "{message}");
    }
}
