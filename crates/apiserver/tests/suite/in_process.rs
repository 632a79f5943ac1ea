//! What a component in the process sees: every verb, over the in-memory store, in paused time.

use std::time::Duration;

use api::Dynamic;
use api::core::{ConfigMap, Namespace, Pod, Service};
use apimachinery::{ApiError, GroupVersionResource, User};
use client::{
    Client, DeleteOptions, ListOptions, PatchKind, Preconditions, Propagation, WatchEventKind,
    WatchStream,
};
use futures_util::StreamExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;
use stdx::World;

use crate::harness;

fn config_map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("default".to_owned()),
            labels: Some([("app".to_owned(), name.to_owned())].into()),
            ..ObjectMeta::default()
        },
        data: Some([("key".to_owned(), "value".to_owned())].into()),
        ..ConfigMap::default()
    }
}

fn config_maps() -> GroupVersionResource {
    GroupVersionResource::new("", "v1", "configmaps")
}

async fn names(client: &Client, options: ListOptions) -> Vec<String> {
    let list = client.api::<ConfigMap>().list("default", options).await.expect("a list");
    list.items.iter().map(|it| it.meta.key.name.clone()).collect()
}

/// `ADDED a`, `BOOKMARK end`, ...
async fn next(stream: &mut WatchStream) -> String {
    match stream.next().await {
        None => "end".to_owned(),
        Some(Err(err)) => format!("ERROR {}", err.code()),
        Some(Ok(event)) => {
            let kind = match event.kind {
                WatchEventKind::Added => "ADDED",
                WatchEventKind::Modified => "MODIFIED",
                WatchEventKind::Deleted => "DELETED",
                WatchEventKind::Bookmark if event.is_initial_end => "INITIAL-END",
                WatchEventKind::Bookmark => "BOOKMARK",
            };
            format!("{kind} {}", event.object.meta.key.name).trim_end().to_owned()
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_created_object_has_what_the_server_fills_in() {
    let harness = harness::start(World::simulated(1)).await;
    let api = harness.client.api::<ConfigMap>();
    let created = api.create(config_map("a")).await.expect("created");
    let created = created.object().expect("decoded");
    let meta = &created.metadata;
    assert_eq!(meta.uid.as_ref().map(String::len), Some(36));
    assert!(meta.creation_timestamp.is_some());
    assert!(meta.resource_version.is_some());
    let read = harness.client.dynamic(config_maps()).get("default", "a").await.expect("found");
    let value: serde_json::Value = serde_json::from_slice(&read.bytes).expect("JSON");
    assert_eq!(value["kind"], "ConfigMap");
    assert_eq!(value["metadata"]["managedFields"][0]["manager"], "test");

    let again = api.create(config_map("a")).await.expect_err("exists");
    assert_eq!(again.message(), "configmaps \"a\" already exists");
    let missing = api.get("default", "b").await.expect_err("missing");
    assert_eq!(missing.message(), "configmaps \"b\" not found");
}

#[tokio::test(start_paused = true)]
async fn generated_names_are_drawn() {
    let harness = harness::start(World::simulated(1)).await;
    let mut object = config_map("");
    object.metadata.name = None;
    object.metadata.generate_name = Some("web-".to_owned());
    let created = harness.client.api::<ConfigMap>().create(object).await.expect("created");
    let name = &created.meta().key.name;
    assert!(name.starts_with("web-") && name.len() == 9, "{name}");
}

#[tokio::test(start_paused = true)]
async fn an_update_needs_the_version_it_started_from() {
    let harness = harness::start(World::simulated(1)).await;
    let api = harness.client.api::<ConfigMap>();
    let first = api.create(config_map("a")).await.expect("created");
    let first = first.object().expect("decoded");
    let mut second = (*first).clone();
    second.data = Some([("key".to_owned(), "other".to_owned())].into());
    let updated = api.update(second.clone()).await.expect("updated");
    let updated = updated.object().expect("decoded");
    assert_ne!(updated.metadata.resource_version, first.metadata.resource_version);
    let stale = api.update((*first).clone()).await.expect_err("stale");
    assert!(stale.is_conflict(), "{stale}");
    assert!(stale.message().contains("the object has been modified; please apply your changes"));
    // Nothing changed: the version stays and nobody is told.
    let same = api.update((*updated).clone()).await.expect("no-op");
    let same = same.object().expect("decoded");
    assert_eq!(same.metadata.resource_version, updated.metadata.resource_version);
}

#[tokio::test(start_paused = true)]
async fn every_form_of_patch_changes_the_object() {
    let harness = harness::start(World::simulated(1)).await;
    let api = harness.client.api::<ConfigMap>();
    api.create(config_map("a")).await.expect("created");
    let patches = [
        (PatchKind::Merge, json!({"data": {"merge": "1"}}), "merge"),
        (PatchKind::Strategic, json!({"data": {"strategic": "1"}}), "strategic"),
        (PatchKind::Json, json!([{"op": "add", "path": "/data/json", "value": "1"}]), "json"),
        (
            PatchKind::Apply,
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"apply": "1"}}),
            "apply",
        ),
    ];
    for (form, body, key) in patches {
        let patched = api
            .patch("default", "a", form, body.to_string().into())
            .await
            .unwrap_or_else(|err| panic!("{form:?}: {err}"));
        let patched = patched.object().expect("decoded");
        let data = patched.data.as_ref().expect("data");
        assert_eq!(data.get(key).map(String::as_str), Some("1"), "{form:?}");
        assert_eq!(data.get("key").map(String::as_str), Some("value"), "{form:?}");
    }
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}});
    api.patch("default", "new", PatchKind::Apply, body.to_string().into())
        .await
        .expect("apply creates");
}

