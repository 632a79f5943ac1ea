//! A webhook on the loopback interface that does what the path says, and writes down what it was
//! asked.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use authn::pki::{Authority, server_config};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::BoxBody};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use lifecycle::Tasks;
use serde_json::{Value, json};
use stdx::World;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A word that is in nothing but its answers.
pub(crate) const CANARY: &str = "a-word-of-the-answer";

type Body = BoxBody<Bytes, Infallible>;

/// What it was asked: the path and the request, in order.
type Asked = Arc<Mutex<Vec<(String, Value)>>>;

pub(crate) struct Webhook {
    asked: Asked,
    port: u16,
    authority: String,
}

impl Webhook {
    pub(crate) async fn start(tasks: &Tasks) -> Self {
        let world = World::system();
        let now = world.clock.now();
        let authority = Authority::create("hooks", now, &world.random).expect("an authority");
        let loopback: IpAddr = [127, 0, 0, 1].into();
        let identity = authority
            .issue_server(
                "hook",
                &["localhost", "hook.default.svc"],
                &[loopback],
                now,
                &world.random,
            )
            .expect("a certificate");
        let mut tls = server_config(&identity, authority.certificate_pem()).expect("TLS");
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let asked = Asked::default();
        let (connections, noted) = (tasks.clone(), asked.clone());
        tasks.spawn("hook", |shutdown| async move {
            while let Some(Ok((tcp, _))) = shutdown.run_until_cancelled(listener.accept()).await {
                let (acceptor, noted) = (acceptor.clone(), noted.clone());
                connections.spawn("hook-connection", |shutdown| async move {
                    let Ok(stream) = acceptor.accept(tcp).await else { return };
                    let service = service_fn(move |request| answer(request, noted.clone()));
                    let serving =
                        http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                    let _ = shutdown.run_until_cancelled(serving).await;
                });
            }
        });
        Self { asked, port, authority: authority.certificate_pem().to_owned() }
    }

    /// Who can vouch for it, in PEM, and its port.
    pub(super) fn address(&self) -> (&str, u16) {
        (&self.authority, self.port)
    }

    /// The paths that were asked since the last time, in order.
    pub(crate) fn take(&self) -> Vec<String> {
        self.take_all().into_iter().map(|it| it.0).collect()
    }

    pub(crate) fn take_all(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut *self.asked.lock().expect("no panic"))
    }

    /// Where it is asked what `path` says.
    pub(crate) fn client_config(&self, path: &str) -> Value {
        json!({
            "url": format!("https://localhost:{}/{path}", self.port),
            "caBundle": STANDARD.encode(&self.authority),
        })
    }

    /// A webhook that is asked at `path`, for CREATE and UPDATE of config maps.
    pub(crate) fn hook(&self, path: &str) -> Value {
        json!({
            "name": format!("{}.example.com", path.replace(['/', '='], "-")),
            "clientConfig": self.client_config(path),
            "rules": [rule(&["CREATE", "UPDATE"], "", "v1", "configmaps")],
            "sideEffects": "None", "admissionReviewVersions": ["v1"],
        })
    }
}

pub(crate) fn rule(operations: &[&str], group: &str, version: &str, resource: &str) -> Value {
    json!({
        "operations": operations, "apiGroups": [group], "apiVersions": [version],
        "resources": [resource],
    })
}

fn patch(operations: &Value) -> Value {
    json!({
        "allowed": true, "patchType": "JSONPatch",
        "patch": STANDARD.encode(operations.to_string()),
    })
}

/// Adds a label, unless it is there.
fn label(object: &Value, name: &str) -> Value {
    if object["metadata"]["labels"][name].is_string() {
        return json!({"allowed": true});
    }
    let mut operations = Vec::new();
    if object["metadata"]["labels"].is_null() {
        operations.push(json!({"op": "add", "path": "/metadata/labels", "value": {}}));
    }
    let path = format!("/metadata/labels/{name}");
    operations.push(json!({"op": "add", "path": path, "value": "yes"}));
    patch(&json!(operations))
}

fn set(path: &str, value: &Value) -> Value {
    patch(&json!([{"op": "add", "path": path, "value": value}]))
}

