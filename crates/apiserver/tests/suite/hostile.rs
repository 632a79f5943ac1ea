//! Requests that mean harm: bodies that nobody may send, values nested to no end, numbers and names
//! at their limits. Each gets an answer, and everybody else goes on.

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::harness::wire::{ADMIN, Connection, Site, Who};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// Sends a head that promises a body, and no body; what comes back first.
async fn promise(site: &Site, who: Who<'_>, head: &str) -> String {
    let mut stream = site.stream(who, b"http/1.1").await;
    let head = format!("{head}\r\nHost: localhost\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("sent");
    let mut answer = [0; 64];
    let n_read = stream.read(&mut answer).await.expect("an answer");
    String::from_utf8_lossy(&answer[..n_read]).lines().next().unwrap_or_default().to_owned()
}

/// What is not optimized takes more of the stack than a test is given. The server's threads have as
/// much as this.
fn on_a_serving_stack(work: impl Future<Output = ()> + Send + 'static) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let run = move || runtime.expect("a runtime").block_on(work);
    let thread = std::thread::Builder::new().stack_size(4 << 20).spawn(run);
    thread.expect("a thread").join().expect("the test passes");
}

#[tokio::test]
async fn no_body_is_read_before_its_sender_is_known_and_allowed() {
    let site = Site::start().await;
    let post = |path: &str, more: &str| {
        format!("POST {path} HTTP/1.1\r\nContent-Type: application/yaml\r\n{more}")
    };
    let length = "Content-Length: 1000000";
    let user: Who<'_> = Some(("nobody", &["people"]));
    for who in [None, user] {
        for expect in ["", "\r\nExpect: 100-continue"] {
            let head = post(CONFIG_MAPS, &format!("{length}{expect}"));
            assert_eq!(promise(&site, who, &head).await, "HTTP/1.1 403 Forbidden");
        }
    }
    let bad_token = post(CONFIG_MAPS, &format!("{length}\r\nAuthorization: Bearer x"));
    assert_eq!(promise(&site, None, &bad_token).await, "HTTP/1.1 401 Unauthorized");
    // Nor for what there is not, or what is too much.
    let missing = post("/api/v1/namespaces/default/nothings", length);
    assert_eq!(promise(&site, ADMIN, &missing).await, "HTTP/1.1 404 Not Found");
    let too_large = post(CONFIG_MAPS, "Content-Length: 3145729");
    assert_eq!(promise(&site, ADMIN, &too_large).await, "HTTP/1.1 413 Payload Too Large");
    // Who may send it is asked to go on.
    let welcome = post(CONFIG_MAPS, &format!("{length}\r\nExpect: 100-continue"));
    assert_eq!(promise(&site, ADMIN, &welcome).await, "HTTP/1.1 100 Continue");
}

/// Reads one answer with its body; its first line.
async fn answer(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        head.push(char::from(stream.read_u8().await.expect("the head of an answer")));
    }
    let length = head.lines().find_map(|it| it.strip_prefix("content-length: "));
    let mut body = vec![0; length.expect("a length").parse().expect("a number")];
    stream.read_exact(&mut body).await.expect("a body");
    head.lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn who_is_refused_before_the_body_is_sent_may_send_it_and_go_on() {
    let site = Site::start().await;
    let mut stream = site.stream(Some(("nobody", &["people"])), b"http/1.1").await;
    let head =
        format!("POST {CONFIG_MAPS} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n");
    for _ in 0..3 {
        stream.write_all(head.as_bytes()).await.expect("sent");
        assert_eq!(answer(&mut stream).await, "HTTP/1.1 403 Forbidden");
        stream.write_all(b"12345").await.expect("the connection is open");
    }
}

async fn patch(connection: &mut Connection, name: &str, kind: &str, body: String) -> u16 {
    let path = format!("{CONFIG_MAPS}/{name}?fieldManager=test");
    let kind = format!("application/{kind}");
    let headers = [("content-type", kind.as_str())];
    connection.send_bytes("PATCH", &path, &headers, body.into()).await.0.status.as_u16()
}

/// JSON that is this deep below `before`.
fn deep(before: &str, levels: usize, after: &str) -> String {
    format!("{before}{}1{}{after}", "{\"a\":".repeat(levels), "}".repeat(levels))
}

#[test]
fn no_nesting_ends_the_process() {
    on_a_serving_stack(async {
        let site = Site::start().await;
        let mut connection = site.connect(ADMIN).await;
        let object = json!({"metadata": {"name": "a"}, "data": {"a": "1"}});
        assert_eq!(connection.call("POST", CONFIG_MAPS, &object).await.0, 201);
        // 66 KB that nested until the stack was full.
        let copy = json!({"op": "copy", "from": "/metadata", "path": "/metadata/annotations"});
        let add = json!({"op": "copy", "from": "/data", "path": "/data/a"});
        for copies in [vec![copy; 1_000], vec![add; 1_000]] {
            let body = Value::Array(copies).to_string();
            let code = patch(&mut connection, "a", "json-patch+json", body).await;
            assert_eq!(code, 422);
        }
        for levels in [90, 101, 127, 10_000, 400_000] {
            let beyond = |code: u16| assert!(matches!(code, 400 | 422), "{levels}: {code}");
            let value = deep(r#"[{"op": "add", "path": "/data/b", "value": "#, levels, "}]");
            beyond(patch(&mut connection, "a", "json-patch+json", value).await);
            let value = deep(r#"{"data": {"b": "#, levels, "}}");
            for kind in ["merge-patch+json", "strategic-merge-patch+json"] {
                beyond(patch(&mut connection, "a", kind, value.clone()).await);
            }
            let whole = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"b": "#;
            let whole = deep(whole, levels, "}}");
            // What is applied and is no object of the kind is upstream's 500.
            let flow = format!(" {whole}");
            for config in [whole.clone(), flow] {
                let code = patch(&mut connection, "a", "apply-patch+yaml", config).await;
                assert!(matches!(code, 400 | 500), "{levels}: {code}");
            }
            for kind in ["application/json", "application/yaml"] {
                let headers = [("content-type", kind)];
                let body = Bytes::from(whole.clone());
                let (head, _) = connection.send_bytes("POST", CONFIG_MAPS, &headers, body).await;
                beyond(head.status.as_u16());
                let options = Bytes::from(deep(r#"{"preconditions": "#, levels, "}"));
                let path = format!("{CONFIG_MAPS}/absent");
                let (head, _) = connection.send_bytes("DELETE", &path, &headers, options).await;
                // What options do not know is passed over without going into it.
                assert!(matches!(head.status.as_u16(), 400 | 404), "{levels}: {head:?}");
            }
            // Where the schema says nothing of what is inside.
            let records = deep(r#"{"metadata": {"managedFields": [{"fieldsV1": "#, levels, "}]}}");
            let code = patch(&mut connection, "a", "merge-patch+json", records).await;
            assert!(code == 200 || levels > 100 && code == 400, "{levels}: {code}");
        }
        assert_eq!(connection.get(&format!("{CONFIG_MAPS}/a"), "").await.0, 200);
    });
}

#[test]
fn a_schema_may_be_as_deep_as_any_object_and_no_deeper() {
    on_a_serving_stack(async {
        let site = Site::start().await;
        let mut connection = site.connect(ADMIN).await;
        let definition = |name: &str, levels: usize| {
            let mut schema = json!({"type": "string"});
            for _ in 0..levels {
                schema = json!({"type": "object", "properties": {"a": schema}});
            }
            json!({
                "metadata": {"name": format!("{name}s.example.com")},
                "spec": {
                    "group": "example.com", "scope": "Namespaced",
                    "names": {"plural": format!("{name}s"), "singular": name, "kind": name, "listKind": format!("{name}List")},
                    "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
                },
            })
        };
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let (code, answer) = connection.call("POST", path, &definition("deep", 46)).await;
        assert_eq!(code, 201, "{answer}");
        for levels in [50, 60, 200] {
            let (code, answer) = connection.call("POST", path, &definition("deeper", levels)).await;
            assert_eq!(code, 400, "{answer}");
        }
    });
}

#[tokio::test]
async fn numbers_and_names_at_their_limits_are_answered() {
    let site = Site::start().await;
    let mut connection = site.connect_http2(ADMIN).await;
    let name = json!({"metadata": {"generateName": "\u{e4}".repeat(40)}});
    assert_eq!(connection.call("POST", CONFIG_MAPS, &name).await.0, 422);
    let mut code = async |path: &str| connection.call("GET", path, &Value::Null).await.0;
    let max = u64::MAX;
    assert_eq!(code(&format!("{CONFIG_MAPS}?watch=1&timeoutSeconds={max}")).await, 400);
    assert_eq!(code(&format!("{CONFIG_MAPS}?limit={max}")).await, 400);
    assert_eq!(code(&format!("{CONFIG_MAPS}?limit={}", i64::MAX)).await, 200);
    assert_eq!(code(&format!("{CONFIG_MAPS}?resourceVersion={max}")).await, 504);
    assert_eq!(code("/livez").await, 200);
    let (head, _) = connection
        .open(
            "GET",
            &format!("{CONFIG_MAPS}?watch=1&timeoutSeconds={}", i64::MAX),
            &[],
            Bytes::new(),
        )
        .await;
    assert_eq!(head.status, 200);
    let (head, _) = connection
        .open("GET", &format!("{CONFIG_MAPS}?watch=1&resourceVersion={max}"), &[], Bytes::new())
        .await;
    assert_eq!(head.status, 200);
    let mut delete = async |query: &str| {
        connection.call("DELETE", &format!("{CONFIG_MAPS}/a?{query}"), &Value::Null).await.0
    };
    assert_eq!(delete(&format!("gracePeriodSeconds={max}")).await, 400);
    assert_eq!(delete(&format!("gracePeriodSeconds={}", i64::MIN)).await, 404);
}

#[tokio::test]
async fn an_object_that_upstream_could_not_store_is_refused() {
    let site = Site::start().await;
    let mut connection = site.connect(ADMIN).await;
    let deployment = |name: &str, text: String| {
        json!({
            "metadata": {"name": name},
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"containers": [{"name": "c", "image": "c", "args": [text]}]},
                },
            },
        })
    };
    let large = deployment("large", "x".repeat(2_800_000));
    let (code, status) = connection.call("POST", DEPLOYMENTS, &large).await;
    assert_eq!((code, &status["message"]), (413, &json!("etcdserver: request is too large")));
    // Large in JSON alone: upstream stores it.
    let escaped = deployment("escaped", "\u{1}".repeat(400_000));
    assert_eq!(connection.call("POST", DEPLOYMENTS, &escaped).await.0, 201);
    let grown = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "c", "image": "c", "args": ["x".repeat(2_000_000)]}
    ]}}}});
    let (code, _) = connection.call("PATCH", &format!("{DEPLOYMENTS}/escaped"), &grown).await;
    assert_eq!(code, 413);
}

