//! What each path says.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::answer::{Reply, reply};

fn review(object: Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "u", "object": object},
    })
}

/// The response, with the patch as it is, without the uid, which must be the question's.
fn response(path: &str, object: Value) -> Value {
    let Reply::Review(mut answer) = reply(path, &review(object)) else { panic!("{path}") };
    assert_eq!(answer["kind"], "AdmissionReview");
    let response = answer["response"].as_object_mut().unwrap();
    assert_eq!(response.remove("uid"), Some(json!("u")));
    if let Some(patch) = response.get("patch").and_then(Value::as_str) {
        let patch = STANDARD.decode(patch).unwrap();
        response.insert("patch".to_owned(), serde_json::from_slice(&patch).unwrap());
    }
    answer["response"].clone()
}

#[test]
fn it_allows_denies_and_changes() {
    let yes = json!({"allowed": true});
    assert_eq!(response("/allow", json!({})), yes);
    assert_eq!(response("/deny", json!({})), json!({"allowed": false}));
    assert_eq!(
        response("/deny/no-way", json!({})),
        json!({"allowed": false, "status": {"code": 403, "message": "no-way"}})
    );
    assert_eq!(response("/deny-marked/x", json!({"data": {"x": "let"}})), yes);
    for marked in [
        json!({"data": {"x": "deny"}}),
        json!({"metadata": {"labels": {"x": "deny"}}}),
        json!({"metadata": {"annotations": {"x": "deny"}}}),
    ] {
        assert_eq!(response("/deny-marked/x", marked)["allowed"], false);
    }
    let patch = |path: &str, object: Value| response(path, object)["patch"].clone();
    assert_eq!(
        patch("/label/a", json!({"metadata": {}})),
        json!([
            {"op": "add", "path": "/metadata/labels", "value": {}},
            {"op": "add", "path": "/metadata/labels/a", "value": "yes"},
        ])
    );
    assert_eq!(
        patch("/data/k", json!({"data": {"x": "y"}})),
        json!([{"op": "add", "path": "/data/k", "value": "yes"}])
    );
    assert_eq!(
        patch("/container/c", json!({"spec": {"containers": [{"image": "i"}]}})),
        json!([{"op": "add", "path": "/spec/containers/-", "value": {"name": "c", "image": "i"}}])
    );
}

#[test]
fn what_is_deleted_is_looked_at_as_it_was() {
    let mut deletion = review(Value::Null);
    deletion["request"]["oldObject"] = json!({"data": {"x": "deny"}});
    let Reply::Review(answer) = reply("/deny-marked/x", &deletion) else { panic!() };
    assert_eq!(answer["response"]["allowed"], false);
}

#[test]
fn it_misbehaves_when_asked_to() {
    let question = review(json!({}));
    assert!(matches!(reply("/delay/3", &question), Reply::Late(3, _)));
    assert_eq!(reply("/hang", &question), Reply::Never);
    assert_eq!(reply("/endless", &question), Reply::Endless);
    assert!(matches!(reply("/garbage", &question), Reply::Text(_)));
    assert_eq!(reply("/other", &question), Reply::Unknown);
    let Reply::Review(lie) = reply("/lie", &question) else { panic!() };
    assert_eq!(lie["response"]["uid"], "another");
}

#[test]
fn it_converts_both_ways() {
    let ask = |to: &str, object: Value| {
        let review = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "request": {"uid": "u", "desiredAPIVersion": to, "objects": [object]},
        });
        let Reply::Review(answer) = reply("/convert", &review) else { panic!() };
        assert_eq!(answer["response"]["result"]["status"], "Success");
        answer["response"]["convertedObjects"][0].clone()
    };
    let (v1, v2) = (
        json!({"apiVersion": "e.io/v1", "hostPort": "h:80"}),
        json!({"apiVersion": "e.io/v2", "host": "h", "port": "80"}),
    );
    assert_eq!(ask("e.io/v2", v1.clone()), v2);
    assert_eq!(ask("e.io/v1", v2), v1);
}
