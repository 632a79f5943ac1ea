//! What is in the store, byte for byte, when objects are written as upstream writes them; and that
//! whatever is there is read: upstream's, and the JSON of servers before or beside this one.

mod upstream;
mod wire;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use api::apiextensions::CustomResourceDefinition;
use api::{Dynamic, Resource as _, Stored};
use apimachinery::{ApiError, GroupVersionResource, Scope};
use apiserver::{Compaction, Config, Encoding};
use client::{DynamicApi, ListOptions, PatchKind, WriteOptions};
use kvstore::memory::Memory;
use kvstore::{KeyRange, Op, RangeRequest, Store as _, Txn};
use serde_json::{Value, json};
use stdx::World;

use crate::harness::{self, Harness};

/// A server over a store that others use too.
async fn start(memory: &Arc<Memory>, seed: u64, encoding: Encoding) -> Harness {
    let config = Config { compaction: Compaction::ByServer, encoding, ..harness::everything() };
    let harness = harness::try_start_over(World::simulated(seed), memory.clone(), config).await;
    harness.expect("the server starts")
}

/// One object of each stored kind, with its kind: the `example.json` in its folder.
fn fixtures() -> Vec<(Arc<dyn api::Kind>, Value)> {
    let mut all: Vec<Value> = Vec::new();
    let folders = |parent: &Path| {
        let entries = std::fs::read_dir(parent).into_iter().flatten();
        let mut paths: Vec<_> = entries.map(|it| it.expect("an entry").path()).collect();
        paths.sort();
        paths
    };
    let groups = folders(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../api/src"));
    for kind in groups.iter().flat_map(|it| folders(it)) {
        if let Ok(text) = std::fs::read_to_string(kind.join("example.json")) {
            all.push(serde_json::from_str(&text).expect("an object"));
        }
    }
    // Pods need an account, and groups of pods the workload that they are of.
    all.sort_by_key(|it| it["kind"] != "ServiceAccount" && it["kind"] != "Workload");
    all.into_iter().map(|it| (kind_of(&it), it)).collect()
}

fn fixture(kind: &str) -> Value {
    fixtures().into_iter().map(|it| it.1).find(|it| it["kind"] == kind).expect("a fixture")
}

fn kind_of(value: &Value) -> Arc<dyn api::Kind> {
    let is_it = |it: &Arc<dyn api::Kind>| {
        value["apiVersion"] == it.names().api_version() && value["kind"] == it.names().kind
    };
    api::kinds().into_iter().find(is_it).expect("a kind")
}

fn objects(server: &Harness, kind: &dyn api::Kind) -> DynamicApi {
    server.client.dynamic(kind.names().gvr())
}

fn object(value: &Value) -> Dynamic {
    Dynamic::from_value(value.clone()).expect("an object")
}

/// Writes the object over the version that it names.
async fn update(api: &DynamicApi, value: &Value) -> Result<Arc<Stored>, ApiError> {
    let (namespace, name) = place(value);
    let options = WriteOptions::default();
    api.patch(namespace, name, PatchKind::Merge, value.to_string().into(), options).await
}

fn place(value: &Value) -> (&str, &str) {
    let text = |name: &str| value["metadata"][name].as_str().unwrap_or_default();
    (text("namespace"), text("name"))
}

async fn values(memory: &Memory) -> BTreeMap<String, Vec<u8>> {
    let all = RangeRequest::latest(KeyRange::prefix(b"/registry/"));
    let entries = memory.range(all).await.expect("read").entries;
    let text = |key: &[u8]| String::from_utf8(key.to_vec()).expect("keys are text");
    entries.iter().map(|it| (text(&it.key), it.value.to_vec())).collect()
}

fn parse(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("JSON")
}

/// Key of a namespaced or cluster-wide object.
fn key(kind: &dyn api::Kind, value: &Value) -> String {
    let (namespace, name) = place(value);
    match kind.scope() {
        Scope::Namespaced => format!("/registry/{}/{namespace}/{name}", kind.registry_prefix()),
        Scope::Cluster => format!("/registry/{}/{name}", kind.registry_prefix()),
    }
}

#[test]
fn keys_are_upstreams() {
    let mut keys = BTreeMap::new();
    for line in include_str!("upstream_keys.txt").lines().filter(|it| !it.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let group = if words[0] == "core" { "" } else { words[0] };
        keys.insert((group, words[1]), words[2]);
    }
    for kind in api::kinds() {
        let (names, prefix) = (kind.names(), kind.registry_prefix());
        let expected = keys.get(&(names.group.as_str(), names.plural.as_str()));
        let expected = expected.unwrap_or_else(|| panic!("upstream has no {}", names.plural));
        let found = match (prefix.is_empty(), kind.scope()) {
            (true, _) => "-".to_owned(),
            (false, Scope::Namespaced) => format!("/registry/{prefix}/{{ns}}/{{name}}"),
            (false, Scope::Cluster) => format!("/registry/{prefix}/{{name}}"),
        };
        assert_eq!(&found, expected, "{}", names.plural);
    }
}

#[tokio::test(start_paused = true)]
async fn objects_of_every_kind_are_stored_as_upstream_does_and_found_again() {
    let memory = Arc::new(Memory::new());
    let server = start(&memory, 1, Encoding::Protobuf).await;
    let mut served = Vec::new();
    for (kind, value) in fixtures() {
        let created = objects(&server, kind.as_ref()).create(object(&value)).await;
        let created = created.unwrap_or_else(|err| panic!("{value}: {err}"));
        served.push((kind, value, created));
    }
    // Versions that are stored as another are the business of `families`.
    let is_stored =
        |it: &&Arc<dyn api::Kind>| !it.registry_prefix().is_empty() && it.hub().is_none();
    let stored_kinds = api::kinds().iter().filter(is_stored).count();
    assert_eq!(served.len(), stored_kinds, "each kind has a fixture");
    tokio::time::sleep(Duration::from_millis(1)).await;
    let values = values(&memory).await;
    for (kind, value, created) in &served {
        let bytes = &values[&key(kind.as_ref(), value)];
        let unknown = wire::envelope(bytes);
        let type_meta = unknown.type_meta.expect("type and version");
        assert_eq!(type_meta.api_version, kind.names().api_version());
        assert_eq!(type_meta.kind, kind.names().kind);
        assert_eq!((unknown.content_encoding, unknown.content_type), Default::default());
        let meta = wire::read::<wire::Object>(bytes).metadata.expect("metadata");
        let (namespace, name) = place(value);
        assert_eq!((meta.namespace.as_str(), meta.name.as_str()), (namespace, name));
        assert_eq!(meta.uid, created.meta.uid);
        assert_eq!(api::Pairs::from(meta.labels), created.meta.labels);
        assert!(meta.creation_timestamp.is_some_and(|it| it.seconds > 0 && it.nanos == 0));
        assert_eq!((meta.resource_version, meta.self_link), Default::default());
    }
    check_contents(&values);

    // Another server, which has to decode all of it, serves the same bytes, and can write on.
    let other = start(&memory, 2, Encoding::Protobuf).await;
    for (kind, value, _) in &served {
        let (here, there) = (objects(&server, kind.as_ref()), objects(&other, kind.as_ref()));
        let (namespace, name) = place(value);
        let mine = here.get(namespace, name).await.expect("found");
        let found = there.get(namespace, name).await.expect("found");
        assert_eq!(found.bytes, mine.bytes, "{}", String::from_utf8_lossy(&found.bytes));
        assert_eq!(format!("{:?}", found.meta), format!("{:?}", mine.meta));
        let mut changed = parse(&found.bytes);
        changed["metadata"]["annotations"] = json!({"by": "other"});
        let updated = update(&there, &changed).await.expect("updated");
        assert!(updated.meta.resource_version > found.meta.resource_version);
        let refused = update(&here, &changed).await.expect_err("that was before");
        assert!(refused.is_conflict(), "{refused}");
        let seen = here.get(namespace, name).await.expect("found");
        assert_eq!(seen.bytes, updated.bytes, "{}", String::from_utf8_lossy(&seen.bytes));
    }
}

fn check_contents(values: &BTreeMap<String, Vec<u8>>) {
    let config_map: wire::ConfigMap = wire::read(&values["/registry/configmaps/default/c"]);
    assert_eq!(config_map.data["a"], "b");
    assert_eq!(config_map.data["empty"], "");
    assert_eq!(config_map.binary_data["x"], [1, 2, 255]);
    assert_eq!(config_map.immutable, Some(false));
    let lease: wire::Lease = wire::read(&values["/registry/leases/default/l"]);
    let spec = lease.spec.expect("a spec");
    assert_eq!(spec.holder_identity.as_deref(), Some("me"));
    assert_eq!(spec.lease_duration_seconds, Some(15));
    assert_eq!(spec.renew_time, Some(wire::Time { seconds: 1_704_164_645, nanos: 6_000 }));
    let deployment: wire::Deployment = wire::read(&values["/registry/deployments/default/d"]);
    let spec = deployment.spec.expect("a spec");
    assert_eq!(spec.replicas, Some(3));
    let pod = spec.template.and_then(|it| it.spec).expect("a template");
    let container = wire::Container { name: "c".to_owned(), image: "i:1".to_owned() };
    assert_eq!(pod.containers, [container]);
    assert!(!pod.host_network.unwrap_or_default());
}

#[tokio::test(start_paused = true)]
async fn a_zero_that_is_not_stored_is_no_change() {
    let memory = Arc::new(Memory::new());
    let sent = fixture("Deployment");
    let kind = kind_of(&sent);
    let mut seen = None;
    // The one that wrote it, one that decoded it, and one that is set to JSON.
    for (seed, encoding) in [(1, Encoding::Protobuf), (2, Encoding::Protobuf), (3, Encoding::Json)]
    {
        let server = start(&memory, seed, encoding).await;
        let api = objects(&server, kind.as_ref());
        if seed == 1 {
            api.create(object(&sent)).await.expect("created");
        }
        let before = api.get("default", "d").await.expect("found");
        let spec = parse(&before.bytes)["spec"]["template"]["spec"].clone();
        assert_eq!(spec.get("hostNetwork"), None, "as upstream shows it");
        if encoding == Encoding::Protobuf {
            let patch = json!({"spec": {"template": {"spec": {"hostNetwork": false}}}}).to_string();
            let options = WriteOptions::default();
            let patched = api.patch("default", "d", PatchKind::Merge, patch.into(), options).await;
            assert_eq!(patched.expect("patched").bytes, before.bytes);
        }
        assert_eq!(seen.get_or_insert_with(|| before.bytes.clone()), &before.bytes);
    }
}

#[tokio::test(start_paused = true)]
async fn json_from_before_is_read_and_becomes_protobuf_with_the_next_write() {
    let memory = Arc::new(Memory::new());
    let old = start(&memory, 1, Encoding::Json).await;
    for (kind, value) in fixtures() {
        objects(&old, kind.as_ref()).create(object(&value)).await.expect("created");
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    old.tasks.shutdown(Duration::from_secs(5)).await.expect("stopped");
    let server = start(&memory, 2, Encoding::Protobuf).await;
    for (kind, value) in fixtures() {
        let api = objects(&server, kind.as_ref());
        let (namespace, name) = place(&value);
        let key = key(kind.as_ref(), &value);
        assert!(values(&memory).await[&key].starts_with(b"{"), "{key}");
        let found = api.get(namespace, name).await.expect("it is read");
        let before = parse(&found.bytes)["metadata"]["generation"].clone();
        let mut changed = parse(&found.bytes);
        // Neither labels nor annotations: to some kinds these are as good as a spec.
        changed["metadata"]["finalizers"] = json!(["example.org/touched"]);
        let updated = update(&api, &changed).await;
        let updated = updated.unwrap_or_else(|err| panic!("{key}: {err}"));
        assert_eq!(parse(&updated.bytes)["metadata"]["generation"], before, "{key}");
        assert_eq!(
            wire::envelope(&values(&memory).await[&key]).type_meta.expect("names").kind,
            kind.names().kind
        );
    }
}

/// A patch that says no more than which version is meant, and the version after it.
async fn write_again(api: &DynamicApi, value: &Value) -> (u64, u64) {
    let (namespace, name) = place(value);
    let before = api.get(namespace, name).await.expect("found").meta.resource_version;
    let same = json!({"metadata": {"resourceVersion": before.to_string()}}).to_string();
    let options = WriteOptions::default();
    let written = api.patch(namespace, name, PatchKind::Merge, same.into(), options).await;
    (before, written.expect("written").meta.resource_version)
}

#[tokio::test(start_paused = true)]
async fn a_write_that_changes_nothing_stores_anew_what_is_in_another_form() {
    let forms = [Encoding::Json, Encoding::Protobuf];
    for (before, now) in [(forms[0], forms[1]), (forms[1], forms[0])] {
        let memory = Arc::new(Memory::new());
        let old = start(&memory, 1, before).await;
        let value = fixture("Deployment");
        let kind = kind_of(&value);
        objects(&old, kind.as_ref()).create(object(&value)).await.expect("created");
        let (first, second) = write_again(&objects(&old, kind.as_ref()), &value).await;
        assert_eq!(first, second, "it is as it should be");
        old.tasks.shutdown(Duration::from_secs(5)).await.expect("stopped");

        let server = start(&memory, 2, now).await;
        let api = objects(&server, kind.as_ref());
        let (first, second) = write_again(&api, &value).await;
        assert!(first < second, "{before:?} stays");
        let stored = values(&memory).await.remove(&key(kind.as_ref(), &value));
        assert_eq!(stored.expect("stored").starts_with(b"{"), now == Encoding::Json);
        let (first, second) = write_again(&api, &value).await;
        assert_eq!(first, second, "it was written once too often");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_changes_nothing_stores_anew_what_is_in_another_version() {
    let memory = Arc::new(Memory::new());
    let old = json!({
        "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "old", "namespace": "default", "uid": "1"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {
            "apiVersion": "apps/v1", "kind": "Deployment", "name": "web",
        }},
    });
    let place = "/registry/horizontalpodautoscalers/default/old";
    let put = Op::put(place, old.to_string());
    memory.txn(Txn::when(Vec::new(), vec![put])).await.expect("written");
    let server = start(&memory, 1, Encoding::Json).await;
    let resource = GroupVersionResource::new("autoscaling", "v2", "horizontalpodautoscalers");
    let api = server.client.dynamic(resource);
    let (first, second) = write_again(&api, &old).await;
    assert!(first < second);
    assert_eq!(parse(&values(&memory).await[place])["apiVersion"], "autoscaling/v2");
    let (first, second) = write_again(&api, &old).await;
    assert_eq!(first, second);
}

#[tokio::test(start_paused = true)]
async fn servers_with_different_encodings_over_one_store_see_each_others_writes() {
    let memory = Arc::new(Memory::new());
    let json = start(&memory, 1, Encoding::Json).await;
    let protobuf = start(&memory, 2, Encoding::Protobuf).await;
    let mut value = fixture("ConfigMap");
    value["metadata"]["name"] = json!("shared");
    let kind = kind_of(&value);
    let key = "/registry/configmaps/default/shared";
    let mut version = String::new();
    for round in 0..10 {
        let is_even = round % 2 == 0;
        let (writer, reader) = if is_even { (&json, &protobuf) } else { (&protobuf, &json) };
        let (writer, reader) = (objects(writer, kind.as_ref()), objects(reader, kind.as_ref()));
        value["data"] = json!({"round": round.to_string()});
        let written = if round == 0 {
            writer.create(object(&value)).await
        } else {
            value["metadata"]["resourceVersion"] = json!(version);
            update(&writer, &value).await
        };
        let written = written.expect("written");
        let found = reader.get("default", "shared").await.expect("found");
        assert_eq!(found.bytes, written.bytes);
        version = found.meta.resource_version.to_string();
        assert_eq!(values(&memory).await[key].starts_with(b"{"), is_even);
    }
    let list = objects(&json, kind.as_ref()).list("default", ListOptions::default()).await;
    assert_eq!(list.expect("a list").items.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn custom_resources_are_json_and_their_definitions_protobuf() {
    let memory = Arc::new(Memory::new());
    let server = start(&memory, 1, Encoding::Protobuf).await;
    let definition = fixture("CustomResourceDefinition").to_string();
    let definition = CustomResourceDefinition::decode(definition.as_bytes());
    let definitions = server.client.api::<CustomResourceDefinition>();
    definitions.create(definition.expect("a definition")).await.expect("created");
    tokio::time::sleep(Duration::from_millis(1)).await;
    let api = server.client.dynamic(GroupVersionResource::new("example.org", "v1", "fruits"));
    let fruit = json!({
        "apiVersion": "example.org/v1", "kind": "Fruit",
        "metadata": {"name": "f", "namespace": "default"}, "spec": {"parts": 0},
    });
    let created = api.create(object(&fruit)).await.expect("created");
    let found = values(&memory).await;
    wire::envelope(
        &found["/registry/apiextensions.k8s.io/customresourcedefinitions/fruits.example.org"],
    );
    let stored = parse(&found["/registry/example.org/fruits/default/f"]);
    assert_eq!(stored["metadata"].get("resourceVersion"), None);
    assert_eq!(stored["spec"], json!({"color": "red", "parts": 0}));
    // As upstream writes it: with a line's end.
    let mut upstreams = stored.clone();
    upstreams["metadata"]["name"] = json!("g");
    let value = format!("{upstreams}\n");
    let key = "/registry/example.org/fruits/default/g";
    memory.txn(Txn::of(vec![Op::put(key, value)])).await.expect("written");
    let list = api.list("default", ListOptions::default()).await.expect("a list");
    assert_eq!(list.items.len(), 2);
    assert_eq!(list.items[0].bytes, created.bytes);
    let read = parse(&list.items[1].bytes);
    let version = list.items[1].meta.resource_version.to_string();
    assert_eq!(read["metadata"]["resourceVersion"], json!(version));
    assert!(list.items[1].bytes.ends_with(b"}"));
    update(&api, &read).await.expect("updated");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_costs_only_itself() {
    let memory = Arc::new(Memory::new());
    let put = |name: &str, value: &[u8]| {
        Op::put(format!("/registry/configmaps/default/{name}"), value.to_vec())
    };
    let right = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x0e\x0a\x0c\x0a\x01a\x1a\x07default";
    let secret = b"k8s\0\x0a\x0c\x0a\x02v1\x12\x06Secret\x12\x00";
    let future = b"k8s\0\x0a\x0f\x0a\x02v9\x12\x09ConfigMap\x12\x00";
    let ops = vec![
        put("a", right),
        put("cut", &right[..right.len() - 3]),
        put("encrypted", b"k8s:enc:aescbc:v1:key1:xyz"),
        put("future", future),
        put("nothing", b""),
        put("secret", secret),
        put("text", b"not an object"),
    ];
    memory.txn(Txn::of(ops)).await.expect("written");
    let server = start(&memory, 1, Encoding::Protobuf).await;
    let api = objects(&server, kind_of(&fixture("ConfigMap")).as_ref());
    let list = api.list("default", ListOptions::default()).await.expect("a list");
    let names: Vec<_> = list.items.iter().map(|it| it.meta.key.name.as_str()).collect();
    assert_eq!(names, ["a"]);
}

/// A definition in upstream's stored version, which is not the served one.
#[tokio::test(start_paused = true)]
async fn definitions_that_upstream_wrote_are_served() {
    let memory = Arc::new(Memory::new());
    let stored = json!({
        "metadata": {"name": "fruits.example.org", "uid": "u"},
        "spec": {
            "group": "example.org", "version": "v1", "scope": "Namespaced",
            "names": {"plural": "fruits", "singular": "fruit", "kind": "Fruit", "listKind": "FruitList"},
            "validation": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {
                "type": "object", "properties": {"color": {"type": "string", "default": "red"}},
            }}}},
            "versions": [{"name": "v1", "served": true, "storage": true}],
            "conversion": {"strategy": "None"},
            "preserveUnknownFields": false,
        },
        "status": {
            "storedVersions": ["v1"],
            "acceptedNames": {"plural": "fruits", "singular": "fruit", "kind": "Fruit", "listKind": "FruitList"},
            "conditions": [{"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "True"}],
        },
    });
    let names = ("apiextensions.k8s.io/v1beta1", "CustomResourceDefinition");
    let message = api::protobuf::message_named(names.0, names.1).expect("it is known");
    let value = api::protobuf::encode(message, names, stored.to_string().as_bytes());
    let key = "/registry/apiextensions.k8s.io/customresourcedefinitions/fruits.example.org";
    memory.txn(Txn::of(vec![Op::put(key, value.expect("it encodes"))])).await.expect("written");
    let server = start(&memory, 1, Encoding::Protobuf).await;
    let fruit = json!({
        "apiVersion": "example.org/v1", "kind": "Fruit",
        "metadata": {"name": "f", "namespace": "default"}, "spec": {},
    });
    let fruits = server.client.dynamic(GroupVersionResource::new("example.org", "v1", "fruits"));
    let created = fruits.create(object(&fruit)).await.expect("the definition is served");
    assert_eq!(parse(&created.bytes)["spec"]["color"], "red");
    let definitions = server.client.api::<CustomResourceDefinition>();
    let mut definition = (*definitions.get("", "fruits.example.org").await.expect("found")).clone();
    definition.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    definitions.update(definition).await.expect("updated");
    let type_meta = wire::envelope(&values(&memory).await[key]).type_meta.expect("names");
    assert_eq!(type_meta.api_version, "apiextensions.k8s.io/v1");
}