#[tokio::test(start_paused = true)]
async fn lists_are_selected_and_paged() {
    let harness = harness::start(World::simulated(1)).await;
    let api = harness.client.api::<ConfigMap>();
    for name in ["a", "b", "c", "d", "e"] {
        api.create(config_map(name)).await.expect("created");
    }
    let select = |labels: &str, fields: &str| ListOptions {
        label_selector: Some(labels.to_owned()),
        field_selector: Some(fields.to_owned()),
        ..ListOptions::default()
    };
    let client = &harness.client;
    assert_eq!(names(client, select("app in (a, c)", "")).await, ["a", "c"]);
    assert_eq!(names(client, select("", "metadata.name=b")).await, ["b"]);
    let options = ListOptions { limit: Some(2), ..ListOptions::default() };
    let first = api.list("default", options.clone()).await.expect("page 1");
    assert_eq!(first.remaining, Some(3));
    // A change between pages is not seen: all pages are of one state.
    api.delete("default", "d", DeleteOptions::default()).await.expect("deleted");
    let options = ListOptions { continue_token: first.continue_token.clone(), ..options };
    let second = api.list("default", options.clone()).await.expect("page 2");
    let seen: Vec<_> = second.items.iter().map(|it| it.meta.key.name.as_str()).collect();
    assert_eq!(seen, ["c", "d"]);
    assert_eq!(second.resource_version, first.resource_version);
    let options = ListOptions { continue_token: second.continue_token.clone(), ..options };
    let third = api.list("default", options).await.expect("page 3");
    assert_eq!((third.items.len(), third.continue_token), (1, None));
}

