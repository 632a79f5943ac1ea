//! What a write costs, counted: how often its object is decoded and encoded on the way from the
//! wire to the store and back. A number that grows is a mistake.

use api::{Counts, take_counts};
use serde_json::{Value, json};

use crate::harness::wire::Connection;
use crate::subresources::{connect, create};

const PODS: &str = "/api/v1/namespaces/default/pods";

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "web", "image": "web"}]},
    })
}

/// The call must be answered with `code`.
async fn cost(
    connection: &mut Connection,
    (method, path, media_type): (&str, &str, &str),
    body: &Value,
    code: u16,
) -> (u32, u32) {
    take_counts();
    let headers = [("content-type", media_type)];
    let (head, answer) = connection.send(method, path, &headers, body).await;
    assert_eq!(head.status, code, "{method} {path}: {}", String::from_utf8_lossy(&answer));
    let Counts { decodes, encodes } = take_counts();
    (decodes, encodes)
}

#[tokio::test]
async fn writes_decode_and_encode_as_little_as_they_can() {
    const JSON: &str = "application/json";
    let (_site, mut connection) = connect().await;
    create(&mut connection, PODS, &pod("warm")).await;
    let mut check = Vec::new();

    check.push(("create", cost(&mut connection, ("POST", PODS, JSON), &pod("web"), 201).await));

    let web = format!("{PODS}/web");
    let (_, mut read) = connection.call("GET", &web, &Value::Null).await;
    read["metadata"]["labels"] = json!({"a": "b"});
    check.push(("update", cost(&mut connection, ("PUT", &web, JSON), &read, 200).await));

    let status = format!("{web}/status");
    let merge = "application/merge-patch+json";
    let phase = json!({"status": {"phase": "Running"}});
    check.push((
        "patch of the status",
        cost(&mut connection, ("PATCH", &status, merge), &phase, 200).await,
    ));
    check.push((
        "the same again",
        cost(&mut connection, ("PATCH", &status, merge), &phase, 200).await,
    ));

    let apply = format!("{web}?fieldManager=test&force=true");
    let config = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": {"c": "d"}},
    });
    let media_type = "application/apply-patch+yaml";
    check.push(("apply", cost(&mut connection, ("PATCH", &apply, media_type), &config, 200).await));

    let binding = json!({"metadata": {"name": "warm"}, "target": {"name": "n"}});
    let path = format!("{PODS}/warm/binding");
    check.push(("bind", cost(&mut connection, ("POST", &path, JSON), &binding, 201).await));

    assert_eq!(
        check,
        [
            // What was decoded, what was encoded. A create looks at the pod's service account
            // twice, which is shared where an informer has it. Who writes what is recorded before
            // plugins and the kind add theirs: that is one more to encode.
            ("create", (3, 2)),
            ("update", (1, 2)),
            ("patch of the status", (1, 2)),
            ("the same again", (1, 2)),
            ("apply", (1, 1)),
            // The binding alone: what was written a moment ago is there in its typed form.
            ("bind", (1, 1)),
        ]
    );
}
