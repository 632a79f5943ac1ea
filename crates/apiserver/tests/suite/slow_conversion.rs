//! Versions of a custom resource that somebody else converts, who takes time: asked once for many,
//! and nobody waits who need not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::apiextensions::{CustomKind, CustomResourceDefinition};
use api::{Dynamic, Kind, Resource as _, Stored};
use apimachinery::{ApiError, GroupVersionResource};
use apiserver::registry::Converter;
use bytes::Bytes;
use client::{DynamicApi, ListOptions, PatchKind, WatchStream, WriteOptions};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use stdx::{Random, World};
use tokio::sync::Semaphore;

use crate::harness::{self, Harness};

const NAME: &str = "ropes.example.com";

/// v1 has a size where v2 has a length. Each call waits for a permit.
struct Slow {
    /// How many objects each call was about, and the version.
    calls: Mutex<Vec<(usize, String)>>,
    permits: Semaphore,
    is_down: AtomicBool,
}

impl Slow {
    fn take_calls(&self) -> Vec<(usize, String)> {
        std::mem::take(&mut self.calls.lock().expect("no panic"))
    }
}

impl Converter for Slow {
    fn convert<'a>(
        &'a self,
        objects: Vec<Bytes>,
        api_version: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Bytes>, ApiError>> {
        self.calls.lock().expect("no panic").push((objects.len(), api_version.to_owned()));
        Box::pin(async move {
            let _permit = self.permits.acquire().await.expect("open");
            if self.is_down.load(Ordering::SeqCst) {
                return Err(ApiError::internal("it is down"));
            }
            objects.iter().map(|it| convert(it, api_version)).collect()
        })
    }
}

fn convert(json: &[u8], api_version: &str) -> Result<Bytes, ApiError> {
    let mut object: Value = serde_json::from_slice(json).expect("JSON");
    let (from, to) = match api_version {
        "example.com/v2" => ("size", "length"),
        _ => ("length", "size"),
    };
    if let Some(spec) = object["spec"].as_object_mut()
        && let Some(value) = spec.remove(from)
    {
        if value == 666 {
            return Err(ApiError::internal("666 has no counterpart"));
        }
        spec.insert(to.to_owned(), value);
    }
    object["apiVersion"] = json!(api_version);
    // As others write it: with blanks.
    Ok(serde_json::to_vec_pretty(&object).expect("JSON").into())
}

fn definition() -> CustomResourceDefinition {
    let version = |name: &str, field: &str| {
        json!({
            "name": name, "served": true, "storage": name == "v1",
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {field: {"type": "integer"}, "color": {"type": "string"}}},
            }}},
        })
    };
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": NAME},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "ropes", "singular": "rope", "kind": "Rope", "listKind": "RopeList"},
            "versions": [version("v1", "size"), version("v2", "length")],
        },
    });
    CustomResourceDefinition::decode(definition.to_string().as_bytes()).expect("a definition")
}

fn rope(version: &str, name: &str, spec: &Value) -> Dynamic {
    Dynamic::from_value(json!({
        "apiVersion": format!("example.com/{version}"), "kind": "Rope",
        "metadata": {"name": name, "namespace": "default"}, "spec": spec,
    }))
    .expect("an object")
}

struct Bed {
    harness: Harness,
    kinds: Vec<Arc<dyn Kind>>,
    slow: Arc<Slow>,
    v1: DynamicApi,
    v2: DynamicApi,
}

async fn start() -> Bed {
    start_with(1).await
}

