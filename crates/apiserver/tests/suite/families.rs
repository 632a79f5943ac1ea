//! Kinds in several versions: written in one, read, watched, patched and applied in the other.

use std::sync::Arc;

use api::protobuf::{Envelope, message_named};
use apiserver::{Compaction, Config, Encoding};
use bytes::Bytes;
use client::{DynamicApi, ListOptions, PatchKind, WriteOptions};
use futures_util::StreamExt as _;
use http_body_util::BodyExt as _;
use kvstore::memory::Memory;
use kvstore::{KeyRange, Op, RangeRequest, Store as _, Txn};
use serde_json::{Value, json};
use stdx::World;

use crate::harness::wire::{ADMIN, Connection, Site};
use crate::harness::{self, Harness};

const V1: &str = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
const V2: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
const CORE: &str = "/api/v1/namespaces/default/events";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn target() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"})
}

fn memory(percent: i32) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": percent});
    json!({"type": "Resource", "resource": {"name": "memory", "target": target}})
}

fn cpu(percent: i32) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": percent});
    json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
}

fn v2(name: &str, metrics: &Value) -> Value {
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": name},
        "spec": {"maxReplicas": 5, "scaleTargetRef": target(), "metrics": metrics},
    })
}

fn v1(name: &str, percent: i32) -> Value {
    json!({
        "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": name},
        "spec": {"maxReplicas": 5, "scaleTargetRef": target(), "targetCPUUtilizationPercentage": percent},
    })
}

fn event(name: &str) -> Value {
    json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": name}, "type": "Normal",
        "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "example.com/c", "reportingInstance": "c-1",
        "action": "Binding", "reason": "Bound", "note": "it is bound",
        "regarding": {"kind": "Pod", "name": "web", "namespace": "default"},
    })
}

async fn connect() -> (Site, Connection) {
    let site = Site::start().await;
    let connection = site.connect(ADMIN).await;
    (site, connection)
}

async fn done(connection: &mut Connection, method: &str, path: &str, body: &Value) -> Value {
    let (code, answer) = connection.call(method, path, body).await;
    assert!(code < 300, "{method} {path}: {answer}");
    answer
}

async fn patch(connection: &mut Connection, path: &str, form: &str, body: &Value) -> (u16, Value) {
    let kind = format!("application/{form}");
    let (head, answer) = connection.send("PATCH", path, &[("content-type", &kind)], body).await;
    (head.status.as_u16(), serde_json::from_slice(&answer).expect("JSON"))
}