#[tokio::test(start_paused = true)]
async fn list_options_follow_the_table() {
    let harness = harness::start(World::simulated(1)).await;
    let list = |version: Option<&str>, wanted: Option<&str>| {
        let options = ListOptions {
            resource_version: version.map(str::to_owned),
            resource_version_match: wanted.map(str::to_owned),
            ..ListOptions::default()
        };
        let api = harness.client.api::<ConfigMap>();
        async move { api.list("default", options).await.map_err(|err: ApiError| err.code()) }
    };
    let rows: [(Option<&str>, Option<&str>, Option<u16>); 9] = [
        (None, None, None),
        (Some("0"), None, None),
        (Some("0"), Some("NotOlderThan"), None),
        (Some("0"), Some("Exact"), Some(422)),
        (Some("2"), None, None),
        (Some("2"), Some("Exact"), None),
        (None, Some("Exact"), Some(422)),
        (Some("99999999"), None, Some(504)),
        (Some("x"), None, Some(400)),
    ];
    for (version, wanted, expected) in rows {
        assert_eq!(list(version, wanted).await.err(), expected, "{version:?} {wanted:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_starts_with_the_state_and_follows_it() {
    let harness = harness::start(World::simulated(1)).await;
    let api = harness.client.api::<ConfigMap>();
    api.create(config_map("a")).await.expect("created");
    let options = ListOptions {
        send_initial_events: Some(true),
        resource_version_match: Some("NotOlderThan".to_owned()),
        allow_watch_bookmarks: true,
        label_selector: Some("app in (a, b)".to_owned()),
        ..ListOptions::default()
    };
    let mut stream = api.watch("default", options).await.expect("a watch");
    assert_eq!(next(&mut stream).await, "ADDED a");
    assert_eq!(next(&mut stream).await, "INITIAL-END");
    let b = api.create(config_map("b")).await.expect("created");
    let mut b = (*b.object().expect("decoded")).clone();
    api.create(config_map("c")).await.expect("created");
    assert_eq!(next(&mut stream).await, "ADDED b");
    b.data = None;
    let b = api.update(b).await.expect("updated");
    let mut b = (*b.object().expect("decoded")).clone();
    assert_eq!(next(&mut stream).await, "MODIFIED b");
    b.metadata.labels = None;
    api.update(b).await.expect("updated");
    assert_eq!(next(&mut stream).await, "DELETED b");
    api.delete("default", "a", DeleteOptions::default()).await.expect("deleted");
    assert_eq!(next(&mut stream).await, "DELETED a");
    // Time is paused: the next thing to happen is the bookmark.
    assert_eq!(next(&mut stream).await, "BOOKMARK");
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_when_its_time_is_over_and_resumes_without_a_gap() {
    let harness = harness::start(World::simulated(1)).await;
    let api = harness.client.api::<ConfigMap>();
    let a = api.create(config_map("a")).await.expect("created");
    let options = ListOptions {
        resource_version: Some(a.meta().resource_version.to_string()),
        timeout_seconds: Some(5),
        ..ListOptions::default()
    };
    api.create(config_map("b")).await.expect("created");
    let mut stream = api.watch("default", options).await.expect("a watch");
    assert_eq!(next(&mut stream).await, "ADDED b");
    assert_eq!(next(&mut stream).await, "end");
}

#[tokio::test(start_paused = true)]
async fn deletion_waits_for_finalizers() {
    let harness = harness::start(World::simulated(1)).await;
    let api = harness.client.api::<ConfigMap>();
    let mut object = config_map("a");
    object.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    api.create(object).await.expect("created");
    api.delete("default", "a", DeleteOptions::default()).await.expect("marked");
    let mut held = (*api.get("default", "a").await.expect("still there")).clone();
    assert!(held.metadata.deletion_timestamp.is_some());
    held.metadata.finalizers = None;
    api.update(held).await.expect("released");
    assert!(api.get("default", "a").await.expect_err("gone").is_not_found());

    api.create(config_map("b")).await.expect("created");
    let options =
        DeleteOptions { propagation: Some(Propagation::Foreground), ..DeleteOptions::default() };
    api.delete("default", "b", options).await.expect("marked");
    let held = api.get("default", "b").await.expect("still there");
    assert_eq!(held.metadata.finalizers.as_deref(), Some(&["foregroundDeletion".to_owned()][..]));

    api.create(config_map("c")).await.expect("created");
    let preconditions = Preconditions { uid: Some("other".to_owned()), resource_version: None };
    let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
    assert!(api.delete("default", "c", options).await.expect_err("another").is_conflict());
}

#[tokio::test(start_paused = true)]
async fn a_collection_is_deleted_by_selection() {
    let harness = harness::start(World::simulated(1)).await;
    let api = harness.client.api::<ConfigMap>();
    for name in ["a", "b", "c"] {
        api.create(config_map(name)).await.expect("created");
    }
    let selection =
        ListOptions { label_selector: Some("app!=b".to_owned()), ..ListOptions::default() };
    api.delete_collection("default", selection, DeleteOptions::default()).await.expect("deleted");
    assert_eq!(names(&harness.client, ListOptions::default()).await, ["b"]);
}

#[tokio::test(start_paused = true)]
async fn a_stranger_may_do_nothing() {
    let harness = harness::start(World::simulated(1)).await;
    let stranger = harness.server.client(User::new("eve", &[]), "test");
    let refused = stranger.api::<ConfigMap>().get("default", "a").await.expect_err("forbidden");
    assert_eq!(
        refused.message(),
        "configmaps \"a\" is forbidden: User \"eve\" cannot get resource \"configmaps\" in API group \"\" in the namespace \"default\""
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_created_in_a_namespace_that_is_missing() {
    let harness = harness::start(World::simulated(1)).await;
    let mut object = config_map("a");
    object.metadata.namespace = Some("nowhere".to_owned());
    let refused = harness.client.api::<ConfigMap>().create(object).await.expect_err("refused");
    assert_eq!(refused.message(), "namespaces \"nowhere\" not found");
}

#[tokio::test(start_paused = true)]
async fn a_new_cluster_has_its_first_objects_and_a_restart_writes_nothing() {
    let store: std::sync::Arc<dyn kvstore::Store> =
        std::sync::Arc::new(kvstore::memory::Memory::new());
    let first = harness::start_over(World::simulated(1), store.clone()).await;
    let namespaces = first.client.api::<Namespace>().list("", ListOptions::default()).await;
    let names: Vec<_> =
        namespaces.expect("a list").items.iter().map(|it| it.meta.key.name.clone()).collect();
    assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system"]);
    let service = first.client.api::<Service>().get("default", "kubernetes").await.expect("found");
    let spec = service.spec.as_ref().expect("a spec");
    assert_eq!(spec.cluster_ip.as_deref(), Some("10.96.0.1"));
    first.tasks.shutdown(Duration::from_secs(5)).await.expect("stopped");
    let revision = store.revision();
    let second = harness::start_over(World::simulated(2), store.clone()).await;
    assert_eq!(store.revision(), revision);
    second.client.api::<Service>().get("default", "kubernetes").await.expect("found");
}

#[tokio::test(start_paused = true)]
async fn services_get_addresses_and_give_them_back() {
    let harness = harness::start(World::simulated(1)).await;
    let api = harness.client.api::<Service>();
    let service = |name: &str, address: Option<String>| {
        let value = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"type": "NodePort", "clusterIP": address.unwrap_or_default(), "ports": [{"port": 80}]},
        });
        <Service as api::Resource>::decode(value.to_string().as_bytes()).expect("a Service")
    };
    let first = api.create(service("a", None)).await.expect("created");
    let first = first.object().expect("decoded");
    let spec = first.spec.as_ref().expect("a spec");
    let address = spec.cluster_ip.clone().expect("an address");
    assert!(spec.ports.as_ref().expect("ports")[0].node_port.is_some());
    let taken = api.create(service("b", Some(address.clone()))).await.expect_err("taken");
    assert!(taken.message().contains("provided IP is already allocated"), "{taken}");
    api.delete("default", "a", DeleteOptions::default()).await.expect("deleted");
    api.create(service("b", Some(address))).await.expect("free again");
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_bound_once() {
    let harness = harness::start(World::simulated(1)).await;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}});
    let accounts = GroupVersionResource::new("", "v1", "serviceaccounts");
    let account = Dynamic::from_value(account).expect("an object");
    let typed = <api::core::ServiceAccount as api::Resource>::decode(
        account.clone().into_value().to_string().as_bytes(),
    );
    harness
        .client
        .api::<api::core::ServiceAccount>()
        .create(typed.expect("typed"))
        .await
        .expect("created");
    let _ = accounts;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"containers": [{"name": "web", "image": "web"}]},
    });
    let pods = harness.client.api::<Pod>();
    let pod = <Pod as api::Resource>::decode(pod.to_string().as_bytes()).expect("a Pod");
    pods.create(pod).await.expect("created");
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "web", "namespace": "default"},
        "target": {"kind": "Node", "name": "node-1"},
    });
    let binding = <api::core::Binding as api::Resource>::decode(binding.to_string().as_bytes());
    let binding = binding.expect("a Binding");
    pods.create_subresource("default", "web", "binding", binding.clone()).await.expect("bound");
    let bound = pods.get("default", "web").await.expect("found");
    assert_eq!(bound.spec.as_ref().and_then(|it| it.node_name.as_deref()), Some("node-1"));
    let again = pods.create_subresource("default", "web", "binding", binding).await;
    assert!(again.expect_err("twice").is_conflict());
}

