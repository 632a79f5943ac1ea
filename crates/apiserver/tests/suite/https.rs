//! What a client on the network sees: TLS, negotiation, status codes, discovery, watches.

use crate::harness::wire::{ADMIN, Connection, Site};
use serde_json::{Value, json};

async fn connect() -> (Site, Connection) {
    let site = Site::start().await;
    let connection = site.connect(ADMIN).await;
    (site, connection)
}

#[tokio::test]
async fn a_client_reads_and_writes_over_https() {
    let (_site, mut connection) = connect().await;
    let path = "/api/v1/namespaces/default/configmaps";
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}, "extra": 1});
    let (head, body) = connection.send("POST", path, &[], &object).await;
    assert_eq!(head.status, 201, "{body:?}");
    assert_eq!(head.headers["warning"], "299 - \"unknown field \\\"extra\\\"\"");
    assert!(head.headers.contains_key("audit-id"));
    assert!(head.headers.contains_key("x-kubernetes-pf-flowschema-uid"));
    let strict = format!("{path}?fieldValidation=Strict");
    let (head, body) = connection.send("POST", &strict, &[], &object).await;
    let status: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(
        (head.status.as_u16(), &status["message"]),
        (
            400,
            &json!(
                "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"extra\""
            )
        )
    );
    let (code, list) = connection.get(path, "application/json").await;
    assert_eq!(
        (code, &list["kind"], &list["items"][0]["data"]["k"]),
        (200, &json!("ConfigMapList"), &json!("v"))
    );
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let (_, table) = connection.get(path, table).await;
    assert_eq!((&table["kind"], &table["rows"][0]["cells"][0]), (&json!("Table"), &json!("a")));
    let (head, body) = connection.send("DELETE", &format!("{path}/a"), &[], &Value::Null).await;
    let status: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(
        (head.status.as_u16(), &status["status"], &status["details"]["kind"]),
        (200, &json!("Success"), &json!("configmaps"))
    );
    let (code, status) = connection.get(&format!("{path}/a"), "").await;
    assert_eq!((code, &status["reason"]), (404, &json!("NotFound")));
    let watch = format!(
        "{path}?watch=true&timeoutSeconds=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    );
    let (head, body) = connection.send("GET", &watch, &[], &Value::Null).await;
    assert_eq!(head.status, 200);
    assert!(String::from_utf8_lossy(&body).contains("k8s.io/initial-events-end"), "{body:?}");
}

#[tokio::test]
async fn discovery_openapi_and_health_are_served() {
    let (_site, mut connection) = connect().await;
    let aggregated =
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let (head, body) =
        connection.send("GET", "/apis", &[("accept", aggregated)], &Value::Null).await;
    assert_eq!(
        head.headers["content-type"],
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    );
    let groups: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(groups["kind"], "APIGroupDiscoveryList");
    let etag = head.headers["etag"].to_str().expect("text").to_owned();
    let again = [("accept", aggregated), ("if-none-match", etag.as_str())];
    let (head, _) = connection.send("GET", "/apis", &again, &Value::Null).await;
    assert_eq!(head.status, 304);
    for (path, field, expected) in [
        ("/version", "minor", json!("36")),
        ("/api", "kind", json!("APIVersions")),
        ("/api/", "kind", json!("APIVersions")),
        ("/api/v1", "kind", json!("APIResourceList")),
        ("/apis/apps", "kind", json!("APIGroup")),
    ] {
        let (code, value) = connection.get(path, "application/json").await;
        assert_eq!((code, &value[field]), (200, &expected), "{path}");
    }
    assert_eq!(connection.get("/readyz", "").await, (200, json!("ok")));
    assert_eq!(connection.get("/nothing", "").await, (404, json!("404 page not found\n")));
    let (_, index) = connection.get("/openapi/v3", "").await;
    let url = index["paths"]["api/v1"]["serverRelativeURL"].as_str().expect("a URL").to_owned();
    let (code, document) = connection.get(&url, "").await;
    assert_eq!((code, document["openapi"].is_string()), (200, true));
}

