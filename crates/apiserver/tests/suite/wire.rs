//! What goes over the wire besides JSON of objects: media that are asked for, refusals in upstream's
//! words, and streams in messages of WebSocket.

use api::protobuf::{self, Envelope};
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio_websockets::ClientBuilder;

use super::subresources::{connect, create};
use crate::harness::wire::{ADMIN, Connection, Site};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const ONE: &str = "/api/v1/namespaces/default/configmaps/a";
const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

async fn with_map() -> (Site, Connection) {
    let (site, mut connection) = connect().await;
    let map = json!({"metadata": {"name": "a", "labels": {"l": "m"}}, "data": {"key": "true"}});
    create(&mut connection, MAPS, &map).await;
    (site, connection)
}

/// The code, the content type and the body.
async fn get(
    connection: &mut Connection,
    path: &str,
    headers: &[(&str, &str)],
) -> (u16, String, Bytes) {
    let (head, body) = connection.send("GET", path, headers, &Value::Null).await;
    let kind = head.headers.get("content-type").and_then(|it| it.to_str().ok());
    (head.status.as_u16(), kind.unwrap_or_default().to_owned(), body)
}

#[tokio::test]
async fn answers_and_refusals_are_in_the_medium_that_is_asked_for() {
    let (_site, mut connection) = with_map().await;
    let (code, kind, body) = get(&mut connection, ONE, &[("accept", YAML)]).await;
    let text = String::from_utf8_lossy(&body).into_owned();
    assert_eq!((code, kind.as_str()), (200, YAML));
    assert!(
        text.starts_with("apiVersion: v1\ndata:\n  key: \"true\"\nkind: ConfigMap\n"),
        "{text}"
    );
    let nope = format!("{MAPS}/nope");
    let (code, kind, body) = get(&mut connection, &nope, &[("accept", YAML)]).await;
    let expected =
        "apiVersion: v1\ncode: 404\ndetails:\n  kind: configmaps\n  name: nope\nkind: Status\n";
    assert_eq!((code, kind.as_str()), (404, YAML));
    assert!(body.starts_with(expected.as_bytes()), "{body:?}");
    let (code, kind, body) = get(&mut connection, &nope, &[("accept", PROTOBUF)]).await;
    assert_eq!((code, kind.as_str()), (404, PROTOBUF));
    assert_eq!(Envelope::parse(&body).expect("protobuf").kind, "Status");
    // Who cannot be told in what it asks for is told in JSON.
    let (code, kind, body) = get(&mut connection, &nope, &[("accept", TABLE)]).await;
    assert_eq!((code, kind.as_str()), (404, JSON));
    assert!(body.starts_with(b"{\n  \"apiVersion\": \"v1\",\n"), "{body:?}");
    // People get it indented.
    for (headers, is_pretty) in [
        (&[("user-agent", "curl/8.1")][..], true),
        (&[("user-agent", "Mozilla/5.0 (X11)")], true),
        (&[("user-agent", "kubectl/v1.36")], false),
        (&[("accept", "application/json;pretty=1")], true),
    ] {
        let (_, _, body) = get(&mut connection, ONE, headers).await;
        assert_eq!(body.contains(&b'\n'), is_pretty, "{headers:?}");
    }
    let plain = format!("{ONE}?pretty=false");
    let (_, _, body) = get(&mut connection, &plain, &[("user-agent", "curl/8.1")]).await;
    assert!(!body.contains(&b'\n'));
}

