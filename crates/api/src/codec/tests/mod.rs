//! What is read and written as Go does it.

mod every_kind;
mod places;
mod samples;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Value, json};

use super::{decode, encode, encode_object, encode_raw, tree};
use crate::schemas::schema;

const POD: &str = "io.k8s.api.core.v1.Pod";
const CONFIG_MAP: &str = "io.k8s.api.core.v1.ConfigMap";
const CONDITION: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Condition";

fn read(json: &Value) -> Value {
    tree(&decode::<Pod>(POD, json.to_string().as_bytes()).expect("Go takes it"))
}

/// As an object is written.
fn written<T: serde::Serialize>(definition: &str, object: &T) -> Value {
    serde_json::from_slice(&encode_object(definition, object)).expect("JSON")
}

#[test]
fn numbers_are_written_as_go_writes_them() {
    let check = |value: f64, expected: &str| {
        assert_eq!(String::from_utf8(encode(&value)).unwrap(), expected);
    };
    check(7.0, "7");
    check(0.0, "0");
    check(-0.5, "-0.5");
    check(1_000_000_000_000.0, "1000000000000");
    check(1e20, "100000000000000000000");
    check(1e21, "1e+21");
    check(-1.5e300, "-1.5e+300");
    check(0.000_001, "0.000001");
    check(1.5e-7, "1.5e-7");
    check(f64::NAN, "null");
}

#[test]
fn raw_values_are_written_as_the_text_that_go_makes_of_them() {
    let raw = json!({
        "b<": "a<b>&c\u{2028}\u{2029}\u{7f}\u{e4}",
        "a": ["<", {"c": "\u{1}\"\n\t\\/"}, "&&"],
        "n": [3, -7, 1.0, 1e21, 0.000_000_1, true, null],
    });
    let text = "{\"a\":[\"\\u003c\",{\"c\":\"\\u0001\\\"\\n\\t\\\\/\"},\"\\u0026\\u0026\"],\
                \"b\\u003c\":\"a\\u003cb\\u003e\\u0026c\\u2028\\u2029\u{7f}\u{e4}\",\
                \"n\":[3,-7,1,1e+21,1e-7,true,null]}";
    assert_eq!(encode_raw(&raw), text);
    assert_eq!(serde_json::from_str::<Value>(text).unwrap()["b<"], raw["b<"]);
    let revision: ControllerRevision = serde_json::from_value(json!({
        "metadata": {"name": "a", "annotations": {"why": "a<b"}}, "data": raw, "revision": 1,
    }))
    .unwrap();
    let bytes = encode_object("io.k8s.api.apps.v1.ControllerRevision", &revision);
    let written = String::from_utf8(bytes).unwrap();
    assert!(written.contains(&format!("\"data\":{text},")), "{written}");
    // What Go has types for is text to everybody.
    assert!(written.contains("\"why\":\"a<b\""), "{written}");
}

#[test]
fn null_is_the_zero_value_wherever_a_value_must_be() {
    let pod = read(&json!({
        "metadata": { "labels": { "a": null }, "finalizers": [null, "b"], "creationTimestamp": null },
        "spec": {
            "containers": [null, {
                "name": null, "args": [null], "resources": { "limits": { "cpu": null } },
                "env": [null], "ports": [{ "containerPort": null }], "command": null,
            }],
            "hostNetwork": null,
        },
    }));
    assert_eq!(pod["metadata"]["labels"], json!({ "a": "" }));
    assert_eq!(pod["metadata"]["finalizers"], json!(["", "b"]));
    assert_eq!(pod["spec"]["containers"][0], json!({ "name": "" }));
    let second = &pod["spec"]["containers"][1];
    assert_eq!(second["args"], json!([""]));
    assert_eq!(second["resources"]["limits"], json!({ "cpu": "0" }));
    assert_eq!(second["env"], json!([{ "name": "" }]));
    assert_eq!(second["ports"], json!([{ "containerPort": 0 }]));
    assert!(second.get("command").is_none() && pod["spec"].get("hostNetwork").is_none());
}