async fn start_with(seed: u64) -> Bed {
    let harness = harness::start(World::simulated(seed)).await;
    let definitions = harness.client.api::<CustomResourceDefinition>();
    definitions.create(definition()).await.expect("created");
    tokio::time::sleep(Duration::from_millis(1)).await;
    let established = definitions.get("", NAME).await.expect("it is there");
    let permits = Semaphore::new(1_000);
    let slow = Arc::new(Slow { calls: Mutex::default(), permits, is_down: AtomicBool::default() });
    let kinds = CustomKind::of(&established);
    assert_eq!(kinds.len(), 2, "it is established");
    harness.server.registry().set_custom(NAME, kinds.clone(), Some(slow.clone()));
    let api = |version: &str| {
        harness.client.dynamic(GroupVersionResource::new("example.com", version, "ropes"))
    };
    let (v1, v2) = (api("v1"), api("v2"));
    Bed { harness, kinds, slow, v1, v2 }
}

fn parse(stored: &Stored) -> Value {
    serde_json::from_slice(&stored.bytes).expect("JSON")
}

async fn next(watch: &mut WatchStream) -> Value {
    let event = watch.next().await.expect("an event").expect("no error");
    parse(&event.object)
}

#[tokio::test(start_paused = true)]
async fn many_are_converted_at_once() {
    let bed = start().await;
    for index in 0..100 {
        let rope = rope("v1", &format!("r{index:03}"), &json!({"size": index}));
        bed.v1.create(rope).await.expect("created");
    }
    assert_eq!(bed.slow.take_calls(), [], "the stored version needs nobody");
    let list = bed.v2.list("default", ListOptions::default()).await.expect("a list");
    assert_eq!(list.items.len(), 100);
    assert_eq!(parse(&list.items[7])["spec"], json!({"length": 7}));
    assert_eq!(parse(&list.items[7])["apiVersion"], "example.com/v2");
    assert_eq!(bed.slow.take_calls(), [(100, "example.com/v2".to_owned())]);
    let mut watch = bed.v2.watch("default", ListOptions::default()).await.expect("a watch");
    for index in 0..100 {
        assert_eq!(next(&mut watch).await["spec"], json!({"length": index}));
    }
    assert_eq!(bed.slow.take_calls(), [(100, "example.com/v2".to_owned())]);
    let list = bed.v1.list("default", ListOptions::default()).await.expect("a list");
    assert_eq!((list.items.len(), bed.slow.take_calls()), (100, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_conversion_but_who_wants_it() {
    let bed = start().await;
    let mut of_stored = bed.v1.watch("default", ListOptions::default()).await.expect("a watch");
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(bed.v2.watch("default", ListOptions::default()).await.expect("a watch"));
    }
    let held = bed.slow.permits.acquire_many(1_000).await.expect("permits");
    bed.v1.create(rope("v1", "a", &json!({"size": 1}))).await.expect("created");
    for watch in &mut waiting {
        assert!(tokio::time::timeout(Duration::from_millis(100), watch.next()).await.is_err());
    }
    assert_eq!(next(&mut of_stored).await["spec"], json!({"size": 1}));
    // Neither reads nor writes nor other watchers stand still.
    bed.v1.create(rope("v1", "b", &json!({"size": 2}))).await.expect("created");
    assert_eq!(next(&mut of_stored).await["spec"], json!({"size": 2}));
    assert_eq!(
        bed.v1.list("default", ListOptions::default()).await.expect("a list").items.len(),
        2
    );
    drop(held);
    let all = waiting.iter_mut().map(|it| async move { (next(it).await, next(it).await) });
    for (a, b) in futures_util::future::join_all(all).await {
        assert_eq!((&a["spec"], &b["spec"]), (&json!({"length": 1}), &json!({"length": 2})));
        assert_eq!(a["apiVersion"], "example.com/v2");
    }
    let calls = bed.slow.take_calls();
    assert_eq!(calls.len(), 2, "one call for each event, not for each watcher: {calls:?}");
}

#[tokio::test(start_paused = true)]
async fn writes_in_the_other_version_are_stored_in_one() {
    let bed = start().await;
    let options =
        || WriteOptions { field_manager: Some("two".to_owned()), ..WriteOptions::default() };
    let created = bed.v2.create(rope("v2", "a", &json!({"length": 1}))).await.expect("created");
    assert_eq!(parse(&created)["spec"], json!({"length": 1}));
    let stored = bed.v1.get("default", "a").await.expect("found");
    assert_eq!(parse(&stored)["spec"], json!({"size": 1}));
    let body = json!({"spec": {"length": 2}}).to_string();
    let patched = bed.v2.patch("default", "a", PatchKind::Merge, body.into(), options()).await;
    let patched = patched.expect("patched");
    assert_eq!(parse(&patched)["spec"], json!({"length": 2}));
    // What changes nothing is not written.
    let body = json!({"spec": {"length": 2}}).to_string();
    let again = bed.v2.patch("default", "a", PatchKind::Merge, body.into(), options()).await;
    assert_eq!(again.expect("patched").meta.resource_version, patched.meta.resource_version);

    let config = |version: &str, spec: Value| {
        let (api_version, metadata) = (format!("example.com/{version}"), json!({"name": "a"}));
        json!({"apiVersion": api_version, "kind": "Rope", "metadata": metadata, "spec": spec})
            .to_string()
    };
    let one = |force| WriteOptions {
        field_manager: Some("one".to_owned()),
        force,
        ..WriteOptions::default()
    };
    let body = config("v1", json!({"size": 3}));
    let refused =
        bed.v1.patch("default", "a", PatchKind::Apply, body.clone().into(), one(false)).await;
    let refused = refused.expect_err("a conflict");
    assert_eq!(
        refused.message(),
        "Apply failed with 1 conflict: conflict with \"two\" using example.com/v2: .spec.length"
    );
    let applied = bed.v1.patch("default", "a", PatchKind::Apply, body.into(), one(true)).await;
    assert_eq!(parse(&applied.expect("applied"))["spec"], json!({"size": 3}));
    // In the other version it is left out, and goes.
    let body = config("v2", json!({"color": "red"}));
    let applied = bed.v2.patch("default", "a", PatchKind::Apply, body.into(), one(false)).await;
    let applied = parse(&applied.expect("applied"));
    assert_eq!(applied["spec"], json!({"color": "red"}));
    let entries = applied["metadata"]["managedFields"].as_array().expect("managers");
    let versions: Vec<_> = entries.iter().map(|it| (&it["manager"], &it["apiVersion"])).collect();
    // Who created it still has the spec itself, without any of its parts.
    let (one, creator) = (json!("one"), json!("test"));
    let version = json!("example.com/v2");
    assert_eq!(versions, [(&one, &version), (&creator, &version)]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_converted_is_an_error_in_the_words_of_who_could_not() {
    let bed = start().await;
    let mut watch = bed.v2.watch("default", ListOptions::default()).await.expect("a watch");
    bed.v1.create(rope("v1", "bad", &json!({"size": 666}))).await.expect("created");
    let why = "Internal error occurred: 666 has no counterpart";
    let failed = watch.next().await.expect("an event").expect_err("an error").to_string();
    assert!(failed.contains(why), "{failed}");
    assert!(watch.next().await.is_none(), "the watch is over");
    let failed = bed.v2.get("default", "bad").await.expect_err("an error");
    assert_eq!((failed.code(), failed.message()), (500, why));
    bed.v1.create(rope("v1", "good", &json!({"size": 1}))).await.expect("created");
    let failed = bed.v2.list("default", ListOptions::default()).await.err().expect("an error");
    assert_eq!(failed.message(), why);
    assert!(bed.v2.get("default", "good").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn who_comes_again_after_a_failure_asks_again() {
    let bed = start().await;
    let begin = bed.v1.create(rope("v1", "a", &json!({"size": 1}))).await.expect("created");
    let options = || ListOptions {
        resource_version: Some(begin.meta.resource_version.to_string()),
        ..ListOptions::default()
    };
    let mut watches = Vec::new();
    for _ in 0..3 {
        watches.push(bed.v2.watch("default", options()).await.expect("a watch"));
    }
    bed.slow.take_calls();
    bed.slow.is_down.store(true, Ordering::SeqCst);
    let held = bed.slow.permits.acquire_many(1_000).await.expect("permits");
    bed.v1.create(rope("v1", "b", &json!({"size": 2}))).await.expect("created");
    let all = futures_util::future::join_all(watches.iter_mut().map(WatchStream::next));
    let release = async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        drop(held);
    };
    let (failures, ()) = tokio::join!(all, release);
    for failed in failures {
        let failed = failed.expect("an event").expect_err("it is down").to_string();
        assert!(failed.contains("it is down"), "{failed}");
    }
    assert_eq!(bed.slow.take_calls().len(), 1, "all who waited were told of one failure");
    bed.slow.is_down.store(false, Ordering::SeqCst);
    let mut again = bed.v2.watch("default", options()).await.expect("a watch");
    assert_eq!(next(&mut again).await["spec"], json!({"length": 2}), "nothing was left out");
}

/// Fails by chance, and takes some time by chance.
struct Moody {
    random: Random,
}

impl Converter for Moody {
    fn convert<'a>(
        &'a self,
        objects: Vec<Bytes>,
        api_version: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Bytes>, ApiError>> {
        let (delay, is_down) = (self.random.below(50), self.random.below(4) == 0);
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(delay)).await;
            match is_down {
                true => Err(ApiError::internal("not now")),
                false => objects.iter().map(|it| convert(it, api_version)).collect(),
            }
        })
    }
}

/// Watches until `until` is seen, from where it was whenever it is told of a failure: what it saw,
/// as revisions and lengths.
async fn follow(v2: &DynamicApi, begin: u64, until: u64) -> Vec<(u64, Value)> {
    let mut seen: Vec<(u64, Value)> = Vec::new();
    // A failure costs a watch; one in four fails.
    for _ in 0..10_000 {
        let at = seen.last().map_or(begin, |it| it.0);
        if at >= until {
            break;
        }
        let options =
            ListOptions { resource_version: Some(at.to_string()), ..ListOptions::default() };
        let mut watch = v2.watch("default", options).await.expect("a watch");
        while let Some(Ok(event)) = watch.next().await {
            let object = parse(&event.object);
            assert_eq!(object["apiVersion"], "example.com/v2", "{object}");
            let revision = event.object.meta.resource_version;
            seen.push((revision, object["spec"]["length"].clone()));
            if revision >= until {
                break;
            }
        }
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn whatever_fails_no_watcher_sees_a_gap_a_repeat_or_another_version() {
    for seed in 0..20 {
        let bed = start_with(seed).await;
        let random = Random::from_seed(seed);
        let begin = bed.v1.create(rope("v1", "r", &json!({"size": 0}))).await.expect("created");
        let begin = begin.meta.resource_version;
        let moody = Arc::new(Moody { random: Random::from_seed(seed + 1_000) });
        bed.harness.server.registry().set_custom(NAME, bed.kinds.clone(), Some(moody));
        let write = async {
            let mut written = Vec::new();
            for size in 1..=40 {
                tokio::time::sleep(Duration::from_millis(random.below(40))).await;
                let body = json!({"spec": {"size": size}}).to_string();
                let options = WriteOptions::default();
                let patched =
                    bed.v1.patch("default", "r", PatchKind::Merge, body.into(), options).await;
                written.push((patched.expect("patched").meta.resource_version, json!(size)));
            }
            written
        };
        // Revisions of this server: one for each write.
        let until = begin + 40;
        let all = (0..5).map(|_| follow(&bed.v2, begin, until));
        let (written, seen) = tokio::join!(write, futures_util::future::join_all(all));
        assert_eq!(written.last().map(|it| it.0), Some(until), "seed {seed}");
        for seen in seen {
            assert_eq!(seen, written, "seed {seed}");
        }
    }
}
