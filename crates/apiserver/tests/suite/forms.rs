//! The forms that bodies and answers can have: YAML, gzip, indented, tables, metadata alone,
//! HTTP/2.

use std::io::Read as _;

use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::subresources::{connect, create};
use crate::harness::wire::ADMIN;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";

fn unzip(bytes: &[u8]) -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(bytes).read_to_string(&mut text).expect("gzip");
    text
}

#[tokio::test]
async fn what_is_written_empty_is_as_if_it_were_not_written() {
    let (_site, mut connection) = connect().await;
    let map = json!({"metadata": {"name": "e", "labels": {}}, "data": {}});
    let (code, created) = connection.call("POST", MAPS, &map).await;
    assert_eq!(code, 201, "{created}");
    assert!(created.get("data").is_none() && created["metadata"].get("labels").is_none());
    // So that writing it again is no change.
    let one = format!("{MAPS}/e");
    let (_, again) = connection.call("PUT", &one, &map).await;
    assert_eq!(again["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);

    // Problems are told of what was sent; an empty struct is one.
    let policies = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
    let policy = json!({"metadata": {"name": "p"}, "spec": {"podSelector": {}, "ingress": []}});
    let (code, created) = connection.call("POST", policies, &policy).await;
    assert_eq!(code, 201, "{created}");
    let expected = json!({"podSelector": {}, "policyTypes": ["Ingress"]});
    assert_eq!(created["spec"], expected);
}

#[tokio::test]
async fn what_go_always_writes_is_in_every_answer_and_nobodys() {
    let (_site, mut connection) = connect().await;
    let path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let slice = json!({"metadata": {"name": "a"}, "addressType": "IPv4"});
    let (_, created) = connection.call("POST", path, &slice).await;
    let fields = &created["metadata"]["managedFields"][0]["fieldsV1"];
    assert_eq!(fields, &json!({"f:addressType": {}}), "{created}");
    let nothing = Some(&Value::Null);
    assert_eq!((created.get("endpoints"), created.get("ports")), (nothing, nothing));
    let (_, read) = connection.call("GET", &format!("{path}/a"), &Value::Null).await;
    let (_, list) = connection.call("GET", path, &Value::Null).await;
    let (_, patched) = connection.call("PATCH", &format!("{path}/a"), &json!({})).await;
    let listed = list["items"].as_array().into_iter().flatten();
    let mut listed = listed.filter(|it| it["metadata"]["name"] == "a").cloned();
    let mut listed = listed.next().expect("it is listed");
    for name in ["apiVersion", "kind"] {
        listed[name] = created[name].clone();
    }
    assert_eq!((&read, &listed, &patched), (&created, &created, &created));

    let events = "/api/v1/namespaces/default/events";
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}});
    let (_, created) = connection.call("POST", events, &event).await;
    let fields = &created["metadata"]["managedFields"][0]["fieldsV1"];
    assert_eq!(fields, &json!({"f:involvedObject": {}}), "{created}");
    let always =
        (&created["source"], created.get("firstTimestamp"), &created["reportingComponent"]);
    assert_eq!(always, (&json!({}), nothing, &json!("")));
}

#[tokio::test]
async fn a_quantity_that_is_none_is_a_body_that_cannot_be_read() {
    let (_site, mut connection) = connect().await;
    let claim = json!({"metadata": {"name": "c"}, "spec": {"resources": {"requests": {"storage": "much"}}}});
    let path = "/api/v1/namespaces/default/persistentvolumeclaims";
    let (code, refused) = connection.call("POST", path, &claim).await;
    let expected = "PersistentVolumeClaim in version \"v1\" cannot be handled as a PersistentVolumeClaim: \
                    quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    assert_eq!((code, refused["message"].as_str()), (400, Some(expected)));
}

#[tokio::test]
async fn bodies_are_taken_in_the_forms_that_are_known() {
    let (site, mut connection) = connect().await;
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: NAME\ndata:\n  key: \"1\"\n";
    let large = format!(
        "{{\"metadata\":{{\"name\":\"x\"}},\"data\":{{\"k\":\"{}\"}}}}",
        "x".repeat(3 << 20)
    );
    let one = format!("{MAPS}/a");
    let apply = format!("{MAPS}/c?fieldManager=test");
    let named = |name: &str| yaml.replace("NAME", name);
    for (method, path, kind, body, expected, reason) in [
        ("POST", MAPS, "application/yaml", named("a"), 201, Value::Null),
        ("POST", MAPS, "application/yaml", "a: [".to_owned(), 400, json!("BadRequest")),
        ("PUT", &one, "application/yaml; charset=utf-8", named("a"), 200, Value::Null),
        ("PATCH", &apply, "application/apply-patch+yaml", named("c"), 201, Value::Null),
        ("POST", MAPS, "text/plain", named("b"), 415, json!("UnsupportedMediaType")),
        ("PATCH", &one, "application/json", "{}".to_owned(), 415, json!("UnsupportedMediaType")),
        ("POST", MAPS, "application/json", "{".to_owned(), 400, json!("BadRequest")),
        ("POST", MAPS, "application/json", large, 413, json!("RequestEntityTooLarge")),
    ] {
        let (head, body) =
            connection.send_bytes(method, path, &[("content-type", kind)], body.into()).await;
        let answer: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(
            (head.status.as_u16(), &answer["reason"]),
            (expected, &reason),
            "{method} {kind}: {answer}"
        );
    }
    // The rest of the last body is not read, so that there is no next request on that connection.
    let mut connection = site.connect(ADMIN).await;
    let (_, read) = connection.call("GET", &one, &Value::Null).await;
    assert_eq!(read["data"]["key"], "1");
    for (path, accept, expected) in [
        (MAPS, "text/html", 406),
        (MAPS, "text/html,*/*", 200),
        (MAPS, "application/json;as=Table;v=v9;g=meta.k8s.io", 406),
        (MAPS, "application/json;as=Table;v=v9;g=meta.k8s.io,application/json", 200),
    ] {
        assert_eq!(connection.get(path, accept).await.0, expected, "{accept}");
    }
}

