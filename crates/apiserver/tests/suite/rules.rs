//! Rules of custom resources on the wire: on creates, updates, patches and statuses; what was wrong
//! before a rule came is answered with a warning until it changes.

use serde_json::{Value, json};

use crate::harness::wire::Connection;
use crate::subresources::{connect, create};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const BOATS: &str = "/apis/example.com/v1/boats";

fn definition(spec_rules: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"plural": "boats", "kind": "Boat"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "crew": {"type": "integer", "x-kubernetes-validations": spec_rules},
                        "name": {"type": "string"},
                    }},
                    "status": {
                        "type": "object", "properties": {"knots": {"type": "integer"}},
                        "x-kubernetes-validations": [{"rule": "self.knots < 40", "message": "too fast"}],
                    },
                }}},
            }],
        },
    })
}

fn boat(name: &str, crew: usize) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": name},
        "spec": {"crew": crew},
    })
}

/// Waits until the kind is served.
async fn define(connection: &mut Connection, rules: &Value) {
    create(connection, DEFINITIONS, &definition(rules)).await;
    while connection.call("GET", BOATS, &Value::Null).await.0 != 200 {}
}

/// The answer to a merge patch: code, message and warnings.
async fn patch(
    connection: &mut Connection,
    path: &str,
    body: &Value,
) -> (u16, String, Vec<String>) {
    let merge = ("content-type", "application/merge-patch+json");
    let (head, answer) = connection.send("PATCH", path, &[merge], body).await;
    let warnings = head.headers.get_all("warning").iter();
    let warnings = warnings.map(|it| it.to_str().unwrap_or_default().to_owned()).collect();
    let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
    let message = answer["message"].as_str().unwrap_or_default().to_owned();
    (head.status.as_u16(), message, warnings)
}

#[tokio::test]
async fn what_breaks_a_rule_is_refused_wherever_it_is_written() {
    let (_site, mut connection) = connect().await;
    define(&mut connection, &json!([{"rule": "self <= 4", "message": "four at most"}])).await;
    let (code, refused) = connection.call("POST", BOATS, &boat("full", 5)).await;
    let expected =
        "Boat.example.com \"full\" is invalid: spec.crew: Invalid value: 5: four at most";
    assert_eq!((code, refused["message"].as_str()), (422, Some(expected)), "{refused}");
    create(&mut connection, BOATS, &boat("fit", 3)).await;
    let path = format!("{BOATS}/fit");
    let (code, message, _) = patch(&mut connection, &path, &json!({"spec": {"crew": 9}})).await;
    assert!(code == 422 && message.ends_with("9: four at most"), "{message}");
    let status = format!("{path}/status");
    let (code, message, _) =
        patch(&mut connection, &status, &json!({"status": {"knots": 50}})).await;
    assert!(code == 422 && message.ends_with("status: Invalid value: too fast"), "{message}");
    let (code, message, _) =
        patch(&mut connection, &status, &json!({"status": {"knots": 5}})).await;
    assert_eq!(code, 200, "{message}");
}

#[tokio::test]
async fn rules_are_compiled_once_and_evaluated_on_each_object() {
    // As upstream counts: the whole, `spec`, `crew`, and in the schema `status`.
    let (_site, mut connection) = connect().await;
    define(&mut connection, &json!([{"rule": "self <= 4", "message": "four at most"}])).await;
    let count = async |connection: &mut Connection, what: &str| {
        let (_, page) = connection.get("/metrics", "text/plain").await;
        let series = format!("apiserver_cel_{what}_duration_seconds_count ");
        let lines = page.as_str().unwrap_or_default().lines();
        let found = lines.filter_map(|it| it.strip_prefix(&series)?.parse::<usize>().ok()).next();
        found.expect("it is there before anything happened")
    };
    assert_eq!(count(&mut connection, "compilation").await, 0, "nobody needed them yet");
    for (name, crew, code) in [("a", 1, 201), ("b", 5, 422), ("c", 2, 201)] {
        assert_eq!(connection.call("POST", BOATS, &boat(name, crew)).await.0, code);
    }
    assert_eq!(count(&mut connection, "compilation").await, 4);
    assert_eq!(count(&mut connection, "evaluation").await, 3 * 3);
}

#[tokio::test]
async fn a_new_rule_only_warns_of_what_stays_as_it_was() {
    let (_site, mut connection) = connect().await;
    define(&mut connection, &json!([])).await;
    create(&mut connection, BOATS, &boat("old", 9)).await;
    let rules = json!([{"rule": "self <= 4", "message": "four at most"}]);
    let strict = json!({"spec": definition(&rules)["spec"]});
    let path = format!("{DEFINITIONS}/boats.example.com");
    assert_eq!(patch(&mut connection, &path, &strict).await.0, 200);
    while connection.call("POST", BOATS, &boat("new", 9)).await.0 != 422 {
        connection.call("DELETE", &format!("{BOATS}/new"), &Value::Null).await;
    }

    let path = format!("{BOATS}/old");
    let (code, _, warnings) =
        patch(&mut connection, &path, &json!({"spec": {"name": "Ida"}})).await;
    let expected = r#"299 - "spec.crew: Invalid value: 9: four at most""#;
    assert_eq!((code, warnings), (200, vec![expected.to_owned()]));
    let (code, message, _) = patch(&mut connection, &path, &json!({"spec": {"crew": 8}})).await;
    assert!(code == 422 && message.ends_with("8: four at most"), "{message}");
}
