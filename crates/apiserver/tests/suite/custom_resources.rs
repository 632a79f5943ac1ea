//! Custom resources: several versions of one kind, and the end of a definition.

use std::sync::Arc;
use std::time::Duration;

use api::apiextensions::CustomResourceDefinition;
use api::{Dynamic, Resource as _, Stored};
use apimachinery::GroupVersionResource;
use apiserver::Config;
use client::{DeleteOptions, DynamicApi, ListOptions, PatchKind, WriteOptions};
use features::Gates;
use futures_util::StreamExt as _;
use kvstore::memory::Memory;
use kvstore::{KeyRange, RangeRequest, Store as _};
use serde_json::{Value, json};
use stdx::World;

use crate::harness::{self, Harness};

const NAME: &str = "widgets.example.com";

/// Versions as (name, is stored in).
fn definition(versions: &[(&str, bool)]) -> CustomResourceDefinition {
    let version = |(name, storage): &(&str, bool)| {
        json!({
            "name": name, "served": true, "storage": storage,
            "subresources": {
                "status": {},
                "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
            },
            "schema": {"openAPIV3Schema": {
                "type": "object",
                "properties": {
                    "spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1, "maximum": 7.5}}},
                    "status": {"type": "object", "properties": {"size": {"type": "integer"}}},
                },
            }},
        })
    };
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": versions.iter().map(version).collect::<Vec<Value>>(),
        },
    });
    CustomResourceDefinition::decode(definition.to_string().as_bytes()).expect("a definition")
}

fn widget(version: &str, name: &str, finalizers: &[&str]) -> Dynamic {
    let widget = json!({
        "apiVersion": format!("example.com/{version}"), "kind": "Widget",
        "metadata": {"name": name, "namespace": "default", "finalizers": finalizers},
        "spec": {"size": 3},
    });
    Dynamic::from_value(widget).expect("an object")
}

async fn start(versions: &[(&str, bool)]) -> Harness {
    let harness = harness::start(World::simulated(1)).await;
    let definitions = harness.client.api::<CustomResourceDefinition>();
    definitions.create(definition(versions)).await.expect("created");
    tokio::time::sleep(Duration::from_millis(1)).await;
    harness
}

fn widgets(harness: &Harness, version: &str) -> DynamicApi {
    harness.client.dynamic(GroupVersionResource::new("example.com", version, "widgets"))
}

/// What the store has of a widget.
async fn at_rest(store: &Memory, name: &str) -> Value {
    let key = format!("/registry/example.com/widgets/default/{name}");
    let request = RangeRequest::latest(KeyRange::one(key.as_bytes()));
    let entries = store.range(request).await.expect("read").entries;
    serde_json::from_slice(&entries[0].value).expect("JSON")
}