/// kubectl and upstream's controllers compare these bytes.
#[tokio::test]
async fn the_data_of_a_revision_come_back_as_go_writes_them() {
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
    let (_site, mut connection) = connect().await;
    let path = "/apis/apps/v1/namespaces/default/controllerrevisions";
    let text = r#"{"spec":{"template":{"$patch":"replace","args":["a \u003c b \u0026\u0026 c \u003e \u2028"]}}}"#;
    let by_hand = "{ \"spec\": {\"template\":{\"args\":[\"a < b && c > \u{2028}\"], \"$patch\":\"replace\"}} }";
    let revision = |name: &str, data: &str| {
        format!(
            r#"{{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{{"name":"{name}"}},"data":{data},"revision":1}}"#
        )
    };
    let names = ("apps/v1", "ControllerRevision");
    let message = api::protobuf::message_named(names.0, names.1).expect("it has protobuf");
    let upstreams = revision("a", text);
    let upstreams = api::protobuf::encode_telling(message, names, upstreams.as_bytes());
    let upstreams = upstreams.expect("it is one").bytes;
    for (kind, body) in [
        (PROTOBUF, upstreams.into()),
        ("application/json", revision("b", by_hand).into()),
        ("application/json", revision("c", text).into()),
    ] {
        let headers = [("content-type", kind)];
        let (head, said) = connection.send_bytes("POST", path, &headers, body).await;
        assert_eq!(head.status, 201, "{said:?}");
    }
    // Another number changes nothing of it.
    let renumbered = r#"{"revision":2}"#.into();
    let merge = [("content-type", "application/merge-patch+json")];
    connection.send_bytes("PATCH", &format!("{path}/b"), &merge, renumbered).await;
    for accept in [PROTOBUF, "application/json"] {
        for place in ["", "/a", "/b", "/c"] {
            let place = format!("{path}{place}");
            let headers = [("accept", accept)];
            let (head, body) = connection.send("GET", &place, &headers, &Value::Null).await;
            let n_found = body.windows(text.len()).filter(|it| *it == text.as_bytes()).count();
            let n_expected = if place == path { 3 } else { 1 };
            assert_eq!(head.status, 200, "{body:?}");
            assert_eq!(n_found, n_expected, "{accept} {place}: {body:?}");
        }
    }
}

#[tokio::test]
async fn large_answers_are_compressed_and_indented_on_request() {
    let (_site, mut connection) = connect().await;
    for index in 0..3 {
        let data = json!({"key": "x".repeat(60_000)});
        let object = json!({"metadata": {"name": format!("m{index}")}, "data": data});
        create(&mut connection, MAPS, &object).await;
    }
    let zip = [("accept-encoding", "gzip")];
    let (head, body) = connection.send("GET", MAPS, &zip, &Value::Null).await;
    assert_eq!(head.headers["content-encoding"], "gzip");
    let list: Value = serde_json::from_str(&unzip(&body)).expect("JSON");
    assert_eq!(list["items"].as_array().map(Vec::len), Some(3));
    let (head, _) = connection.send("GET", MAPS, &[], &Value::Null).await;
    assert!(!head.headers.contains_key("content-encoding"));
    let one = format!("{MAPS}/m0");
    let (head, _) = connection.send("GET", &one, &zip, &Value::Null).await;
    assert!(!head.headers.contains_key("content-encoding"));
    let (_, body) = connection.send("GET", &format!("{one}?pretty=true"), &[], &Value::Null).await;
    assert!(body.starts_with(b"{\n  \"apiVersion\": \"v1\",\n"), "{:?}", &body[..40]);

    let (head, body) = connection.send("GET", "/openapi/v2", &zip, &Value::Null).await;
    assert_eq!(
        (head.status.as_u16(), &head.headers["content-encoding"]),
        (200, &"gzip".parse().expect("a header"))
    );
    let document: Value = serde_json::from_str(&unzip(&body)).expect("JSON");
    assert_eq!(document["swagger"], "2.0");
    assert!(document["definitions"]["io.k8s.api.core.v1.Pod"].is_object());
    let etag = head.headers["etag"].to_str().expect("text").to_owned();
    let (head, _) =
        connection.send("GET", "/openapi/v2", &[("if-none-match", &etag)], &Value::Null).await;
    assert_eq!(head.status, 304);
    let (head, body) = connection.send("GET", "/openid/v1/jwks", &[], &Value::Null).await;
    let keys: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(head.headers["content-type"], "application/jwk-set+json");
    assert!(keys["keys"][0]["kid"].is_string(), "{keys}");
    let (_, configuration) = connection.get("/.well-known/openid-configuration", "").await;
    assert!(configuration["jwks_uri"].as_str().is_some_and(|it| it.ends_with("/openid/v1/jwks")));
}

