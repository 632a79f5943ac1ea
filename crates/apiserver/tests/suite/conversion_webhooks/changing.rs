//! A definition that changes while its objects are watched: its watches end, and whoever comes again
//! where it was misses nothing and sees nothing twice.

use apimachinery::GroupVersionResource;
use client::{DynamicApi, ListOptions, WatchStream};
use futures_util::StreamExt as _;
use futures_util::future::join;
use serde_json::{Value, json};

use super::{DEFINITION, Setting, V1, V2, rope};

/// Watches, and begins anew where it was when a watch ends.
struct Follower {
    api: DynamicApi,
    watch: WatchStream,
    /// Of the last event.
    version: u64,
    names: Vec<String>,
}

impl Follower {
    async fn of(on: &Setting, version: &str) -> Self {
        let api = on.site.harness.client.dynamic(GroupVersionResource::new(
            "example.com",
            version,
            "ropes",
        ));
        let list = api.list("default", ListOptions::default()).await.expect("a list");
        let version = list.resource_version.parse().expect("a revision");
        let watch = watch(&api, version).await;
        Self { api, watch, version, names: Vec::new() }
    }

    /// The object of this name, which comes in the end.
    async fn until(&mut self, name: &str) -> Value {
        loop {
            let Some(event) = self.watch.next().await else {
                self.watch = watch(&self.api, self.version).await;
                continue;
            };
            let event = event.expect("no error");
            let object: Value = serde_json::from_slice(&event.object.bytes).expect("JSON");
            let version = object["metadata"]["resourceVersion"].as_str().expect("a version");
            let version = version.parse().expect("a revision");
            assert!(version > self.version, "{object} was seen before");
            self.version = version;
            self.names.push(object["metadata"]["name"].as_str().expect("a name").to_owned());
            if object["metadata"]["name"] == name {
                return object;
            }
        }
    }
}

async fn watch(api: &DynamicApi, since: u64) -> WatchStream {
    let resource_version = Some(since.to_string());
    let options = ListOptions { resource_version, ..ListOptions::default() };
    api.watch("default", options).await.expect("a watch")
}

impl Setting {
    /// Changes the definition by a JSON patch.
    async fn redefine(&mut self, patch: &Value) {
        let headers = [("content-type", "application/json-patch+json")];
        let (head, answer) = self.connection.send("PATCH", DEFINITION, &headers, patch).await;
        assert_eq!(head.status, 200, "{}", String::from_utf8_lossy(&answer));
    }

    async fn make(&mut self, version: &str, name: &str) {
        let (path, field) = if version == "v1" { (V1, "size") } else { (V2, "length") };
        self.done("POST", path, &rope(version, name, json!({field: 1}))).await;
    }
}

fn color(version: usize, schema: &Value) -> Value {
    let path =
        format!("/spec/versions/{version}/schema/openAPIV3Schema/properties/spec/properties/color");
    json!([{"op": "replace", "path": path, "value": schema}])
}

#[tokio::test]
async fn a_changed_schema_holds_for_what_comes_next_in_every_version() {
    let mut on = Setting::start().await;
    let (mut one, mut two) = (Follower::of(&on, "v1").await, Follower::of(&on, "v2").await);
    on.make("v1", "a").await;
    assert_eq!(one.until("a").await["spec"], json!({"size": 1}));
    on.redefine(&color(0, &json!({"type": "string", "default": "red"}))).await;
    on.make("v1", "b").await;
    assert_eq!(one.until("b").await["spec"], json!({"size": 1, "color": "red"}));
    assert_eq!(two.until("b").await["spec"], json!({"length": 1, "color": "red"}));
    // A bound that those from before do not keep.
    on.redefine(&color(0, &json!({"type": "string", "default": "blue", "maxLength": 4}))).await;
    on.make("v1", "c").await;
    assert_eq!(one.until("c").await["spec"]["color"], "blue");
    assert_eq!(two.until("c").await["spec"]["color"], "blue");
    let long = rope("v1", "d", json!({"color": "green"}));
    assert_eq!(on.call("POST", V1, &long).await.0, 422);
    for follower in [&one, &two] {
        assert_eq!(follower.names, ["a", "b", "c"]);
    }
}