fn api_version(stored: &Stored) -> String {
    parse(stored)["apiVersion"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(start_paused = true)]
async fn bounds_are_shown_as_they_were_written() {
    let harness = start(&[("v1", true)]).await;
    let create = |size: Value| {
        let widget = json!({
            "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "default"},
            "spec": {"size": size},
        });
        let widget = Dynamic::from_value(widget).expect("an object");
        let widgets = widgets(&harness, "v1");
        async move { widgets.create(widget).await.expect_err("out of bounds").to_string() }
    };
    for (size, expected) in [
        (json!(0), "Invalid value: 0: spec.size in body should be greater than or equal to 1"),
        (json!(8), "Invalid value: 8: spec.size in body should be less than or equal to 7.5"),
    ] {
        let refused = create(size).await;
        assert!(refused.ends_with(expected), "{refused}");
    }
    let definitions = harness.client.api::<CustomResourceDefinition>();
    let definition = definitions.get("", NAME).await.expect("it is there").encode();
    assert!(String::from_utf8_lossy(&definition).contains(r#""minimum":1,"#));
}

#[tokio::test(start_paused = true)]
async fn an_object_is_stored_in_one_version_and_served_in_each() {
    let store = Arc::new(Memory::new());
    let harness = harness::start_over(World::simulated(1), store.clone()).await;
    let definitions = harness.client.api::<CustomResourceDefinition>();
    let versions = [("v1", true), ("v1beta1", false)];
    definitions.create(definition(&versions)).await.expect("created");
    tokio::time::sleep(Duration::from_millis(1)).await;
    let (new, old) = (widgets(&harness, "v1"), widgets(&harness, "v1beta1"));
    let mut watch_new = new.watch("default", ListOptions::default()).await.expect("a watch");
    let mut watch_old = old.watch("default", ListOptions::default()).await.expect("a watch");

    let created = old.create(widget("v1beta1", "w", &[])).await.expect("created");
    assert_eq!(api_version(&created), "example.com/v1beta1");
    let stored = at_rest(&store, "w").await;
    assert_eq!(stored["apiVersion"], "example.com/v1");

    for (api, expected) in [(&new, "example.com/v1"), (&old, "example.com/v1beta1")] {
        let patch = |form, body: Value| async move {
            let force = form == PatchKind::Apply;
            let options = WriteOptions { force, ..WriteOptions::default() };
            let patched = api.patch("default", "w", form, body.to_string().into(), options).await;
            api_version(&patched.unwrap_or_else(|err| panic!("{expected} {form:?}: {err}")))
        };
        assert_eq!(api_version(&api.get("default", "w").await.expect("found")), expected);
        let list = api.list("default", ListOptions::default()).await.expect("a list");
        assert_eq!(api_version(&list.items[0]), expected);
        let size = json!([{"op": "replace", "path": "/spec/size", "value": 4}]);
        assert_eq!(patch(PatchKind::Json, size).await, expected);
        assert_eq!(patch(PatchKind::Merge, json!({"spec": {"size": 5}})).await, expected);
        let applied = json!({
            "apiVersion": expected, "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 6},
        });
        assert_eq!(patch(PatchKind::Apply, applied).await, expected);
    }
    for (watch, expected) in
        [(&mut watch_new, "example.com/v1"), (&mut watch_old, "example.com/v1beta1")]
    {
        for _ in 0..3 {
            let event = watch.next().await.expect("an event").expect("no error");
            assert_eq!(api_version(&event.object), expected);
        }
    }
    let discovered = harness.client.discover().await.expect("discovered");
    let versions: Vec<_> = discovered
        .iter()
        .filter(|it| it.resource.resource == "widgets")
        .map(|it| it.resource.version.as_str())
        .collect();
    assert_eq!(versions, ["v1"]);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_storage_version_leaves_old_objects_readable() {
    let harness = start(&[("v1", false), ("v1beta1", true)]).await;
    let new = widgets(&harness, "v1");
    new.create(widget("v1", "w", &[])).await.expect("created");
    let definitions = harness.client.api::<CustomResourceDefinition>();
    let mut changed = (*definitions.get("", NAME).await.expect("found")).clone();
    changed.spec = definition(&[("v1", true), ("v1beta1", false)]).spec;
    definitions.update(changed).await.expect("updated");
    assert_eq!(api_version(&new.get("default", "w").await.expect("found")), "example.com/v1");
    let old = widgets(&harness, "v1beta1").get("default", "w").await.expect("found");
    assert_eq!(api_version(&old), "example.com/v1beta1");
}

/// Where a definition has a field of a version's spec.
fn property(version: usize, field: &str) -> String {
    format!("/spec/versions/{version}/schema/openAPIV3Schema/properties/spec/properties/{field}")
}

/// A JSON patch of the definition.
async fn change(harness: &Harness, patch: Value) {
    let definitions =
        GroupVersionResource::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let definitions = harness.client.dynamic(definitions);
    let (patch, options) = (patch.to_string().into(), WriteOptions::default());
    definitions.patch("", NAME, PatchKind::Json, patch, options).await.expect("patched");
    settle().await;
}

/// As upstream: the schema of the stored version fills in what an object lacks whenever it is read.
#[tokio::test(start_paused = true)]
async fn defaults_that_came_later_are_seen_at_once() {
    let harness = start(&[("v1", true), ("v1beta1", false)]).await;
    let (new, old) = (widgets(&harness, "v1"), widgets(&harness, "v1beta1"));
    new.create(widget("v1", "w", &[])).await.expect("created");
    let mut watch = old.watch("default", ListOptions::default()).await.expect("a watch");

    let options = WriteOptions::default;
    change(
        &harness,
        json!([
            {"op": "add", "path": property(0, "color"), "value": {"type": "string", "default": "red"}},
            {"op": "add", "path": property(1, "color"), "value": {"type": "string"}},
        ]),
    )
    .await;
    assert!(watch.next().await.is_some_and(|it| it.is_ok()), "the object that was there");
    assert!(watch.next().await.is_none(), "watches of the old schema end");
    let mut watch = old.watch("default", ListOptions::default()).await.expect("a watch");

    let spec = |it: &Stored| parse(it)["spec"].clone();
    for (api, expected) in [(&new, "example.com/v1"), (&old, "example.com/v1beta1")] {
        let found = api.get("default", "w").await.expect("found");
        assert_eq!(spec(&found), json!({"size": 3, "color": "red"}));
        assert_eq!(api_version(&found), expected);
        assert_eq!(
            parse(&found)["metadata"]["resourceVersion"],
            found.meta.resource_version.to_string()
        );
        let list = api.list("default", ListOptions::default()).await.expect("a list");
        assert_eq!(spec(&list.items[0]), json!({"size": 3, "color": "red"}));
    }
    // A version that does not default gets it all the same: from the version that is stored.
    let created = old.create(widget("v1beta1", "x", &[])).await.expect("created");
    assert_eq!(spec(&created), json!({"size": 3, "color": "red"}));
    for _ in ["w", "x"] {
        let event = watch.next().await.expect("an event").expect("no error");
        assert_eq!(spec(&event.object), json!({"size": 3, "color": "red"}));
    }

    // Filling it in is no change by whoever writes next.
    let before = new.get("default", "w").await.expect("found");
    let label = json!({"metadata": {"labels": {"a": "b"}}}).to_string();
    let after = new.patch("default", "w", PatchKind::Merge, label.into(), options()).await;
    let generation = |it: &Stored| parse(it)["metadata"]["generation"].clone();
    assert_eq!(generation(&after.expect("patched")), generation(&before));
}

/// As upstream: what a schema has no longer is not shown, in any version, and does not count as a
/// change of whoever writes next.
#[tokio::test(start_paused = true)]
async fn fields_that_a_schema_has_no_longer_are_seen_no_more() {
    let store = Arc::new(Memory::new());
    let harness = harness::start_over(World::simulated(1), store.clone()).await;
    let versions = [("v1", true), ("v1beta1", false)];
    harness
        .client
        .api::<CustomResourceDefinition>()
        .create(definition(&versions))
        .await
        .expect("created");
    tokio::time::sleep(Duration::from_millis(1)).await;
    let (new, old) = (widgets(&harness, "v1"), widgets(&harness, "v1beta1"));
    let color = json!({"type": "string", "nullable": true});
    change(&harness, json!([{"op": "add", "path": property(0, "color"), "value": color}])).await;
    let colored = |name: &str, color: Value| {
        let mut object = widget("v1", name, &[]).into_value();
        object["spec"]["color"] = color;
        Dynamic::from_value(object).expect("an object")
    };
    new.create(colored("a", json!("red"))).await.expect("created");
    new.create(colored("b", Value::Null)).await.expect("created");
    let spec = |it: &Stored| parse(it)["spec"].clone();
    let read =
        async |api: &DynamicApi, name: &str| spec(&api.get("default", name).await.expect("found"));
    assert_eq!(read(&new, "a").await, json!({"size": 3, "color": "red"}));
    assert_eq!(read(&old, "a").await, json!({"size": 3}), "its own schema has no such field");

    // Null is what it may be no longer.
    let path = format!("{}/nullable", property(0, "color"));
    change(&harness, json!([{"op": "remove", "path": path}])).await;
    assert_eq!(read(&new, "b").await, json!({"size": 3}));
    assert_eq!(read(&new, "a").await, json!({"size": 3, "color": "red"}));
    change(&harness, json!([{"op": "remove", "path": property(0, "color")}])).await;
    for api in [&new, &old] {
        assert_eq!(read(api, "a").await, json!({"size": 3}));
        let list = api.list("default", ListOptions::default()).await.expect("a list");
        assert!(list.items.iter().all(|it| spec(it) == json!({"size": 3})));
        let mut watch = api.watch("default", ListOptions::default()).await.expect("a watch");
        let event = watch.next().await.expect("an event").expect("no error");
        assert_eq!(spec(&event.object), json!({"size": 3}));
    }
    // The next write, of whatever, takes it out of the store.
    let before = new.get("default", "a").await.expect("found");
    let label = json!({"metadata": {"labels": {"a": "b"}}}).to_string();
    let options = WriteOptions::default();
    let after = new.patch("default", "a", PatchKind::Merge, label.into(), options).await;
    let generation = |it: &Stored| parse(it)["metadata"]["generation"].clone();
    assert_eq!(generation(&after.expect("patched")), generation(&before));
    let stored = at_rest(&store, "a").await;
    assert_eq!(stored["spec"], json!({"size": 3}));
}

/// Nobody copies what need not be changed.
#[tokio::test(start_paused = true)]
async fn objects_that_are_as_their_schema_has_them_are_shared_as_they_are() {
    let harness = start(&[("v1", true)]).await;
    let widgets = widgets(&harness, "v1");
    let created = widgets.create(widget("v1", "w", &[])).await.expect("created");
    for _ in 0..2 {
        let found = widgets.get("default", "w").await.expect("found");
        assert_eq!(found.bytes.as_ptr(), created.bytes.as_ptr());
        let list = widgets.list("default", ListOptions::default()).await.expect("a list");
        assert_eq!(list.items[0].bytes.as_ptr(), created.bytes.as_ptr());
    }
}

/// What goes to the store is pruned by the version that is stored, also if nobody serves it.
#[tokio::test(start_paused = true)]
async fn a_stored_version_that_is_not_served_prunes() {
    let store = Arc::new(Memory::new());
    let harness = harness::start_over(World::simulated(1), store.clone()).await;
    let mut definition = definition(&[("v1", true), ("v1beta1", false)]);
    definition.spec.versions[0].served = false;
    harness.client.api::<CustomResourceDefinition>().create(definition).await.expect("created");
    tokio::time::sleep(Duration::from_millis(1)).await;
    change(
        &harness,
        json!([{"op": "add", "path": property(1, "color"), "value": {"type": "string"}}]),
    )
    .await;
    let mut object = widget("v1beta1", "w", &[]).into_value();
    object["spec"]["color"] = json!("red");
    let object = Dynamic::from_value(object).expect("an object");
    widgets(&harness, "v1beta1").create(object).await.expect("created");
    let stored = at_rest(&store, "w").await;
    assert_eq!(
        (&stored["apiVersion"], &stored["spec"]),
        (&json!("example.com/v1"), &json!({"size": 3}))
    );
}

/// Fields become selectable, and get defaults, after objects were stored.
#[tokio::test(start_paused = true)]
async fn objects_are_selected_by_what_their_definition_says_now() {
    let harness = start(&[("v1", true)]).await;
    let widgets = widgets(&harness, "v1");
    let created = widgets.create(widget("v1", "w", &[])).await.expect("created");
    let select = |fields: &str| ListOptions {
        field_selector: Some(fields.to_owned()),
        ..ListOptions::default()
    };
    let fields = json!([{"jsonPath": ".spec.size"}]);
    let path = "/spec/versions/0/selectableFields";
    change(&harness, json!([{"op": "add", "path": path, "value": fields}])).await;
    let found = async |fields: &str| {
        widgets.list("default", select(fields)).await.expect("a list").items.len()
    };
    assert_eq!((found("spec.size=3").await, found("spec.size=4").await), (1, 0));
    let mut watch = widgets.watch("default", select("spec.size=3")).await.expect("a watch");
    assert!(watch.next().await.is_some_and(|it| it.is_ok()), "the object that was there");
    let mut other = widget("v1", "x", &[]).into_value();
    other["spec"]["size"] = json!(5);
    widgets.create(Dynamic::from_value(other).expect("an object")).await.expect("created");

    let fields = json!([{"jsonPath": ".spec.size"}, {"jsonPath": ".spec.color"}]);
    change(
        &harness,
        json!([
            {"op": "add", "path": property(0, "color"), "value": {"type": "string", "default": "red"}},
            {"op": "replace", "path": path, "value": fields},
        ]),
    )
    .await;
    assert_eq!((found("spec.color=red").await, found("spec.color=").await), (2, 0));
    assert!(watch.next().await.is_none(), "watches of the old definition end");
    // Whoever comes again where it was sees what happened as the definition has it now.
    let since = created.meta.resource_version.to_string();
    let resumed = ListOptions { resource_version: Some(since), ..select("spec.color=red") };
    let mut resumed = widgets.watch("default", resumed).await.expect("a watch");
    let event = resumed.next().await.expect("an event").expect("no error");
    assert_eq!(event.object.meta.key.name, "x");
}

/// Generations that the status of a definition is about: of itself, and of its first condition.
fn generations(definition: &CustomResourceDefinition) -> (Option<i64>, Option<i64>) {
    let status = definition.status.as_ref().expect("a status");
    let first = status.conditions.iter().flatten().next().expect("a condition");
    (status.observed_generation, first.observed_generation)
}

#[tokio::test(start_paused = true)]
async fn a_status_says_which_generation_it_is_about_while_the_gate_is_on() {
    let store = Arc::new(Memory::new());
    let start = async |gates: &str| {
        let gates = Gates::parse(gates).expect("gates");
        let config = Config { gates, ..harness::everything() };
        let started = harness::try_start_over(World::simulated(1), store.clone(), config).await;
        started.expect("the server starts")
    };
    let tell = async |harness: &Harness, generation: i64| {
        let definitions = harness.client.api::<CustomResourceDefinition>();
        let mut told = (*definitions.get("", NAME).await.expect("found")).clone();
        let status = told.status.get_or_insert_default();
        status.observed_generation = Some(generation);
        let conditions = status.conditions.as_mut().expect("conditions");
        conditions[0].observed_generation = Some(generation);
        definitions.update_status(told).await.expect("updated");
        generations(&definitions.get("", NAME).await.expect("found"))
    };
    let off = start("CRDObservedGenerationTracking=false").await;
    let definitions = off.client.api::<CustomResourceDefinition>();
    definitions.create(definition(&[("v1", true)])).await.expect("created");
    settle().await;
    assert_eq!(tell(&off, 1).await, (None, None));
    off.tasks.shutdown(Duration::from_secs(10)).await.expect("it stops");
    let on = start("").await;
    assert_eq!(tell(&on, 1).await, (Some(1), Some(1)));
    on.tasks.shutdown(Duration::from_secs(10)).await.expect("it stops");
    // What is said already goes on.
    let off = start("CRDObservedGenerationTracking=false").await;
    assert_eq!(tell(&off, 2).await, (Some(2), Some(2)));
}

/// Of either version: both are read from the same place.
#[tokio::test(start_paused = true)]
async fn a_watch_by_a_selectable_field_sees_what_comes_into_the_selection_and_leaves_it() {
    let harness = harness::start(World::simulated(1)).await;
    let mut definition = definition(&[("v1", true), ("v1beta1", false)]);
    for version in &mut definition.spec.versions {
        let mut schema = api_tree(version);
        let fields = &mut schema["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        fields["color"] = json!({"type": "string"});
        schema["selectableFields"] = json!([{"jsonPath": ".spec.color"}]);
        *version = serde_json::from_value(schema).expect("a version");
    }
    harness.client.api::<CustomResourceDefinition>().create(definition).await.expect("created");
    tokio::time::sleep(Duration::from_millis(1)).await;
    let new = widgets(&harness, "v1");
    let red = || ListOptions {
        field_selector: Some("spec.color=red".to_owned()),
        ..ListOptions::default()
    };
    let mut watches = Vec::new();
    for version in ["v1", "v1beta1"] {
        watches.push(widgets(&harness, version).watch("default", red()).await.expect("a watch"));
    }
    let colored = |name: &str, color: &str| {
        let mut object = widget("v1", name, &[]).into_value();
        object["spec"]["color"] = json!(color);
        Dynamic::from_value(object).expect("an object")
    };
    new.create(colored("a", "red")).await.expect("created");
    new.create(colored("b", "blue")).await.expect("created");
    for (name, color) in [("b", "red"), ("a", "blue"), ("b", "red"), ("b", "green")] {
        let patch = json!({"spec": {"color": color, "size": 4}}).to_string();
        let options = WriteOptions::default();
        let patched = new.patch("default", name, PatchKind::Merge, patch.into(), options).await;
        patched.expect("patched");
    }
    for watch in &mut watches {
        for expected in ["Added a", "Added b", "Deleted a", "Deleted b"] {
            let event = watch.next().await.expect("an event").expect("no error");
            assert_eq!(format!("{:?} {}", event.kind, event.object.meta.key.name), expected);
        }
    }
    let unknown =
        ListOptions { field_selector: Some("spec.size=3".to_owned()), ..ListOptions::default() };
    let refused = new.watch("default", unknown).await.err().expect("nobody selects by it");
    assert_eq!(refused.code(), 400);
}

fn api_tree(version: &impl serde::Serialize) -> Value {
    serde_json::to_value(version).expect("JSON")
}

/// Nothing is compiled before somebody needs it, and nothing stays that nobody uses.
#[tokio::test(start_paused = true)]
async fn what_is_compiled_of_a_definition_goes_when_nobody_uses_it() {
    const MINUTE: Duration = Duration::from_secs(60);
    let harness = start(&[("v1", true)]).await;
    let resource = GroupVersionResource::new("example.com", "v1", "widgets");
    let kind = harness.server.registry().kinds().find(&resource).expect("served").clone();
    assert!(!kind.is_compiled(), "nobody has written one");
    let widgets = widgets(&harness, "v1");
    widgets.create(widget("v1", "a", &[])).await.expect("created");
    assert!(kind.is_compiled());
    tokio::time::sleep(6 * MINUTE).await;
    widgets.create(widget("v1", "b", &[])).await.expect("created");
    tokio::time::sleep(5 * MINUTE).await;
    assert!(kind.is_compiled(), "it was used between two sweeps");
    tokio::time::sleep(5 * MINUTE).await;
    assert!(!kind.is_compiled());
    // What was dropped is made again, and goes again.
    let mut large = widget("v1", "c", &[]).into_value();
    large["spec"]["size"] = json!(8);
    let refused = widgets.create(Dynamic::from_value(large).expect("an object")).await;
    assert_eq!(refused.expect_err("it is out of bounds").code(), 422);
    assert!(kind.is_compiled());
    tokio::time::sleep(10 * MINUTE).await;
    assert!(!kind.is_compiled());
    assert_eq!(
        widgets.list("default", ListOptions::default()).await.expect("a list").items.len(),
        2
    );
}

fn parse(stored: &Stored) -> Value {
    serde_json::from_slice(&stored.bytes).expect("JSON")
}

fn condition(definition: &CustomResourceDefinition) -> Option<&str> {
    let conditions = definition.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|it| it.type_ == "Terminating")?.reason.as_deref()
}

#[tokio::test(start_paused = true)]
async fn a_definition_waits_for_its_last_object_and_takes_no_new_ones() {
    let harness = start(&[("v1", true)]).await;
    let widgets = widgets(&harness, "v1");
    widgets.create(widget("v1", "free", &[])).await.expect("created");
    widgets.create(widget("v1", "held", &["example.com/hold"])).await.expect("created");
    let definitions = harness.client.api::<CustomResourceDefinition>();
    definitions.delete("", NAME, DeleteOptions::default()).await.expect("marked");
    let marked = definitions.get("", NAME).await.expect("still there");
    assert_eq!(
        marked.metadata.finalizers.as_deref(),
        Some(&["customresourcecleanup.apiextensions.k8s.io".to_owned()][..])
    );
    assert!(condition(&marked).is_some());
    // Nothing runs but what the events start: no time passes.
    let started = tokio::time::Instant::now();
    settle().await;
    let marked = definitions.get("", NAME).await.expect("still there");
    assert_eq!(condition(&marked), Some("InstanceDeletionInProgress"));
    let list = widgets.list("default", ListOptions::default()).await.expect("a list");
    assert_eq!(list.items.len(), 1);
    let refused = widgets.create(widget("v1", "late", &[])).await.expect_err("terminating");
    assert_eq!(refused.code(), 405);
    let late = widget("v1", "late", &[]).into_value().to_string();
    let refused =
        widgets.patch("default", "late", PatchKind::Apply, late.into(), WriteOptions::default());
    assert_eq!(refused.await.expect_err("terminating").code(), 405);

    let release = json!({"metadata": {"finalizers": null}}).to_string();
    let options = WriteOptions::default();
    widgets
        .patch("default", "held", PatchKind::Merge, release.into(), options)
        .await
        .expect("released");
    settle().await;
    assert!(definitions.get("", NAME).await.expect_err("gone").is_not_found());
    assert_eq!(started.elapsed(), Duration::ZERO);
}

/// Lets every task do what it can without time passing.
async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}