#[tokio::test]
async fn headers_of_identity_are_read_or_refused() {
    let site = Site::start().await;
    let mut connection = site.connect(ADMIN).await;
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let mut ask = async |headers: &[(&str, &str)]| {
        let (head, body) = connection.send("POST", path, headers, &review).await;
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        (head.status.as_u16(), body["status"]["userInfo"]["username"].clone())
    };
    assert_eq!(ask(&[]).await, (201, json!("admin")));
    assert_eq!(ask(&[("impersonate-user", "\u{e4}")]).await, (201, json!("\u{e4}")));
    for headers in [
        &[("impersonate-user", "a"), ("impersonate-user", "b")][..],
        &[("impersonate-user", "")],
        &[("impersonate-group", "system:masters")],
        &[("impersonate-user", "a"), ("impersonate-scope", "b")],
        &[("authorization", "Bearer a"), ("authorization", "Bearer b")],
    ] {
        assert_eq!(ask(headers).await.0, 400, "{headers:?}");
    }
}

#[tokio::test]
async fn strangers_see_health_and_version_and_no_other_page() {
    let site = Site::start().await;
    let mut connection = site.connect(ADMIN).await;
    let (_, index) = connection.get("/", "application/json").await;
    let listed = index["paths"].as_array().expect("paths").iter().filter_map(Value::as_str);
    let more =
        ["/", "/debug/pprof/", "/debug/flags/v", "/logs", "/metrics/slis", "/statusz", "/flagz"];
    let more = more.into_iter().chain(["/configz", "/swagger-ui/", "/api/v1/pods", "/apis/apps"]);
    let paths: Vec<String> = listed.chain(more).map(str::to_owned).collect();
    for path in paths {
        let mut stranger = site.connect(None).await;
        let (code, _) = stranger.get(&path, "application/json").await;
        let is_open = matches!(path.as_str(), "/healthz" | "/livez" | "/readyz" | "/version");
        let expected = if is_open { 200 } else { 403 };
        assert_eq!(code, expected, "{path}");
    }
}