#[tokio::test]
async fn a_version_that_is_not_served_for_a_while_has_no_gap() {
    let mut on = Setting::start().await;
    let (mut one, mut two) = (Follower::of(&on, "v1").await, Follower::of(&on, "v2").await);
    on.make("v2", "a").await;
    two.until("a").await;
    let served =
        |is: bool| json!([{"op": "replace", "path": "/spec/versions/1/served", "value": is}]);
    on.redefine(&served(false)).await;
    assert!(two.watch.next().await.is_none(), "nobody serves it");
    let options = ListOptions::default();
    let err = two.api.watch("default", options).await.err().expect("it is not served");
    assert!(err.is_not_found(), "{err}");
    on.make("v1", "b").await;
    on.redefine(&served(true)).await;
    on.make("v2", "c").await;
    two.watch = watch(&two.api, two.version).await;
    let seen = two.until("c").await;
    assert_eq!(
        (&seen["apiVersion"], &seen["spec"]),
        (&json!("example.com/v2"), &json!({"length": 1}))
    );
    one.until("c").await;
    for follower in [&one, &two] {
        assert_eq!(follower.names, ["a", "b", "c"]);
    }
}

#[tokio::test]
async fn objects_stay_what_they_are_when_another_version_is_stored() {
    let mut on = Setting::start().await;
    let (mut one, mut two) = (Follower::of(&on, "v1").await, Follower::of(&on, "v2").await);
    on.make("v1", "a").await;
    let storage = |first: bool| {
        json!([
            {"op": "replace", "path": "/spec/versions/0/storage", "value": first},
            {"op": "replace", "path": "/spec/versions/1/storage", "value": !first},
        ])
    };
    on.redefine(&storage(false)).await;
    on.make("v1", "b").await;
    on.make("v2", "c").await;
    on.redefine(&storage(true)).await;
    on.make("v2", "d").await;
    for (follower, path, spec) in
        [(&mut one, V1, json!({"size": 1})), (&mut two, V2, json!({"length": 1}))]
    {
        for name in ["a", "b", "c", "d"] {
            assert_eq!(follower.until(name).await["spec"], spec, "{name}");
        }
        assert_eq!(follower.names, ["a", "b", "c", "d"]);
        let list = on.get(path).await;
        let items = list["items"].as_array().expect("a list");
        assert!(items.len() == 4 && items.iter().all(|it| it["spec"] == spec), "{list}");
    }
    let stored = &on.get(DEFINITION).await["status"]["storedVersions"];
    assert_eq!(stored, &json!(["v1", "v2"]));
}

#[tokio::test]
async fn conversion_comes_and_goes_and_nothing_is_lost() {
    let mut on = Setting::start().await;
    let (mut one, mut two) = (Follower::of(&on, "v1").await, Follower::of(&on, "v2").await);
    let by_webhook = on.get(DEFINITION).await["spec"]["conversion"].clone();
    let conversion =
        |it: &Value| json!([{"op": "replace", "path": "/spec/conversion", "value": it}]);
    on.make("v1", "a").await;
    assert_eq!(two.until("a").await["spec"], json!({"length": 1}));
    on.asked();
    on.redefine(&conversion(&json!({"strategy": "None"}))).await;
    on.make("v1", "b").await;
    assert_eq!(two.until("b").await["apiVersion"], "example.com/v2");
    assert!(on.asked().is_empty(), "there is nobody to ask");
    on.redefine(&conversion(&by_webhook)).await;
    on.make("v1", "c").await;
    assert_eq!(two.until("c").await["spec"], json!({"length": 1}));
    assert_eq!(one.until("c").await["spec"], json!({"size": 1}));
    for follower in [&one, &two] {
        assert_eq!(follower.names, ["a", "b", "c"]);
    }
}

/// Writes and changes of the definition, as quickly as they can, while both versions are followed.
#[tokio::test]
async fn many_changes_at_once_leave_no_gap() {
    let mut on = Setting::start().await;
    let (mut one, mut two) = (Follower::of(&on, "v1").await, Follower::of(&on, "v2").await);
    let names: Vec<String> = (0..24).map(|it| format!("r{it}")).collect();
    let last = names.last().expect("some").clone();
    let write = async {
        for (index, name) in names.iter().enumerate() {
            let schema = json!({"type": "string", "default": format!("c{index}")});
            on.redefine(&color(0, &schema)).await;
            on.make(if index % 2 == 0 { "v1" } else { "v2" }, name).await;
        }
    };
    let follow = join(one.until(&last), two.until(&last));
    join(write, follow).await;
    assert_eq!(one.names, names);
    assert_eq!(two.names, names);
}