/// What the first segment of the path says, with the second.
fn respond(what: &str, with: &str, request: &Value) -> Value {
    let object = &request["object"];
    match what {
        "allow" => json!({"allowed": true}),
        "warn" => {
            json!({"allowed": true, "warnings": ["mind the gap"], "auditAnnotations": {"why": with}})
        }
        "deny" => json!({"allowed": false, "status": {"message": with}}),
        "refuse" => {
            json!({"allowed": false, "status": {"code": 409, "reason": "Conflict", "message": with}})
        }
        "deny-aloud" => json!({"allowed": false, "status": {"message": CANARY}}),
        "scribble" => set("/data", &json!(CANARY)),
        "mumble" => json!({
            "allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(CANARY),
        }),
        "silent" => json!({"allowed": false}),
        "label" => label(object, with),
        "unlabel" if object["metadata"]["labels"][with].is_string() => {
            patch(&json!([{"op": "remove", "path": format!("/metadata/labels/{with}")}]))
        }
        "unlabel" => json!({"allowed": true}),
        "break" => set("/data", &json!(7)),
        // Each step doubles what is there.
        "bomb" => {
            let mut steps =
                vec![json!({"op": "add", "path": "/data", "value": {"a": "x".repeat(1_000)}})];
            steps.extend((0..64).map(|it| {
                json!({"op": "copy", "from": "/data", "path": format!("/metadata/annotations/{it}")})
            }));
            steps.extend((0..64).map(
                |it| json!({"op": "copy", "from": "/metadata", "path": format!("/metadata/b{it}")}),
            ));
            steps.insert(0, json!({"op": "add", "path": "/metadata/annotations", "value": {}}));
            patch(&json!(steps))
        }
        // More steps than anybody needs.
        "steps" => patch(&json!(vec![json!({"op": "add", "path": "/data", "value": {}}); 20_000])),
        "deep" => {
            let deep = format!(
                r#"[{{"op":"add","path":"/data","value":{}{}}}]"#,
                "[".repeat(5_000),
                "]".repeat(5_000)
            );
            json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(deep)})
        }
        "misfit" => patch(&json!([{"op": "remove", "path": "/nothing/here"}])),
        "move" => set("/metadata/namespace", &json!("kube-system")),
        "version" => set("/metadata/resourceVersion", &json!("7")),
        "spec" => set("/spec", &json!({"kept": "yes", "pruned": "no"})),
        "sidecar" => set("/spec/containers/-", &json!({"name": "sidecar", "image": "i"})),
        "convert" => convert(with, request),
        "patch-only" => json!({"allowed": true, "patch": STANDARD.encode("[]")}),
        _ => Value::Null,
    }
}

/// Ropes: v1 has a size where v2 has a length. What is wrong with the answer is `how`.
fn convert(how: &str, request: &Value) -> Value {
    let wanted = &request["desiredAPIVersion"];
    let (from, to) = match wanted.as_str() {
        Some("example.com/v2") => ("size", "length"),
        _ => ("length", "size"),
    };
    let one = |object: &Value| {
        let mut object = object.clone();
        object["apiVersion"] = wanted.clone();
        let value = object["spec"].as_object_mut().and_then(|it| it.remove(from));
        if let Some(value) = value {
            object["spec"][to] = value;
        }
        match how {
            "rename" => object["metadata"]["name"] = json!("another"),
            "label" => object["metadata"]["labels"] = json!({"converted": "yes"}),
            "finalize" => object["metadata"]["finalizers"] = json!(["example.com/never"]),
            "mislabel" => object["metadata"]["labels"] = json!({"a b": "c"}),
            "unversioned" => object["apiVersion"] = json!("example.com/v9"),
            "unknown" => object["spec"]["unknown"] = json!(1),
            _ => {}
        }
        object
    };
    let objects = request["objects"].as_array().cloned().unwrap_or_default();
    let mut converted: Vec<Value> = objects.iter().map(one).collect();
    if how == "drop" {
        converted.pop();
    }
    match how {
        "fail" => json!({"result": {"status": "Failure", "message": "it cannot be done"}}),
        _ => json!({"result": {"status": "Success"}, "convertedObjects": converted}),
    }
}

/// Whether images may be run, by the name of the first.
fn images(spec: &Value) -> Option<Value> {
    match spec["containers"][0]["image"].as_str().unwrap_or_default() {
        "good" => Some(json!({"allowed": true, "auditAnnotations": {"ticket": "7"}})),
        "bad" => Some(json!({"allowed": false, "reason": "too old"})),
        _ => None,
    }
}