#[tokio::test]
async fn an_autoscaler_is_one_object_in_two_versions() {
    let (_site, mut connection) = connect().await;
    let metrics = json!([memory(60), cpu(70)]);
    let created = done(&mut connection, "POST", V2, &v2("a", &metrics)).await;
    assert_eq!(created["spec"]["metrics"], metrics);

    let path = format!("{V1}/a");
    let read = done(&mut connection, "GET", &path, &Value::Null).await;
    assert_eq!(read["apiVersion"], "autoscaling/v1");
    assert_eq!(read["spec"]["targetCPUUtilizationPercentage"], 70);
    assert_eq!(read["metadata"]["uid"], created["metadata"]["uid"]);
    assert_eq!(read["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
    let saved = &read["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/metrics"];
    assert!(saved.as_str().is_some_and(|it| it.contains("memory")), "{read}");

    // What is read can be written, and changes nothing.
    let same = done(&mut connection, "PUT", &path, &read).await;
    assert_eq!(same["metadata"]["resourceVersion"], read["metadata"]["resourceVersion"]);

    // Each form of patch is one of the version of its path; the other version sees what it means.
    for (form, body, percent) in [
        ("merge-patch+json", json!({"spec": {"targetCPUUtilizationPercentage": 71}}), 71),
        ("strategic-merge-patch+json", json!({"spec": {"targetCPUUtilizationPercentage": 72}}), 72),
        (
            "json-patch+json",
            json!([{"op": "replace", "path": "/spec/targetCPUUtilizationPercentage", "value": 73}]),
            73,
        ),
    ] {
        let (code, patched) = patch(&mut connection, &path, form, &body).await;
        assert_eq!((code, &patched["apiVersion"]), (200, &json!("autoscaling/v1")), "{patched}");
        assert_eq!(patched["spec"]["targetCPUUtilizationPercentage"], percent);
        let seen = done(&mut connection, "GET", &format!("{V2}/a"), &Value::Null).await;
        assert_eq!(seen["spec"]["metrics"], json!([memory(60), cpu(percent)]), "{form}");
        assert_eq!(seen["metadata"].get("annotations"), None, "{seen}");
    }

    // Created in v1, without a metric: the default shows in v2.
    let mut bare = v1("b", 0);
    bare["spec"].as_object_mut().unwrap().remove("targetCPUUtilizationPercentage");
    let created = done(&mut connection, "POST", V1, &bare).await;
    assert_eq!(created["spec"]["minReplicas"], 1);
    let seen = done(&mut connection, "GET", &format!("{V2}/b"), &Value::Null).await;
    assert_eq!(seen["spec"]["metrics"], json!([cpu(80)]));
    let list = done(&mut connection, "GET", V1, &Value::Null).await;
    assert_eq!(list["apiVersion"], "autoscaling/v1");
    let versions: Vec<&Value> =
        list["items"].as_array().unwrap().iter().map(|it| &it["apiVersion"]).collect();
    assert_eq!(versions, ["autoscaling/v1", "autoscaling/v1"]);

    // A status that v1 cannot express.
    let status = json!({"status": {"desiredReplicas": 2, "conditions": [{"type": "AbleToScale", "status": "True"}]}});
    done(&mut connection, "PATCH", &format!("{V2}/b/status"), &status).await;
    let body = json!({"status": {"currentReplicas": 1}});
    done(&mut connection, "PATCH", &format!("{V1}/b/status"), &body).await;
    let seen = done(&mut connection, "GET", &format!("{V2}/b"), &Value::Null).await;
    assert_eq!(seen["status"]["conditions"][0]["type"], "AbleToScale");
    assert_eq!(seen["status"]["currentReplicas"], 1);

    let deleted = done(&mut connection, "DELETE", &path, &Value::Null).await;
    assert_eq!(deleted["status"], "Success");
    assert_eq!(connection.call("GET", &format!("{V2}/a"), &Value::Null).await.0, 404);
}

#[tokio::test]
async fn refusals_are_in_the_words_of_what_is_stored() {
    let (_site, mut connection) = connect().await;
    let mut bad = v1("a", 50);
    bad["spec"]["maxReplicas"] = json!(0);
    let (code, refused) = connection.call("POST", V1, &bad).await;
    assert_eq!(code, 422, "{refused}");
    let text = refused["message"].as_str().unwrap();
    assert!(text.starts_with("HorizontalPodAutoscaler.autoscaling \"a\" is invalid: "), "{text}");
    // Strictness is of the version that was written in.
    let strict = format!("{V1}?fieldValidation=Strict");
    let mut odd = v1("a", 50);
    odd["spec"]["metrics"] = json!([]);
    let (code, refused) = connection.call("POST", &strict, &odd).await;
    assert_eq!(code, 400, "{refused}");
    let text = refused["message"].as_str().unwrap();
    assert!(text.contains("unknown field \"spec.metrics\""), "{text}");

    let mut late = event("e");
    late["deprecatedCount"] = json!(3);
    late["type"] = json!("Odd");
    let (code, refused) = connection.call("POST", EVENTS, &late).await;
    assert_eq!(code, 422, "{refused}");
    let fields: Vec<&Value> =
        refused["details"]["causes"].as_array().unwrap().iter().map(|it| &it["field"]).collect();
    assert_eq!(fields, ["type", "count"]);
    // The core group takes what it always took.
    let old = json!({
        "metadata": {"name": "e"}, "count": 3, "type": "Odd",
        "involvedObject": {"kind": "Pod", "name": "web", "namespace": "default"},
    });
    done(&mut connection, "POST", CORE, &old).await;
    // And events.k8s.io lets nobody change what it says.
    let (code, refused) =
        connection.call("PATCH", &format!("{EVENTS}/e"), &json!({"note": "else"})).await;
    assert_eq!(code, 422, "{refused}");
}

#[tokio::test]
async fn an_event_is_one_object_in_two_groups() {
    let (_site, mut connection) = connect().await;
    let created = done(&mut connection, "POST", EVENTS, &event("new")).await;
    assert_eq!(created["apiVersion"], "events.k8s.io/v1");
    let seen = done(&mut connection, "GET", &format!("{CORE}/new"), &Value::Null).await;
    assert_eq!(
        (&seen["apiVersion"], &seen["message"], &seen["involvedObject"]["name"]),
        (&json!("v1"), &json!("it is bound"), &json!("web"))
    );
    assert_eq!(seen["reportingComponent"], "example.com/c");
    let old = json!({
        "metadata": {"name": "old"}, "count": 3, "type": "Warning", "message": "m", "reason": "R",
        "involvedObject": {"kind": "Node", "name": "n", "namespace": "default"}, "source": {"component": "kubelet"},
    });
    done(&mut connection, "POST", CORE, &old).await;
    let seen = done(&mut connection, "GET", &format!("{EVENTS}/old"), &Value::Null).await;
    assert_eq!((&seen["note"], &seen["deprecatedCount"]), (&json!("m"), &json!(3)), "{seen}");
    assert_eq!(seen["deprecatedSource"]["component"], "kubelet");

    // Each group selects by the names of its own fields.
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().expect("items").iter();
        items.map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let select =
        format!("{EVENTS}?fieldSelector=regarding.kind%3DPod,reportingController%3Dexample.com/c");
    assert_eq!(names(&done(&mut connection, "GET", &select, &Value::Null).await), ["new"]);
    let select = format!("{CORE}?fieldSelector=involvedObject.kind%3DNode");
    assert_eq!(names(&done(&mut connection, "GET", &select, &Value::Null).await), ["old"]);
    let select = format!("{EVENTS}?fieldSelector=involvedObject.kind%3DNode");
    let (code, refused) = connection.call("GET", &select, &Value::Null).await;
    assert_eq!(
        (code, &refused["message"]),
        (400, &json!("field label not supported: involvedObject.kind"))
    );

    // A series goes on, in either group.
    let series = json!({"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}});
    done(&mut connection, "PATCH", &format!("{EVENTS}/new"), &series).await;
    let series = json!({"series": {"count": 3}});
    done(&mut connection, "PATCH", &format!("{CORE}/new"), &series).await;
    let seen = done(&mut connection, "GET", &format!("{EVENTS}/new"), &Value::Null).await;
    assert_eq!(
        seen["series"],
        json!({"count": 3, "lastObservedTime": "2026-01-01T00:00:01.000000Z"})
    );
    let applied = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": {"name": "old", "labels": {"a": "b"}},
    });
    let path = format!("{EVENTS}/old?fieldManager=me");
    let (code, seen) = patch(&mut connection, &path, "apply-patch+yaml", &applied).await;
    assert_eq!(code, 200, "{seen}");
    let managers: Vec<(&Value, &Value)> = seen["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (&it["operation"], &it["apiVersion"]))
        .collect();
    let (apply, update) = (json!("Apply"), json!("Update"));
    let (new_group, core) = (json!("events.k8s.io/v1"), json!("v1"));
    assert_eq!(managers, [(&apply, &new_group), (&update, &core)]);
}

#[tokio::test]
async fn tables_and_protobuf_are_of_the_version_that_was_asked_for() {
    let (_site, mut connection) = connect().await;
    done(&mut connection, "POST", V2, &v2("a", &json!([cpu(50), memory(60)]))).await;
    done(&mut connection, "POST", EVENTS, &event("e")).await;
    let mut cells = Vec::new();
    for path in [V1, V2] {
        let (code, table) = connection.get(path, TABLE).await;
        assert_eq!(code, 200);
        let names: Vec<&Value> =
            table["columnDefinitions"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
        assert_eq!(
            names,
            ["Name", "Reference", "Targets", "MinPods", "MaxPods", "Replicas", "Age"]
        );
        cells.push(table["rows"][0]["cells"].as_array().unwrap()[..6].to_vec());
    }
    assert_eq!(
        cells[1],
        json!(["a", "Deployment/web", "cpu: <unknown>/50%, memory: <unknown>/60%", "1", 5, 0])
            .as_array()
            .unwrap()[..]
    );
    // CPU comes last where it has a field of its own.
    assert_eq!(cells[0][2], "memory: <unknown>/60%, cpu: <unknown>/50%");
    let (_, table) = connection.get(EVENTS, TABLE).await;
    assert_eq!(table["rows"][0]["cells"][3], "pod/web");
    assert_eq!(table["rows"][0]["cells"][6], "it is bound");

    for (path, api_version, kind) in [
        (format!("{V1}/a"), "autoscaling/v1", "HorizontalPodAutoscaler"),
        (format!("{V2}/a"), "autoscaling/v2", "HorizontalPodAutoscaler"),
        (format!("{EVENTS}/e"), "events.k8s.io/v1", "Event"),
        (format!("{CORE}/e"), "v1", "Event"),
        (V1.to_owned(), "autoscaling/v1", "HorizontalPodAutoscalerList"),
        (EVENTS.to_owned(), "events.k8s.io/v1", "EventList"),
    ] {
        let accept = [("accept", PROTOBUF)];
        let (head, body) = connection.send("GET", &path, &accept, &Value::Null).await;
        assert_eq!(
            (head.status.as_u16(), &head.headers["content-type"]),
            (200, &PROTOBUF.parse().unwrap())
        );
        let envelope = Envelope::parse(&body).expect("an envelope");
        assert_eq!((envelope.api_version, envelope.kind), (api_version, kind));
    }
    // In protobuf in one version, read in the other.
    let message = message_named("autoscaling/v1", "HorizontalPodAutoscaler").expect("a message");
    let body = v1("p", 42).to_string();
    let body = api::protobuf::encode(
        message,
        ("autoscaling/v1", "HorizontalPodAutoscaler"),
        body.as_bytes(),
    );
    let headers = [("content-type", PROTOBUF)];
    let body = Bytes::from(body.expect("encoded"));
    let (head, answer) = connection.send_bytes("POST", V1, &headers, body).await;
    assert_eq!(head.status, 201, "{}", String::from_utf8_lossy(&answer));
    let seen = done(&mut connection, "GET", &format!("{V2}/p"), &Value::Null).await;
    assert_eq!(seen["spec"]["metrics"], json!([cpu(42)]));
}

#[tokio::test]
async fn a_watch_is_of_its_version() {
    let (site, mut connection) = connect().await;
    done(&mut connection, "POST", V2, &v2("first", &json!([cpu(50)]))).await;
    let mut watches = Vec::new();
    for (path, accept) in [
        (V1, "application/json"),
        (V2, "application/json"),
        (V1, TABLE),
        (V1, "application/vnd.kubernetes.protobuf;stream=watch"),
    ] {
        let mut own = site.connect(ADMIN).await;
        let path = format!("{path}?watch=true");
        let (head, body) = own.open("GET", &path, &[("accept", accept)], Bytes::new()).await;
        assert_eq!(head.status, 200);
        watches.push((own, body, Vec::<u8>::new()));
    }
    done(&mut connection, "POST", V1, &v1("second", 42)).await;
    done(&mut connection, "DELETE", &format!("{V2}/first"), &Value::Null).await;
    for (index, (_connection, body, read)) in watches.iter_mut().enumerate() {
        let marker: &[u8] = if index == 3 { b"DELETED" } else { b"\"DELETED\"" };
        while !read.windows(marker.len()).any(|it| it == marker) {
            let frame = body.frame().await.expect("an event").expect("no error");
            read.extend_from_slice(&frame.into_data().expect("data"));
        }
    }
    let lines = |index: usize| -> Vec<Value> {
        let text = String::from_utf8_lossy(&watches[index].2).into_owned();
        text.lines().filter_map(|it| serde_json::from_str(it).ok()).collect()
    };
    for (index, api_version) in [(0, "autoscaling/v1"), (1, "autoscaling/v2")] {
        let seen: Vec<(Value, Value, Value)> = lines(index)
            .into_iter()
            .map(|it| {
                let object = &it["object"];
                (
                    it["type"].clone(),
                    object["metadata"]["name"].clone(),
                    object["apiVersion"].clone(),
                )
            })
            .collect();
        let expected = [("ADDED", "first"), ("ADDED", "second"), ("DELETED", "first")]
            .map(|(kind, name)| (json!(kind), json!(name), json!(api_version)));
        assert_eq!(seen, expected);
    }
    assert_eq!(lines(0)[1]["object"]["spec"]["targetCPUUtilizationPercentage"], 42);
    assert_eq!(lines(2)[1]["object"]["rows"][0]["cells"][2], "cpu: <unknown>/42%");
    let frames = &watches[3].2;
    let has = |text: &[u8]| frames.windows(text.len()).any(|it| it == text);
    assert!(has(b"autoscaling/v1") && !has(b"autoscaling/v2\x12"));
}

fn managers(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().expect("managers").iter();
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    let mut all: Vec<String> = entries
        .map(|it| {
            format!(
                "{} {} {}",
                text(&it["manager"]),
                text(&it["operation"]),
                text(&it["apiVersion"])
            )
        })
        .collect();
    all.sort();
    all
}

#[tokio::test]
async fn ownership_is_held_in_the_version_that_it_was_taken_in() {
    let (_site, mut connection) = connect().await;
    let apply = |path: String, query: &str, body: Value| (format!("{path}?{query}"), body);
    let (path, body) =
        apply(format!("{V2}/a"), "fieldManager=two", v2("a", &json!([memory(60), cpu(70)])));
    let (code, made) = patch(&mut connection, &path, "apply-patch+yaml", &body).await;
    assert_eq!(code, 201, "{made}");

    // In v1 it is another field, of the same thing: whoever changes it takes it from its owner.
    let (path, body) = apply(format!("{V1}/a"), "fieldManager=one", v1("a", 75));
    let (code, refused) = patch(&mut connection, &path, "apply-patch+yaml", &body).await;
    assert_eq!((code, &refused["reason"]), (409, &json!("Conflict")), "{refused}");
    assert_eq!(
        refused["details"]["causes"],
        json!([{"reason": "FieldManagerConflict", "message": "conflict with \"two\"", "field": ".spec.metrics"}]),
        "{refused}"
    );
    // The same value is no conflict: both own it.
    let (path, body) = apply(format!("{V1}/a"), "fieldManager=one", v1("a", 70));
    let (code, shared) = patch(&mut connection, &path, "apply-patch+yaml", &body).await;
    assert_eq!(code, 200, "{shared}");
    assert_eq!(managers(&shared), ["one Apply autoscaling/v1", "two Apply autoscaling/v2"]);

    let (path, body) = apply(format!("{V1}/a"), "fieldManager=one&force=true", v1("a", 75));
    let (code, forced) = patch(&mut connection, &path, "apply-patch+yaml", &body).await;
    assert_eq!(code, 200, "{forced}");
    let seen = done(&mut connection, "GET", &format!("{V2}/a"), &Value::Null).await;
    assert_eq!(seen["spec"]["metrics"], json!([memory(60), cpu(75)]), "nothing else was lost");
    let owned = |object: &Value, manager: &str| {
        let entries = object["metadata"]["managedFields"].as_array().unwrap().iter();
        let mut own = entries.filter(|it| it["manager"] == manager);
        own.next().map(|it| it["fieldsV1"]["f:spec"].clone()).unwrap_or_default()
    };
    assert_eq!(owned(&seen, "two").get("f:metrics"), None, "{seen}");
    assert!(owned(&seen, "one").get("f:targetCPUUtilizationPercentage").is_some(), "{seen}");
    assert!(owned(&seen, "two").get("f:maxReplicas").is_some(), "{seen}");

    // An update in v2 takes from the owner in v1.
    let body = json!({"spec": {"metrics": [memory(60), cpu(80)]}});
    let path = format!("{V2}/a?fieldManager=three");
    let (code, updated) = patch(&mut connection, &path, "merge-patch+json", &body).await;
    assert_eq!(code, 200, "{updated}");
    assert_eq!(owned(&updated, "one").get("f:targetCPUUtilizationPercentage"), None, "{updated}");
    assert_eq!(
        managers(&updated),
        ["one Apply autoscaling/v1", "three Update autoscaling/v2", "two Apply autoscaling/v2"]
    );
    // And who applied in v1 gets a conflict with it, in its own words.
    let (path, body) = apply(format!("{V1}/a"), "fieldManager=one", v1("a", 75));
    let (code, refused) = patch(&mut connection, &path, "apply-patch+yaml", &body).await;
    assert_eq!(code, 409, "{refused}");
    assert_eq!(
        refused["message"],
        "Apply failed with 1 conflict: conflict with \"three\" using autoscaling/v2: .spec.metrics"
    );
}

/// What one applied in one version and leaves out in the other goes, unless somebody else has it.
#[tokio::test]
async fn what_is_no_longer_applied_goes_across_versions() {
    let (_site, mut connection) = connect().await;
    let mut first = v2("a", &json!([cpu(70)]));
    first["spec"]["minReplicas"] = json!(2);
    first["metadata"]["labels"] = json!({"mine": "x", "both": "y"});
    let path = format!("{V2}/a?fieldManager=me");
    let (code, made) = patch(&mut connection, &path, "apply-patch+yaml", &first).await;
    assert_eq!(code, 201, "{made}");
    let other = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a", "labels": {"both": "y"}},
    });
    let path = format!("{V2}/a?fieldManager=other");
    let (code, made) = patch(&mut connection, &path, "apply-patch+yaml", &other).await;
    assert_eq!(code, 200, "{made}");
    let path = format!("{V1}/a?fieldManager=me");
    let (code, moved) = patch(&mut connection, &path, "apply-patch+yaml", &v1("a", 70)).await;
    assert_eq!(code, 200, "{moved}");
    assert_eq!(moved["metadata"]["labels"], json!({"both": "y"}), "{moved}");
    assert_eq!(moved["spec"]["minReplicas"], 1, "the default again");
    assert_eq!(moved["spec"]["targetCPUUtilizationPercentage"], 70);
    assert_eq!(managers(&moved), ["me Apply autoscaling/v1", "other Apply autoscaling/v2"]);
}

async fn start(memory: &Arc<Memory>, encoding: Encoding) -> Harness {
    let config = Config { compaction: Compaction::ByServer, encoding, ..Config::default() };
    let harness = harness::try_start_over(World::simulated(1), memory.clone(), config).await;
    harness.expect("the server starts")
}

fn dynamic(harness: &Harness, group: &str, version: &str, plural: &str) -> DynamicApi {
    harness.client.dynamic(apimachinery::GroupVersionResource::new(group, version, plural))
}

/// The stored version stands in the envelope, whichever was written; a value in the other version
/// is read as well.
#[tokio::test(start_paused = true)]
async fn one_version_is_stored_and_each_is_read() {
    let memory = Arc::new(Memory::new());
    let stored_as_v1 = {
        let mut object = v1("old", 33);
        object["metadata"] = json!({"name": "old", "namespace": "default", "uid": "u"});
        let message =
            message_named("autoscaling/v1", "HorizontalPodAutoscaler").expect("a message");
        let names = ("autoscaling/v1", "HorizontalPodAutoscaler");
        api::protobuf::encode(message, names, object.to_string().as_bytes()).expect("encoded")
    };
    let key = b"/registry/horizontalpodautoscalers/default/old".to_vec();
    memory.txn(Txn::when(Vec::new(), vec![Op::put(key, stored_as_v1)])).await.expect("written");
    let harness = start(&memory, Encoding::Protobuf).await;
    let old = dynamic(&harness, "autoscaling", "v1", "horizontalpodautoscalers");
    let new = dynamic(&harness, "autoscaling", "v2", "horizontalpodautoscalers");
    let parse = |it: &api::Stored| -> Value { serde_json::from_slice(&it.bytes).expect("JSON") };
    let read = parse(new.get("default", "old").await.expect("found").as_ref());
    assert_eq!(
        (&read["apiVersion"], &read["spec"]["metrics"]),
        (&json!("autoscaling/v2"), &json!([cpu(33)]))
    );

    let mut object = v1("a", 44);
    object["metadata"]["namespace"] = json!("default");
    let object = api::Dynamic::from_value(object).expect("an object");
    old.create(object).await.expect("created");
    let mut object = event("e");
    object["metadata"]["namespace"] = json!("default");
    let object = api::Dynamic::from_value(object).expect("an object");
    let events = dynamic(&harness, "events.k8s.io", "v1", "events");
    events.create(object).await.expect("created");
    for (key, api_version) in [
        ("/registry/horizontalpodautoscalers/default/a", "autoscaling/v2"),
        ("/registry/events/default/e", "v1"),
    ] {
        let request = RangeRequest::latest(KeyRange::one(key.as_bytes()));
        let entries = memory.range(request).await.expect("read").entries;
        let envelope = Envelope::parse(&entries[0].value).expect("an envelope");
        assert_eq!(envelope.api_version, api_version, "{key}");
    }
    // In process, everybody is told in the version that they ask for.
    let mut watch = old.watch("default", ListOptions::default()).await.expect("a watch");
    let first = watch.next().await.expect("an event").expect("no error");
    assert_eq!(parse(&first.object)["spec"]["targetCPUUtilizationPercentage"], 44);
    let options = WriteOptions::default();
    let body = json!({"spec": {"metrics": [memory_metric()]}}).to_string();
    new.patch("default", "a", PatchKind::Merge, body.into(), options).await.expect("patched");
    let _old = watch.next().await.expect("an event").expect("no error");
    let changed = watch.next().await.expect("an event").expect("no error");
    let changed = parse(&changed.object);
    assert_eq!(changed["apiVersion"], "autoscaling/v1");
    assert_eq!(changed["spec"].get("targetCPUUtilizationPercentage"), None, "{changed}");
}

fn memory_metric() -> Value {
    memory(60)
}

#[tokio::test]
async fn discovery_prefers_the_newer_version_and_shows_both() {
    let (_site, mut connection) = connect().await;
    let group = done(&mut connection, "GET", "/apis/autoscaling", &Value::Null).await;
    assert_eq!(group["preferredVersion"]["groupVersion"], "autoscaling/v2");
    let versions: Vec<&Value> =
        group["versions"].as_array().unwrap().iter().map(|it| &it["groupVersion"]).collect();
    assert_eq!(versions, ["autoscaling/v2", "autoscaling/v1"]);
    for (path, hash) in [
        ("/apis/autoscaling/v1", "qwQve8ut294="),
        ("/apis/autoscaling/v2", "qwQve8ut294="),
        ("/apis/events.k8s.io/v1", "r2yiGXH7wu8="),
    ] {
        let list = done(&mut connection, "GET", path, &Value::Null).await;
        assert_eq!(list["resources"][0]["storageVersionHash"], hash, "{path}");
    }
}
