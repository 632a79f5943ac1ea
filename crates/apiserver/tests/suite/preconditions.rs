//! What an object has to be for a write to happen, and what a binding has to say. Texts as upstream
//! 1.36's.

use serde_json::{Value, json};

use crate::harness::wire::Connection;
use crate::subresources::{connect, create};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// A pod, its uid and its version.
async fn pod(connection: &mut Connection, name: &str, spec: Value) -> (String, String) {
    let mut whole = json!({"containers": [{"name": "web", "image": "web"}]});
    let spec = spec.as_object().expect("fields").clone();
    whole.as_object_mut().expect("an object").extend(spec);
    let pod = json!({"metadata": {"name": name}, "spec": whole});
    let created = create(connection, PODS, &pod).await;
    let meta = |field: &str| created["metadata"][field].as_str().expect("a text").to_owned();
    (meta("uid"), meta("resourceVersion"))
}

/// Code, reason, message, and kind of what it is about.
fn refusal((code, status): (u16, Value)) -> (u16, String, String, String) {
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    let kind = text(&status["details"]["kind"]);
    (code, text(&status["reason"]), text(&status["message"]), kind)
}

fn conflict(message: String, kind: &str) -> (u16, String, String, String) {
    (409, "Conflict".to_owned(), message, kind.to_owned())
}

#[tokio::test]
async fn a_binding_is_of_the_pod_that_it_names() {
    let (_site, mut connection) = connect().await;
    let (uid, version) = pod(&mut connection, "web", json!({})).await;
    let bind = async |connection: &mut Connection, query: &str, metadata: Value| {
        let binding = json!({"metadata": metadata, "target": {"name": "n"}});
        let path = format!("{PODS}/web/binding{query}");
        refusal(connection.call("POST", &path, &binding).await)
    };
    let mismatch = "name in URL does not match name in Binding object";
    for name in [json!({"name": "other"}), json!({})] {
        let said = bind(&mut connection, "", name).await;
        assert_eq!(said, (400, "BadRequest".to_owned(), mismatch.to_owned(), String::new()));
    }
    let failed = |key: &str, what: &str, wanted: &str, found: &str| {
        conflict(
            format!(
                "Operation cannot be fulfilled on pods \"web\": StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
            ),
            "pods",
        )
    };
    let key = "/registry/pods/default/web";
    let said = bind(&mut connection, "", json!({"name": "web", "uid": "other"})).await;
    assert_eq!(said, failed(key, "UID", "other", &uid));
    let older = json!({"name": "web", "resourceVersion": "1"});
    let said = bind(&mut connection, "", older.clone()).await;
    assert_eq!(said, failed(key, "ResourceVersion", "1", &version));
    let said = bind(&mut connection, "?dryRun=All", older).await;
    assert_eq!(said, failed("/pods/default/web", "ResourceVersion", "1", &version));
    let fitting = json!({"name": "web", "uid": uid, "resourceVersion": version});
    assert_eq!(bind(&mut connection, "?dryRun=All", fitting.clone()).await.0, 201);
    assert_eq!(bind(&mut connection, "", fitting).await.0, 201);
    let said = bind(&mut connection, "", json!({"name": "web"})).await;
    let why = "Operation cannot be fulfilled on pods/binding \"web\": pod web is already assigned to node \"n\"";
    assert_eq!(said, conflict(why.to_owned(), "pods/binding"));
    // The server's own change is nobody's field.
    let (_, bound) = connection.call("GET", &format!("{PODS}/web"), &Value::Null).await;
    assert_eq!(bound["spec"]["nodeName"], "n");
    let fields = bound["metadata"]["managedFields"].to_string();
    assert!(fields.contains("f:spec") && !fields.contains("f:nodeName"), "{fields}");
}

#[tokio::test]
async fn the_older_way_to_bind_knows_no_uid() {
    let (_site, mut connection) = connect().await;
    pod(&mut connection, "web", json!({})).await;
    let path = "/api/v1/namespaces/default/bindings";
    let binding = json!({"metadata": {"name": "web", "uid": "other"}, "target": {"name": "n"}});
    assert_eq!(connection.call("POST", path, &binding).await.0, 201);
}

#[tokio::test]
async fn a_binding_names_a_node() {
    let (_site, mut connection) = connect().await;
    let gates = json!({"schedulingGates": [{"name": "example.com/wait"}]});
    pod(&mut connection, "web", gates).await;
    let path = format!("{PODS}/web/binding");
    for (target, message) in [
        (json!({}), "target.name: Required value"),
        (
            json!({"kind": "Pod"}),
            "[target.kind: Unsupported value: \"Pod\": supported values: \"Node\", \"<empty>\", target.name: Required value]",
        ),
    ] {
        let binding = json!({"metadata": {"name": "web"}, "target": target});
        let said = refusal(connection.call("POST", &path, &binding).await);
        assert_eq!(said, (500, String::new(), message.to_owned(), String::new()));
    }
    let binding = json!({"metadata": {"name": "web"}, "target": {"name": "n", "kind": "Node"}});
    let said = refusal(connection.call("POST", &path, &binding).await);
    let why = "Operation cannot be fulfilled on pods/binding \"web\": pod web has non-empty .spec.schedulingGates";
    assert_eq!(said, conflict(why.to_owned(), "pods/binding"));
}