async fn answer(request: Request<Incoming>, asked: Asked) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path().trim_start_matches('/').to_owned();
    let authorization = request.headers().get("authorization").cloned();
    let body = request.into_body().collect().await.expect("a body").to_bytes();
    let review: Value = serde_json::from_slice(&body).expect("JSON");
    // An ImageReview has no request in it.
    let mut request =
        if path == "images" { review["spec"].clone() } else { review["request"].clone() };
    if let Some(shown) = authorization {
        request["authorization"] = shown.to_str().expect("text").into();
    }
    let request = &request;
    asked.lock().expect("no panic").push((path.clone(), request.clone()));
    let (what, with) = path.split_once('/').unwrap_or((&path, ""));
    match what {
        "hang" => return std::future::pending().await,
        "slow" => tokio::time::sleep(Duration::from_millis(300)).await,
        _ => {}
    }
    let faulty = faulty_answer(what).or_else(|| other_review(what, &review, request));
    Ok(faulty.unwrap_or_else(|| {
        let mut response = match what {
            "slow" => json!({"allowed": false, "status": {"message": with}}),
            _ => respond(what, with, request),
        };
        response["uid"] = request["uid"].clone();
        text(200, review_of(&review, response).to_string())
    }))
}

fn text(code: u16, text: String) -> Response<Body> {
    let body = Full::new(Bytes::from(text)).boxed();
    Response::builder().status(code).body(body).expect("an answer")
}

/// What nobody who asks a webhook should have to read.
fn faulty_answer(what: &str) -> Option<Response<Body>> {
    let mut answer = text(200, "{}".to_owned());
    Some(match what {
        "garbage" => text(200, "<html>".to_owned()),
        "broken" => text(500, "oh no".to_owned()),
        "shout" => text(500, CANARY.to_owned()),
        "odd" => text(200, json!({"response": CANARY}).to_string()),
        "redirect" => {
            let mut response = text(307, String::new());
            response.headers_mut().insert("location", "/allow".parse().expect("a path"));
            response
        }
        // More than any answer needs, in one header or in many.
        "headers" => {
            for index in 0..150_u16 {
                let name = http::HeaderName::try_from(format!("x-{index}")).expect("a name");
                answer.headers_mut().insert(name, "y".parse().expect("a value"));
            }
            answer
        }
        "header" => {
            let long = "y".repeat(1 << 20).parse().expect("a value");
            answer.headers_mut().insert("x-long", long);
            answer
        }
        // A byte now and then, for ever.
        "trickle" => {
            let byte = futures_util::stream::unfold((), |()| async {
                tokio::time::sleep(Duration::from_millis(50)).await;
                Some((Ok(Frame::data(Bytes::from_static(b" "))), ()))
            });
            Response::new(StreamBody::new(byte).boxed())
        }
        "endless" => {
            let chunk = || Ok(Frame::data(Bytes::from(vec![b' '; 1 << 16])));
            Response::new(StreamBody::new(futures_util::stream::repeat_with(chunk)).boxed())
        }
        _ => return None,
    })
}

/// Reviews of another form than that of admission, or than what was asked for.
fn other_review(what: &str, review: &Value, request: &Value) -> Option<Response<Body>> {
    let allowed = json!({"uid": request["uid"], "allowed": true});
    Some(match what {
        "images" => match images(request) {
            Some(status) => {
                let (version, kind) = (&review["apiVersion"], &review["kind"]);
                let answer = json!({"apiVersion": version, "kind": kind, "status": status});
                text(200, answer.to_string())
            }
            None => text(500, "oh no".to_owned()),
        },
        "lie" => {
            let response = json!({"uid": "another", "allowed": true});
            text(200, review_of(review, response).to_string())
        }
        "kindless" => text(200, json!({"response": allowed}).to_string()),
        "typeless" => {
            let mut answer = text(200, review_of(review, allowed).to_string());
            let kind = "text/html".parse().expect("a type");
            answer.headers_mut().insert("content-type", kind);
            answer
        }
        _ => return None,
    })
}

fn review_of(review: &Value, response: Value) -> Value {
    json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})
}