#[tokio::test]
async fn what_cannot_be_made_of_an_answer_is_not_acceptable() {
    let (_site, mut connection) = with_map().await;
    let all = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
    let streams = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
    let metadata = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let list = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let table = format!("{MAPS}?includeObject=x");
    let watch = format!("{MAPS}?watch=1");
    for (path, accept, code, message) in [
        (ONE, "text/html", 406, format!("406: Not Acceptable\n\nAvailable representations: {all}")),
        (
            MAPS,
            "text/html",
            406,
            format!("406: Not Acceptable\n\nAvailable representations: {all}, {streams}"),
        ),
        (
            ONE,
            "application/json;as=Table;v=v9;g=meta.k8s.io",
            406,
            format!("only the following media types are accepted: {all}"),
        ),
        (
            MAPS,
            metadata,
            406,
            "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)"
                .to_owned(),
        ),
        (
            ONE,
            list,
            406,
            "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)"
                .to_owned(),
        ),
        (
            &watch,
            YAML,
            406,
            format!("only the following media types are accepted: {streams}"),
        ),
        (
            &table,
            TABLE,
            400,
            "Unable to convert to Table as requested: includeObject: Invalid value: \"x\": must be \
             'Metadata', 'Object', 'None', or empty"
                .to_owned(),
        ),
    ] {
        let (head, body) = connection.send("GET", path, &[("accept", accept)], &Value::Null).await;
        let text = String::from_utf8_lossy(&body).into_owned();
        assert_eq!(head.status.as_u16(), code, "{path} {accept}: {text}");
        if accept == YAML {
            assert!(text.contains(&message), "{text}");
            continue;
        }
        let status: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(status["message"], message, "{path} {accept}");
    }
    // A backend that does not implement metadata.
    let review = json!({"spec": {"nonResourceAttributes": {"verb": "get", "path": "/"}}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    for (accept, code) in [(TABLE, 406), (&format!("{TABLE},{JSON}"), 201)] {
        let headers = [("accept", accept), ("content-type", JSON)];
        let (head, _) = connection.send("POST", path, &headers, &review).await;
        assert_eq!(head.status.as_u16(), code, "{accept}");
    }
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "it is one table")]
async fn bad_requests_are_refused_in_upstream_s_words() {
    let (_site, mut connection) = with_map().await;
    let types = "the body of the request was in an unknown format - accepted media types include: \
                 application/json, application/yaml, application/vnd.kubernetes.protobuf";
    let eof = "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; \
               json parse error: unexpected end of JSON input";
    let dry = "?dryRun=x";
    let options = "meta.k8s.io \"\" is invalid: ";
    let policies = "\"\", \"Ignore\", \"Strict\", \"Warn\"";
    for (method, path, kind, body, code, message) in [
        ("POST", MAPS.to_owned(), "text/plain", "{}", 415, types.to_owned()),
        ("POST", MAPS.to_owned(), "application/x-www-form-urlencoded", "{}", 415, types.to_owned()),
        ("POST", MAPS.to_owned(), JSON, "{\"metadata\":", 400, format!("{eof} ({{\"metadata\":)")),
        ("POST", MAPS.to_owned(), JSON, "", 400, format!("{eof} (<empty>)")),
        (
            "POST",
            MAPS.to_owned(),
            JSON,
            r#"{"kind":"Pod","apiVersion":"v1"}"#,
            400,
            "Pod in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Pod) to (core.ConfigMap): \
             unknown conversion"
                .to_owned(),
        ),
        (
            "POST",
            MAPS.to_owned(),
            JSON,
            r#"{"kind":"ConfigMap","apiVersion":"v2"}"#,
            400,
            "ConfigMap in version \"v2\" cannot be handled as a ConfigMap: no kind \"ConfigMap\" is registered \
             for version \"v2\" in scheme \"pkg/api/legacyscheme/scheme.go:30\""
                .to_owned(),
        ),
        (
            "POST",
            MAPS.to_owned(),
            PROTOBUF,
            "abc",
            400,
            "the object provided is unrecognized (must be of type ConfigMap): provided data does not appear to \
             be a protobuf message, expected prefix [107 56 115 0] (616263)"
                .to_owned(),
        ),
        ("PATCH", ONE.to_owned(), JSON, "{}", 415, "415: Unsupported Media Type".to_owned()),
        (
            "PATCH",
            ONE.to_owned(),
            "application/merge-patch+json",
            "{",
            400,
            "error decoding patch: unexpected end of JSON input".to_owned(),
        ),
        (
            "PATCH",
            format!("{ONE}?force=true"),
            "application/merge-patch+json",
            "{}",
            422,
            format!("PatchOptions.{options}force: Forbidden: may not be specified for non-apply patch"),
        ),
        (
            "PATCH",
            ONE.to_owned(),
            "application/apply-patch+yaml",
            "{}",
            422,
            format!("PatchOptions.{options}fieldManager: Required value: is required for apply patch"),
        ),
        (
            "DELETE",
            ONE.to_owned(),
            JSON,
            r#"{"propagationPolicy":"x"}"#,
            422,
            format!(
                "DeleteOptions.{options}propagationPolicy: Unsupported value: \"x\": supported values: \
                 \"Foreground\", \"Background\", \"Orphan\", \"nil\""
            ),
        ),
        (
            "DELETE",
            ONE.to_owned(),
            JSON,
            r#"{"propagationPolicy":"Orphan","orphanDependents":true}"#,
            422,
            format!(
                "DeleteOptions.{options}propagationPolicy: Invalid value: \"Orphan\": orphanDependents and \
                 deletionPropagation cannot be both set"
            ),
        ),
        (
            "DELETE",
            ONE.to_owned(),
            JSON,
            "{",
            400,
            "couldn't get version/kind; json parse error: unexpected end of JSON input".to_owned(),
        ),
        (
            "DELETE",
            format!("{ONE}{dry}"),
            JSON,
            "",
            422,
            format!("DeleteOptions.{options}dryRun: Unsupported value: [\"x\"]: supported values: \"All\""),
        ),
        (
            "POST",
            format!("{MAPS}{dry}"),
            JSON,
            "{}",
            422,
            format!("CreateOptions.{options}dryRun: Unsupported value: [\"x\"]: supported values: \"All\""),
        ),
        (
            "PUT",
            format!("{ONE}?fieldValidation=x"),
            JSON,
            "{}",
            422,
            format!("UpdateOptions.{options}fieldValidation: Unsupported value: \"x\": supported values: {policies}"),
        ),
    ] {
        let headers = [("content-type", kind)];
        let (head, answer) = connection.send_bytes(method, &path, &headers, body.into()).await;
        let status: Value = serde_json::from_slice(&answer).expect("JSON");
        let found = (head.status.as_u16(), status["message"].as_str().unwrap_or_default());
        assert_eq!(found, (code, message.as_str()), "{method} {path} {body}");
    }
}

#[tokio::test]
async fn what_is_not_there_is_a_status_below_what_is() {
    let (_site, mut connection) = with_map().await;
    let gone = "the server could not find the requested resource";
    let not_allowed = "the server does not allow this method on the requested resource";
    for (method, path, code, message) in [
        ("GET", "/nope", 404, ""),
        ("GET", "/apis/nope", 404, ""),
        ("GET", "/apis/nope/v1", 404, ""),
        ("GET", "/apis/nope/v1/x", 404, ""),
        ("GET", "/api/nope", 404, gone),
        ("GET", "/api/v1/nope", 404, gone),
        ("GET", "/api/v2/pods", 404, gone),
        ("GET", "/apis/apps/v1/nope", 404, gone),
        ("GET", "/apis/apps/v2", 404, gone),
        ("GET", "/api/v1/namespaces/default/configmaps/a/nope", 404, gone),
        ("GET", "/api/v1/namespaces/default/configmaps/a/b/c", 404, gone),
        ("GET", "/api/v1/namespaces/default/nodes", 404, gone),
        ("POST", ONE, 405, not_allowed),
        ("PUT", MAPS, 405, not_allowed),
        ("POST", "/api/v1/configmaps", 405, not_allowed),
        ("DELETE", "/api/v1/configmaps", 405, not_allowed),
        ("DELETE", "/api/v1/namespaces", 405, not_allowed),
        ("POST", "/api/v1/watch/configmaps", 405, not_allowed),
        ("POST", "/version", 405, not_allowed),
        ("FOO", MAPS, 405, not_allowed),
    ] {
        let (head, body) = connection.send(method, path, &[], &Value::Null).await;
        assert_eq!(head.status.as_u16(), code, "{method} {path}");
        if message.is_empty() {
            assert_eq!(body, "404 page not found\n", "{path}");
            assert_eq!(head.headers["x-content-type-options"], "nosniff");
            continue;
        }
        let status: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(status["message"], message, "{method} {path}");
        assert_eq!(status["details"], json!({}), "{method} {path}");
    }
}

#[tokio::test]
async fn the_old_paths_of_watches_work() {
    let (_site, mut connection) = with_map().await;
    create(&mut connection, MAPS, &json!({"metadata": {"name": "b"}})).await;
    for (path, names) in [
        ("/api/v1/watch/namespaces/default/configmaps?labelSelector=l", &["a"][..]),
        ("/api/v1/watch/namespaces/default/configmaps/b?", &["b"]),
        ("/api/v1/watch/configmaps?fieldSelector=metadata.name%3Da", &["a"]),
        ("/api/v1/watch/namespaces/default?", &["default"]),
        ("/api/v1/watch/namespaces?fieldSelector=metadata.name%3Ddefault", &["default"]),
    ] {
        let path = format!("{path}&timeoutSeconds=1&resourceVersion=0");
        let (code, _, body) = get(&mut connection, &path, &[]).await;
        let lines = body.split(|it| *it == b'\n').filter(|it| !it.is_empty());
        let events: Vec<Value> =
            lines.map(|it| serde_json::from_slice(it).expect("JSON")).collect();
        let found: Vec<_> = events
            .iter()
            .map(|it| it["object"]["metadata"]["name"].as_str().unwrap_or_default())
            .collect();
        assert_eq!((code, found.as_slice()), (200, names), "{path}");
    }
    let other = "/api/v1/watch/namespaces/default/configmaps/a?fieldSelector=metadata.name%3Db";
    let (code, status) = connection.call("GET", other, &Value::Null).await;
    let message = "fieldSelector metadata.name doesn't match requested name";
    assert_eq!((code, &status["message"]), (400, &json!(message)));
}

/// Whoever speaks nothing but protobuf: garbage collection does, of every kind there is.
#[tokio::test]
async fn metadata_can_be_listed_and_watched_in_protobuf() {
    let (_site, mut connection) = with_map().await;
    let accept = |kind: &str| format!("{PROTOBUF};as={kind};g=meta.k8s.io;v=v1");
    let message = protobuf::message(protobuf::PARTIAL_OBJECT_METADATA).expect("a message");
    let one = accept("PartialObjectMetadata");
    let (code, kind, body) = get(&mut connection, ONE, &[("accept", &one)]).await;
    assert_eq!((code, kind.as_str()), (200, PROTOBUF));
    let envelope = Envelope::parse(&body).expect("an envelope");
    assert_eq!((envelope.api_version, envelope.kind), ("meta.k8s.io/v1", "PartialObjectMetadata"));
    let json: Value =
        serde_json::from_slice(&envelope.to_json(message).expect("JSON")).expect("JSON");
    assert_eq!(
        (&json["metadata"]["name"], &json["metadata"]["labels"]["l"]),
        (&json!("a"), &json!("m"))
    );
    assert!(json.get("data").is_none());

    let list = accept("PartialObjectMetadataList");
    let (code, _, body) = get(&mut connection, MAPS, &[("accept", &list)]).await;
    let envelope = Envelope::parse(&body).expect("an envelope");
    assert_eq!((code, envelope.kind), (200, "PartialObjectMetadataList"));
    let message = protobuf::message(&format!("{}List", protobuf::PARTIAL_OBJECT_METADATA))
        .expect("a message");
    let json: Value =
        serde_json::from_slice(&envelope.to_json(message).expect("JSON")).expect("JSON");
    assert!(
        json["items"]
            .as_array()
            .is_some_and(|it| it.iter().any(|it| it["metadata"]["name"] == "a"))
    );

    let watch = format!("{ONE}?x").replace(
        "configmaps/a?x",
        "configmaps?watch=1&resourceVersion=0&timeoutSeconds=1&fieldSelector=metadata.name%3Da",
    );
    let (code, kind, body) = get(&mut connection, &watch, &[("accept", &one)]).await;
    assert_eq!((code, kind), (200, format!("{PROTOBUF};stream=watch")));
    let length = u32::from_be_bytes(body[..4].try_into().expect("four bytes")) as usize;
    assert_eq!(length + 4, body.len());
    assert!(body.windows(5).any(|it| it == b"ADDED"));
    assert!(body.windows(21).any(|it| it == b"PartialObjectMetadata"));
}

#[tokio::test]
async fn documents_about_the_api_are_in_every_medium() {
    let (_site, mut connection) = connect().await;
    let aggregated = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    for (path, accept, kind) in [
        ("/api", PROTOBUF.to_owned(), "APIVersions"),
        ("/apis", PROTOBUF.to_owned(), "APIGroupList"),
        ("/apis/apps", PROTOBUF.to_owned(), "APIGroup"),
        ("/apis/apps/v1", PROTOBUF.to_owned(), "APIResourceList"),
        ("/api/v1", PROTOBUF.to_owned(), "APIResourceList"),
        ("/apis", format!("{PROTOBUF}{aggregated}"), "APIGroupDiscoveryList"),
        ("/api", format!("{PROTOBUF}{aggregated}"), "APIGroupDiscoveryList"),
    ] {
        let (code, answered, body) = get(&mut connection, path, &[("accept", &accept)]).await;
        assert_eq!((code, &answered), (200, &accept), "{path}");
        assert_eq!(Envelope::parse(&body).expect("an envelope").kind, kind, "{path}");
    }
    let (_, kind, body) = get(&mut connection, "/api", &[("accept", YAML)]).await;
    assert_eq!(kind, YAML);
    assert!(body.starts_with(b"kind: APIVersions\n"), "{body:?}");
    assert_eq!(get(&mut connection, "/apis", &[("accept", "text/html")]).await.0, 406);

    // Both forms of OpenAPI have one hash, which the index names.
    let (_, index) = connection.get("/openapi/v3", JSON).await;
    let url =
        index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().expect("a path").to_owned();
    let (path, hash) = url.split_once("?hash=").expect("a hash");
    let protobuf = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";
    for accept in [JSON, protobuf] {
        let (head, body) = connection.send("GET", &url, &[("accept", accept)], &Value::Null).await;
        assert_eq!(head.status, 200);
        assert_eq!(head.headers["content-type"], accept);
        assert_eq!(head.headers["etag"], format!("\"{hash}\""));
        assert_eq!(head.headers["cache-control"], "public, immutable");
        assert!(head.headers["expires"].to_str().is_ok_and(|it| it.ends_with(" GMT")));
        assert_eq!(head.headers["vary"], "Accept");
        assert_eq!(body.starts_with(b"{"), accept == JSON);
        let etag = format!("\"{hash}\"");
        let headers = [("accept", accept), ("if-none-match", &etag)];
        let (head, body) = connection.send("GET", path, &headers, &Value::Null).await;
        assert_eq!((head.status.as_u16(), body.len()), (304, 0));
    }
    let wrong = format!("{path}?hash=0");
    let (head, _) = connection.send("GET", &wrong, &[], &Value::Null).await;
    assert_eq!(
        (head.status.as_u16(), head.headers["location"].to_str().ok()),
        (301, Some(url.as_str()))
    );
    assert_eq!(get(&mut connection, path, &[("accept", "text/html")]).await.0, 406);
    assert_eq!(get(&mut connection, "/openapi/v2", &[("accept", "text/html")]).await.0, 406);
}

async fn socket(
    site: &Site,
    path: &str,
    headers: &[(&'static str, &str)],
) -> Result<Vec<(bool, Bytes)>, u16> {
    let stream = site.stream(ADMIN, b"http/1.1").await;
    let uri = format!("ws://localhost{path}").parse().expect("a URI");
    let mut builder = ClientBuilder::from_uri(uri);
    for (name, value) in headers {
        let value = value.parse().expect("a header");
        builder = builder.add_header(http::HeaderName::from_static(name), value).expect("a header");
    }
    let (mut socket, _) = builder.connect_on(stream).await.map_err(|err| match err {
        tokio_websockets::Error::Upgrade(
            tokio_websockets::upgrade::Error::DidNotSwitchProtocols(code),
        ) => code,
        other => panic!("{other}"),
    })?;
    let mut messages = Vec::new();
    while let Some(Ok(message)) = socket.next().await {
        if message.is_close() {
            break;
        }
        messages.push((message.is_text(), Bytes::copy_from_slice(message.as_payload())));
    }
    Ok(messages)
}

#[tokio::test]
async fn a_watch_over_websocket_is_a_message_for_each_event() {
    let (site, mut connection) = with_map().await;
    create(&mut connection, MAPS, &json!({"metadata": {"name": "b", "labels": {"l": "m"}}})).await;
    let path = format!("{MAPS}?watch=1&resourceVersion=0&timeoutSeconds=1&labelSelector=l");
    let origin = ("origin", "http://localhost");
    let messages = socket(&site, &path, &[origin]).await.expect("a watch");
    let names: Vec<_> = messages
        .iter()
        .map(|(is_text, message)| {
            let event: Value = serde_json::from_slice(message).expect("JSON");
            (*is_text, event["type"].clone(), event["object"]["metadata"]["name"].clone())
        })
        .collect();
    assert_eq!(names, [(true, json!("ADDED"), json!("a")), (true, json!("ADDED"), json!("b"))]);
    // In protobuf they are bytes, without a length in front.
    let messages = socket(&site, &path, &[origin, ("accept", PROTOBUF)]).await.expect("a watch");
    assert_eq!(messages.len(), 2);
    assert!(messages.iter().all(|(is_text, it)| !is_text && it.starts_with(b"\x0a\x05ADDED")));
    // Who does not say which page it is, is on none.
    assert_eq!(socket(&site, &path, &[]).await, Err(403));
    let two = ("sec-websocket-protocol", "a, b");
    assert_eq!(socket(&site, &path, &[origin, two]).await, Err(400));
    // What is wrong with the request is told before.
    let bad = format!("{MAPS}?watch=1&resourceVersionMatch=Exact");
    assert_eq!(socket(&site, &bad, &[origin]).await, Err(422));
}

#[tokio::test]
async fn patches_and_configurations_say_nothing_twice_and_nothing_unknown() {
    let (_site, mut connection) = with_map().await;
    let strict = |path: &str| format!("{path}?fieldValidation=Strict&fieldManager=m");
    let apply = "application/apply-patch+yaml";
    for (path, kind, body, code, text) in [
        (
            strict(ONE),
            "application/merge-patch+json",
            r#"{"data":{"a":"1","a":"2"},"zz":1,"metadata":{"q":1}}"#,
            422,
            "strict decoding error: duplicate field \"data.a\", unknown field \"metadata.q\", unknown field \"zz\"",
        ),
        (
            strict(ONE),
            "application/strategic-merge-patch+json",
            r#"{"data":{"a":"1","a":"2"}}"#,
            422,
            "strict decoding error: duplicate field \"data.a\"",
        ),
        (
            strict(ONE),
            "application/json-patch+json",
            r#"[{"op":"add","path":"/foo","value":1}]"#,
            422,
            "strict decoding error: unknown field \"foo\"",
        ),
        (
            strict(ONE),
            apply,
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: default\nzz: 1\n",
            500,
            "failed to create typed patch object (default/a; /v1, Kind=ConfigMap): .zz: field not declared in schema",
        ),
        (
            strict(ONE),
            apply,
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  x: \"1\"\n  x: \"2\"\n",
            400,
            "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  line 7: key \"x\" already set in map",
        ),
    ] {
        let headers = [("content-type", kind)];
        let (head, answer) = connection.send_bytes("PATCH", &path, &headers, body.into()).await;
        let status: Value = serde_json::from_slice(&answer).expect("JSON");
        let message = status["message"].as_str().unwrap_or_default();
        assert_eq!(head.status.as_u16(), code, "{body}: {message}");
        assert!(message.contains(text), "{body}: {message}");
    }
    let yaml = "metadata: {name: q}\ndata:\n  x: \"1\"\n  x: \"2\"\nzz: 1\n";
    let (head, answer) =
        connection.send_bytes("POST", &strict(MAPS), &[("content-type", YAML)], yaml.into()).await;
    let status: Value = serde_json::from_slice(&answer).expect("JSON");
    let expected = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: yaml: \
                    unmarshal errors:\n  line 4: key \"x\" already set in map, unknown field \"zz\"";
    assert_eq!((head.status.as_u16(), &status["message"]), (400, &json!(expected)));
    let (head, _) =
        connection.send_bytes("POST", MAPS, &[("content-type", YAML)], yaml.into()).await;
    assert_eq!((head.status.as_u16(), head.headers.get_all("warning").iter().count()), (201, 2));
}