#[tokio::test]
async fn an_update_is_of_the_object_that_it_was_read_from() {
    let (_site, mut connection) = connect().await;
    let (uid, _) = pod(&mut connection, "web", json!({})).await;
    let path = format!("{PODS}/web");
    let (_, mut read) = connection.call("GET", &path, &Value::Null).await;
    read["metadata"]["uid"] = json!("other");
    let said = refusal(connection.call("PUT", &path, &read).await);
    let why = format!(
        "Operation cannot be fulfilled on pods \"web\": StorageError: invalid object, Code: 4, Key: /registry/pods/default/web, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: other, UID in object meta: {uid}"
    );
    assert_eq!(said, conflict(why, "pods"));
    // What is gone is not made anew by whoever still has it.
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/a";
    let lease = json!({"metadata": {"name": "a", "uid": "old"}, "spec": {}});
    let said = refusal(connection.call("PUT", path, &lease).await);
    let why = "Operation cannot be fulfilled on leases.coordination.k8s.io \"a\": StorageError: invalid object, Code: 4, Key: /registry/leases/default/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: old, UID in object meta: ";
    assert_eq!(said, conflict(why.to_owned(), "leases"));
    let config = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "uid": "old"},
    });
    let path = "/api/v1/namespaces/default/configmaps/a?fieldManager=test";
    let headers = [("content-type", "application/apply-patch+yaml")];
    let (head, body) = connection.send("PATCH", path, &headers, &config).await;
    let said = refusal((head.status.as_u16(), serde_json::from_slice(&body).unwrap()));
    let why = "Operation cannot be fulfilled on configmaps \"a\": uid mismatch: the provided object specified uid old, and no existing object was found";
    assert_eq!(said, conflict(why.to_owned(), "configmaps"));
}

#[tokio::test]
async fn a_patch_of_the_uid_is_no_precondition() {
    let (_site, mut connection) = connect().await;
    pod(&mut connection, "web", json!({})).await;
    let patch = json!({"metadata": {"uid": "other"}});
    let headers = [("content-type", "application/merge-patch+json")];
    let path = format!("{PODS}/web");
    let (head, body) = connection.send("PATCH", &path, &headers, &patch).await;
    let status: Value = serde_json::from_slice(&body).unwrap();
    let message = status["message"].as_str().unwrap();
    assert_eq!(head.status.as_u16(), 422, "{message}");
    assert!(message.contains("metadata.uid: Invalid value: \"other\": field is immutable"));
}

#[tokio::test]
async fn a_write_that_names_no_version_is_told_of_the_resource() {
    let (_site, mut connection) = connect().await;
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    create(&mut connection, path, &json!({"metadata": {"name": "a"}, "spec": {}})).await;
    let lease = json!({"metadata": {"name": "a"}, "spec": {}});
    let said = refusal(connection.call("PUT", &format!("{path}/a"), &lease).await);
    let why = "leases.coordination.k8s.io \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update";
    assert_eq!(said, (422, "Invalid".to_owned(), why.to_owned(), "leases".to_owned()));
}

#[tokio::test]
async fn a_deletion_is_of_the_object_that_it_means() {
    let (_site, mut connection) = connect().await;
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let labels = json!({"app": "web"});
    let deployment = json!({"metadata": {"name": "web"}, "spec": {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}},
    }});
    let created = create(&mut connection, path, &deployment).await;
    let meta = |field: &str| created["metadata"][field].as_str().unwrap();
    let path = format!("{path}/web");
    for (field, what, fate) in [
        ("uid", "UID", "deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "modified"),
    ] {
        for wanted in ["7", ""] {
            let options = json!({"preconditions": {field: wanted}});
            let said = refusal(connection.call("DELETE", &path, &options).await);
            let why = format!(
                "Operation cannot be fulfilled on Deployment.apps \"web\": the {what} in the precondition ({wanted}) does not match the {what} in record ({}). The object might have been {fate}",
                meta(field)
            );
            assert_eq!(said, conflict(why, "Deployment"));
        }
    }
    let options =
        json!({"preconditions": {"uid": meta("uid"), "resourceVersion": meta("resourceVersion")}});
    assert_eq!(connection.call("DELETE", &path, &options).await.0, 200);
}

#[tokio::test]
async fn a_deletion_of_a_namespace_says_it_in_words_of_its_own() {
    let (_site, mut connection) = connect().await;
    let path = "/api/v1/namespaces";
    let created = create(&mut connection, path, &json!({"metadata": {"name": "team"}})).await;
    let uid = created["metadata"]["uid"].as_str().expect("a uid").to_owned();
    let options = json!({"preconditions": {"uid": "other"}});
    let said = refusal(connection.call("DELETE", &format!("{path}/team"), &options).await);
    let why = format!(
        "Operation cannot be fulfilled on namespaces \"team\": Precondition failed: UID in precondition: other, UID in object meta: {uid}"
    );
    assert_eq!(said, conflict(why, "namespaces"));
}
