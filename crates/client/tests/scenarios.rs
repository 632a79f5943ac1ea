//! The pure part of the example `scenarios`.

#[path = "../examples/scenarios/normal.rs"]
mod normal;

use serde_json::{Value, json};

fn form(seen: &Value) -> Value {
    normal::form(seen, "case-one")
}

fn pod(name: &str, uid: &str, node: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "case-one", "uid": uid, "resourceVersion": "7",
            "generateName": "web-5b7fddbcc-", "creationTimestamp": "2026-01-02T03:04:05Z",
            "labels": { "pod-template-hash": "5b7fddbcc" },
            "ownerReferences": [{ "kind": "ReplicaSet", "name": "web-5b7fddbcc", "uid": uid }],
        },
        "spec": { "nodeName": node, "containers": [{ "name": "c", "volumeMounts": [] }] },
        "status": { "phase": "Running", "podIP": "10.0.0.1" },
    })
}

#[test]
fn what_is_each_runs_own_is_replaced() {
    let one = json!({ "v1 pods": [
        pod("web-5b7fddbcc-x2x4z", "11111111-1111-1111-1111-111111111111", "sim-0"),
        pod("web-5b7fddbcc-bbbbb", "22222222-2222-2222-2222-222222222222", "sim-1"),
    ] });
    let seen = form(&one);
    assert_eq!(seen["counts"], json!({ "v1 pods": 2 }));
    let pods = seen["v1 pods"].as_array().unwrap();
    assert_eq!(pods.len(), 1, "they are alike: {pods:?}");
    let metadata = &pods[0]["metadata"];
    assert_eq!(metadata["name"], "web-<hash>-<hash>");
    assert_eq!(metadata["namespace"], "<namespace>");
    assert_eq!(metadata["creationTimestamp"], "<time>");
    assert_eq!(metadata["labels"], json!({ "pod-template-hash": "<hash>" }));
    assert_eq!(metadata["ownerReferences"][0]["uid"], "<uid>");
    assert_eq!(pods[0]["status"], json!({ "phase": "Running" }));
    assert_eq!(pods[0]["spec"], json!({ "containers": [{ "name": "c" }] }));
}

#[test]
fn ordinals_and_words_stay() {
    let names = json!({ "v1 pods": [
        { "metadata": { "name": "db-0", "ownerReferences": [] } },
        { "metadata": { "name": "data-web-database-12", "ownerReferences": [] } },
    ] });
    let seen = form(&names);
    let names: Vec<&Value> =
        seen["v1 pods"].as_array().unwrap().iter().map(|it| &it["metadata"]["name"]).collect();
    assert_eq!(names, ["data-web-database-12", "db-0"]);
}

#[test]
fn events_are_told_once_and_only_those_of_controllers() {
    let event = |from: &str, message: &str| {
        json!({
            "metadata": { "name": "e" }, "type": "Normal", "reason": "R", "message": message,
            "source": { "component": from }, "count": 3,
            "involvedObject": { "kind": "ReplicaSet", "name": "web-5b7fddbcc" },
        })
    };
    let seen = form(&json!({ "v1 events": [
        event("replicaset-controller", "Created pod: web-5b7fddbcc-x2x4z"),
        event("replicaset-controller", "Created pod: web-5b7fddbcc-bbbbb"),
        event("default-scheduler", "Assigned"),
    ] }));
    let expected = json!([{
        "type": "Normal", "reason": "R", "reporter": "replicaset-controller",
        "of": "ReplicaSet web-<hash>", "message": "Created pod: web-<hash>-<hash>",
    }]);
    assert_eq!(seen["v1 events"], expected);
}

#[test]
fn sets_have_an_order() {
    let slice = |first: &str, second: &str| {
        let endpoint =
            |ready: &str| json!({ "addresses": ["10.0.0.1"], "conditions": { "ready": ready } });
        json!({ "s": [{ "addressType": "IPv4", "metadata": { "name": "a", "generation": 4 },
            "endpoints": [endpoint(first), endpoint(second)] }] })
    };
    assert_eq!(form(&slice("a", "b")), form(&slice("b", "a")));
}