#[test]
fn a_time_that_go_always_has_may_be_absent_and_null() {
    for text in [
        r#"{"type":"A","status":"True"}"#,
        r#"{"type":"A","lastTransitionTime":null,"status":"True"}"#,
        r#"{"type":"A","status":"True","lastTransitionTime":"0001-01-01T00:00:00Z"}"#,
    ] {
        let condition: Condition = decode(CONDITION, text.as_bytes()).expect("Go takes it");
        let expected = json!({
            "lastTransitionTime": null, "message": "", "reason": "", "status": "True", "type": "A",
        });
        assert_eq!(written(CONDITION, &condition), expected, "{text}");
        let again = decode::<Condition>(CONDITION, &encode_object(CONDITION, &condition));
        assert_eq!(again.expect("our own"), condition);
    }
    let time = Time("2024-05-06T07:08:09Z".parse().unwrap());
    let condition =
        Condition { last_transition_time: time, ..decode(CONDITION, b"{}").expect("all absent") };
    let written = written(CONDITION, &condition);
    assert_eq!(written["lastTransitionTime"], "2024-05-06T07:08:09Z");
}

#[test]
fn a_text_that_looks_like_the_zero_time_is_a_text() {
    let text = r#"{"data":{"lastTransitionTime":"0001-01-01T00:00:00Z"}}"#;
    let map: ConfigMap = decode(CONFIG_MAP, text.as_bytes()).unwrap();
    let written = written(CONFIG_MAP, &map);
    assert_eq!(written["data"]["lastTransitionTime"], "0001-01-01T00:00:00Z");
}