#[tokio::test(start_paused = true)]
async fn custom_resources_are_served_once_established_and_go_with_their_definition() {
    let harness = harness::start(World::simulated(1)).await;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
            }}}],
        },
    });
    type Definition = api::apiextensions::CustomResourceDefinition;
    let definition = <Definition as api::Resource>::decode(definition.to_string().as_bytes());
    let definitions = harness.client.api::<Definition>();
    definitions.create(definition.expect("a definition")).await.expect("created");
    tokio::time::sleep(Duration::from_millis(10)).await;
    let widgets = harness.client.dynamic(GroupVersionResource::new("example.com", "v1", "widgets"));
    let widget = json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "w", "namespace": "default"}, "spec": {"size": 3},
    });
    widgets.create(Dynamic::from_value(widget).expect("an object")).await.expect("served");
    assert_eq!(
        widgets.list("default", ListOptions::default()).await.expect("a list").items.len(),
        1
    );
    definitions.delete("", "widgets.example.com", DeleteOptions::default()).await.expect("marked");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(definitions.get("", "widgets.example.com").await.expect_err("gone").is_not_found());
    assert!(
        widgets
            .list("default", ListOptions::default())
            .await
            .err()
            .is_some_and(|it| it.is_not_found())
    );
}

#[tokio::test(start_paused = true)]
async fn events_live_one_hour() {
    let harness = harness::start(World::simulated(1)).await;
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "web"}, "reason": "Started",
    });
    let events = harness.client.api::<api::core::Event>();
    let event = <api::core::Event as api::Resource>::decode(event.to_string().as_bytes());
    events.create(event.expect("an Event")).await.expect("created");
    tokio::time::sleep(Duration::from_secs(3_590)).await;
    events.get("default", "e").await.expect("still there");
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(events.get("default", "e").await.expect_err("expired").is_not_found());
}