#[tokio::test]
async fn openapi_v2_is_served_as_json_and_as_protobuf() {
    let (_site, mut connection) = connect().await;
    let (code, document) = connection.get("/openapi/v2", "application/json").await;
    assert_eq!((code, &document["swagger"]), (200, &json!("2.0")));
    for accept in [api::openapi::V2_PROTOBUF, api::openapi::V2_PROTOBUF_OLD] {
        let headers = [("accept", accept)];
        let (head, body) = connection.send("GET", "/openapi/v2", &headers, &Value::Null).await;
        assert_eq!(head.headers["content-type"], api::openapi::V2_PROTOBUF);
        assert!(body.windows(5).any(|it| it == b"\x0a\x032.0"), "it names its version");
        let etag = head.headers["etag"].to_str().expect("text").to_owned();
        let again = [("accept", accept), ("if-none-match", etag.as_str())];
        let (head, body) = connection.send("GET", "/openapi/v2", &again, &Value::Null).await;
        assert_eq!((head.status.as_u16(), body.len()), (304, 0));
        let json = [("accept", "application/json"), ("if-none-match", etag.as_str())];
        let (head, _) = connection.send("GET", "/openapi/v2", &json, &Value::Null).await;
        assert_eq!(
            (head.status.as_u16(), &head.headers["vary"]),
            (304, &"Accept".parse().expect("a header"))
        );
    }
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn from_protobuf(bytes: &[u8]) -> Value {
    let envelope = api::protobuf::Envelope::parse(bytes).expect("an envelope");
    let (package, definition) = match (envelope.api_version, envelope.kind) {
        ("apps/v1", kind) => ("io.k8s.api.apps.v1", kind),
        ("v1", "Status") => ("io.k8s.apimachinery.pkg.apis.meta.v1", "Status"),
        (_, kind) => ("io.k8s.api.core.v1", kind),
    };
    let message = api::protobuf::message(&format!("{package}.{definition}")).expect("a message");
    serde_json::from_slice(&envelope.to_json(message).expect("it decodes")).expect("JSON")
}

#[tokio::test]
async fn built_in_kinds_are_taken_and_given_in_protobuf() {
    let (_site, mut connection) = connect().await;
    let path = "/apis/apps/v1/namespaces/default/deployments?fieldValidation=Strict";
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "nginx", "resources": {"limits": {"cpu": "1"}}}]},
        }},
    });
    let body = api::protobuf::encode_object(object.to_string().as_bytes()).expect("it encodes");
    let types = [("content-type", PROTOBUF), ("accept", "application/json")];
    let (head, body) = connection.send_bytes("POST", path, &types, body.into()).await;
    let created: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!((head.status.as_u16(), &created["spec"]["replicas"]), (201, &json!(0)), "{created}");

    let accept = [("accept", "application/vnd.kubernetes.protobuf,application/json")];
    let (head, body) =
        connection.send("GET", "/apis/apps/v1/deployments", &accept, &Value::Null).await;
    assert_eq!(
        (head.status.as_u16(), &head.headers["content-type"]),
        (200, &PROTOBUF.parse().expect("a header"))
    );
    let list = from_protobuf(&body);
    assert_eq!(
        (&list["kind"], &list["items"][0]["metadata"]["name"]),
        (&json!("DeploymentList"), &json!("web"))
    );
    assert_eq!(list["items"][0]["spec"], created["spec"]);

    let gone = "/apis/apps/v1/namespaces/default/deployments/none";
    let (head, body) = connection.send("GET", gone, &accept, &Value::Null).await;
    assert_eq!((head.status.as_u16(), &from_protobuf(&body)["reason"]), (404, &json!("NotFound")));

    let watch = "/apis/apps/v1/deployments?watch=true&timeoutSeconds=1";
    let (head, body) = connection.send("GET", watch, &accept, &Value::Null).await;
    assert_eq!(head.headers["content-type"], "application/vnd.kubernetes.protobuf;stream=watch");
    let length: [u8; 4] = body[..4].try_into().expect("a length");
    assert_eq!(usize::try_from(u32::from_be_bytes(length)), Ok(body.len() - 4));
    assert_eq!(&body[4..11], b"\x0a\x05ADDED");
}

#[tokio::test]
async fn a_broken_protobuf_body_is_told_what_is_wrong() {
    let (_site, mut connection) = connect().await;
    let path = "/api/v1/namespaces/default/configmaps";
    let types = [("content-type", PROTOBUF)];
    for (body, why) in [
        (&b"{}"[..], "a protobuf message, expected prefix [107 56 115 0] ({})"),
        (b"k8s\0\x12\x7f", "the data ends too early"),
        (b"k8s\0\x12\x05\x0a\x03\x0a\x01\xff", "metadata.name: the text is not UTF-8"),
        (b"k8s\0\x0a\x05\x12\x03Pod\x12\x00", "no kind \"Pod\" is expected here"),
    ] {
        let (head, body) = connection.send_bytes("POST", path, &types, body.into()).await;
        let status: Value = serde_json::from_slice(&body).expect("JSON");
        let message = status["message"].as_str().unwrap_or_default();
        assert_eq!((head.status.as_u16(), message.ends_with(why)), (400, true), "{message}");
    }
}