#[test]
fn names_that_are_not_said_are_not_wrong_and_others_are() {
    for text in [r#"{}"#, r#"{"apiVersion":"","kind":null}"#, r#"{"apiVersion":"v1","kind":"Pod"}"#]
    {
        decode::<Pod>(POD, text.as_bytes()).expect(text);
    }
    for text in [r#"{"apiVersion":"v2"}"#, r#"{"kind":"Node"}"#, r#"{"kind":1}"#] {
        assert!(decode::<Pod>(POD, text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn what_the_bytes_say_beside_the_object_is_noted() {
    let text = r#"{
        "apiVersion": "other/v9", "kind": "Else", "extra": {"any": 1}, "metadata": {"labels": {"a": "1", "a": "2"}},
        "spec": {"containers": [{"name": "x"}, {"nam\u0065": "a", "name": "b", "colour": "red"}], "hostname": "h", "hostname": "i"}
    }"#;
    let notes = schema(POD).validate_fields(text.as_bytes());
    assert_eq!(
        notes.problems,
        [
            r#"unknown field "extra""#,
            r#"duplicate field "metadata.labels.a""#,
            r#"duplicate field "spec.containers[1].name""#,
            r#"unknown field "spec.containers[1].colour""#,
            r#"duplicate field "spec.hostname""#,
        ]
    );
    assert_eq!((notes.api_version.as_str(), notes.kind.as_str()), ("other/v9", "Else"));
    let many: Vec<String> = (0..500).map(|it| format!("\"x{it}\":1")).collect();
    let notes = schema(POD).validate_fields(format!("{{{}}}", many.join(",")).as_bytes());
    assert_eq!(notes.problems.len(), 100);
}

#[test]
fn wrong_types_are_errors() {
    for text in [
        r#"{"spec":{"containers":{}}}"#,
        r#"{"spec":{"containers":[[]]}}"#,
        r#"{"spec":{"containers":[null, 1]}}"#,
        r#"{"spec":{"hostNetwork":"yes"}}"#,
        r#"{"spec":{"priority":"1"}}"#,
        r#"{"spec":{"priority":1.5}}"#,
        r#"{"metadata":{"name":1}}"#,
        r#"{"metadata":[]}"#,
        r#"{"metadata":{"creationTimestamp":""}}"#,
        r#"{} x"#,
        r#"[]"#,
    ] {
        assert!(decode::<Pod>(POD, text.as_bytes()).is_err(), "{text}");
    }
}

/// An object of a kind as it is written, but for what it is called. What is expected was seen in
/// answers of kube-apiserver v1.36.
fn check_written(api_version: &str, kind: &str, given: &Value, expected: &Value) {
    let kinds = crate::kinds();
    let names = |it: &dyn crate::Kind| (it.names().api_version(), it.names().kind.clone());
    let wanted = (api_version.to_owned(), kind.to_owned());
    let found = kinds.iter().find(|it| names(it.as_ref()) == wanted).expect("it is served");
    let object = found.decode(given.to_string().as_bytes()).expect("an object");
    let mut written = object.to_value();
    let fields = written.as_object_mut().expect("an object");
    fields.retain(|name, _| !matches!(name.as_str(), "apiVersion" | "kind"));
    assert_eq!(&written, expected, "{api_version} {kind}");
}

#[test]
fn what_go_always_writes_is_always_there() {
    check_written(
        "v1",
        "Event",
        &json!({}),
        &json!({
            "metadata": {}, "involvedObject": {}, "source": {}, "firstTimestamp": null, "lastTimestamp": null,
            "eventTime": null, "reportingComponent": "", "reportingInstance": "",
        }),
    );
    check_written(
        "events.k8s.io/v1",
        "Event",
        &json!({}),
        &json!({
            "metadata": {}, "eventTime": null, "regarding": {}, "deprecatedSource": {},
            "deprecatedFirstTimestamp": null, "deprecatedLastTimestamp": null,
        }),
    );
    check_written(
        "rbac.authorization.k8s.io/v1",
        "ClusterRole",
        &json!({ "rules": [] }),
        &json!({ "metadata": {}, "rules": null }),
    );
    check_written(
        "rbac.authorization.k8s.io/v1",
        "Role",
        &json!({ "rules": [{}] }),
        &json!({ "metadata": {}, "rules": [{ "verbs": null }] }),
    );
    check_written(
        "v1",
        "LimitRange",
        &json!({}),
        &json!({ "metadata": {}, "spec": { "limits": null } }),
    );
    check_written(
        "storage.k8s.io/v1",
        "CSINode",
        &json!({ "spec": { "drivers": [{ "name": "a" }] } }),
        &json!({
            "metadata": {}, "spec": { "drivers": [{ "name": "a", "nodeID": "", "topologyKeys": null }] },
        }),
    );
    check_written(
        "discovery.k8s.io/v1",
        "EndpointSlice",
        &json!({ "endpoints": [{}] }),
        &json!({
            "metadata": {}, "addressType": "", "endpoints": [{ "addresses": null, "conditions": {} }],
            "ports": null,
        }),
    );
}

#[test]
fn structs_are_there_and_zero_is_not() {
    check_written(
        "apps/v1",
        "Deployment",
        &json!({ "spec": {
            "replicas": 0, "paused": false, "minReadySeconds": 0, "selector": {},
            "template": { "metadata": { "creationTimestamp": null, "labels": {} }, "spec": {
                "hostNetwork": false, "hostname": "", "terminationGracePeriodSeconds": 0,
                "containers": [{ "name": "a", "args": [], "image": "", "env": [{ "name": "A", "value": "" }] }],
            } },
        } }),
        &json!({
            "metadata": {}, "spec": {
                "replicas": 0, "selector": {}, "strategy": {},
                "template": { "metadata": {}, "spec": {
                    "terminationGracePeriodSeconds": 0,
                    "containers": [{ "name": "a", "env": [{ "name": "A" }], "resources": {} }],
                } },
            }, "status": {},
        }),
    );
    check_written(
        "apps/v1",
        "DaemonSet",
        &json!({}),
        &json!({
            "metadata": {}, "spec": {
                "selector": null, "template": { "metadata": {}, "spec": { "containers": null } },
                "updateStrategy": {},
            },
            "status": {
                "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
            },
        }),
    );
    check_written(
        "v1",
        "Service",
        &json!({}),
        &json!({ "metadata": {}, "spec": {}, "status": { "loadBalancer": {} } }),
    );
}