/// The events of a watch that ends by itself after a second.
fn events(body: &[u8]) -> Vec<Value> {
    let lines = body.split(|it| *it == b'\n').filter(|it| !it.is_empty());
    lines.map(|it| serde_json::from_slice(it).expect("JSON")).collect()
}

#[tokio::test]
async fn tables_and_metadata_can_be_watched() {
    let (_site, mut connection) = connect().await;
    let made =
        create(&mut connection, MAPS, &json!({"metadata": {"name": "a"}, "data": {"key": "1"}}))
            .await;
    connection.call("PATCH", &format!("{MAPS}/a"), &json!({"data": {"key": "2"}})).await;
    connection.call("DELETE", &format!("{MAPS}/a"), &Value::Null).await;
    let since = made["metadata"]["resourceVersion"].as_str().expect("a version");
    let since = since.parse::<u64>().expect("a number") - 1;
    let watch =
        format!("{MAPS}?watch=1&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion={since}");
    let (_, body) = connection.send("GET", &watch, &[("accept", TABLE)], &Value::Null).await;
    let seen = events(&body);
    let kinds: Vec<_> = seen.iter().map(|it| it["type"].as_str().unwrap_or_default()).collect();
    assert_eq!(kinds[..3], ["ADDED", "MODIFIED", "DELETED"]);
    for (index, event) in seen.iter().enumerate() {
        let table = &event["object"];
        assert_eq!(
            (&table["kind"], &table["apiVersion"]),
            (&json!("Table"), &json!("meta.k8s.io/v1"))
        );
        assert_eq!(table["columnDefinitions"].is_array(), index == 0, "{table}");
        let row = &table["rows"][0]["object"];
        assert_eq!(row["kind"], "PartialObjectMetadata");
        if index < 3 {
            assert_eq!(
                (&table["rows"][0]["cells"][0], &row["metadata"]["name"]),
                (&json!("a"), &json!("a"))
            );
        }
    }
    let (_, body) = connection.send("GET", &watch, &[("accept", METADATA)], &Value::Null).await;
    for event in events(&body) {
        let object = &event["object"];
        assert_eq!(
            (&object["kind"], &object["data"]),
            (&json!("PartialObjectMetadata"), &Value::Null)
        );
    }
    create(&mut connection, MAPS, &json!({"metadata": {"name": "b"}})).await;
    let (_, list) = connection
        .get(MAPS, "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
        .await;
    assert_eq!(
        (&list["kind"], &list["items"][0]["kind"]),
        (&json!("PartialObjectMetadataList"), &json!("PartialObjectMetadata"))
    );
}

#[tokio::test]
async fn reads_of_deprecated_kinds_are_warned() {
    let (_site, mut connection) = connect().await;
    let path = "/api/v1/namespaces/default/endpoints";
    let warning =
        "299 - \"v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice\"";
    for path in
        [path.to_owned(), format!("{path}/kubernetes"), format!("{path}?watch=1&timeoutSeconds=1")]
    {
        let (head, _) = connection.send("GET", &path, &[], &Value::Null).await;
        let warnings: Vec<_> = head.headers.get_all("warning").iter().collect();
        assert_eq!(warnings, [warning], "{path}");
    }
}

#[tokio::test]
async fn http2_carries_requests_and_watches_side_by_side() {
    let (site, mut first) = connect().await;
    let mut connection = site.connect_http2(ADMIN).await;
    let watch = format!("{MAPS}?watch=1");
    let (head, mut events) = connection.open("GET", &watch, &[], Default::default()).await;
    assert_eq!((head.status.as_u16(), head.version), (200, http::Version::HTTP_2));
    create(&mut connection, MAPS, &json!({"metadata": {"name": "a"}})).await;
    let frame =
        events.frame().await.expect("an event").expect("no error").into_data().expect("data");
    let event: Value = serde_json::from_slice(&frame).expect("JSON");
    assert_eq!(
        (&event["type"], &event["object"]["metadata"]["name"]),
        (&json!("ADDED"), &json!("a"))
    );
    assert_eq!(first.call("DELETE", &format!("{MAPS}/a"), &Value::Null).await.0, 200);
    let frame =
        events.frame().await.expect("an event").expect("no error").into_data().expect("data");
    assert!(frame.starts_with(b"{\"type\":\"DELETED\""));
}
