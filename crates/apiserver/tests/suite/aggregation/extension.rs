//! A server that serves a part of the API, on loopback: what it is asked is kept, and how it
//! answers is a test's choice.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use authn::ClientCertificate;
use authn::pki::{Authority, server_config};
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::TokioIo;
use lifecycle::Tasks;
use serde_json::{Value, json};
use stdx::World;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

pub(crate) const GROUP: &str = "wardle.example.com";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    Healthy,
    /// Knows the old form of discovery alone.
    Old,
    /// Answers with something that is no discovery.
    Garbage,
    /// Answers with more than anybody wants.
    Huge,
    /// Answers that it cannot.
    Broken,
    /// Never answers.
    Slow,
    /// Answers all with a redirect.
    Elsewhere,
    /// Answers with a head that is larger than any.
    Verbose,
    /// Promises more than it sends, and goes.
    Cut,
    /// Does not switch protocols, and goes on as if it had.
    Unswitched,
}

/// One request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    /// The user of the certificate that was shown.
    pub(crate) certificate: Option<String>,
    pub(crate) body: Bytes,
}

pub(crate) struct Extension {
    pub(crate) address: SocketAddr,
    pub(crate) ca_pem: String,
    state: Arc<State>,
}

struct State {
    world: World,
    tasks: Tasks,
    mood: Mutex<Mood>,
    seen: Mutex<Vec<Seen>>,
    /// What goes to whoever watches.
    watchers: Mutex<Vec<mpsc::UnboundedSender<Bytes>>>,
}

type Body = UnsyncBoxBody<Bytes, std::convert::Infallible>;

impl Extension {
    /// Known as `ext.default.svc`, and believing certificates of `proxies`.
    pub(crate) async fn start(world: &World, tasks: &Tasks, proxies: &str) -> Self {
        let now = world.clock.now();
        let authority = Authority::create("extension", now, &world.random).expect("an authority");
        let identity =
            authority.issue_server("extension", &["ext.default.svc"], &[], now, &world.random);
        let tls = server_config(&identity.expect("a certificate"), proxies).expect("TLS");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(State {
            world: world.clone(),
            tasks: tasks.clone(),
            mood: Mutex::new(Mood::Healthy),
            seen: Mutex::default(),
            watchers: Mutex::default(),
        });
        let its = state.clone();
        let answer = move |certificate: Option<Arc<ClientCertificate>>, request| {
            let state = its.clone();
            async move { state.answer(certificate, request).await }
        };
        let identify = ClientCertificate::of_connection;
        serving::serve_https(listener, Arc::new(tls), serving::Share(4), tasks, identify, answer);
        Self { address, ca_pem: authority.certificate_pem().to_owned(), state }
    }

    pub(crate) fn set(&self, mood: Mood) {
        *self.state.mood.lock().expect("the server of a test") = mood;
    }

    /// Requests of others than the aggregator itself.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        let seen = self.state.seen.lock().expect("the server of a test");
        let is_client = |it: &&Seen| {
            it.headers.get("x-remote-user").is_none_or(|it| it != "system:kube-aggregator")
        };
        seen.iter().filter(is_client).cloned().collect()
    }

    /// Whether somebody watched, who is told.
    pub(crate) fn tell(&self, event: &Value) -> bool {
        let line = Bytes::from(format!("{event}\n"));
        let mut watchers = self.state.watchers.lock().expect("the server of a test");
        watchers.retain(|it| it.send(line.clone()).is_ok());
        !watchers.is_empty()
    }
}

fn full(code: u16, kind: &str, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(body.into()).boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(code).expect("the server of a test");
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, kind.parse().expect("the server of a test"));
    response
}

fn json(body: &Value) -> Response<Body> {
    full(200, "application/json", body.to_string())
}

pub(crate) fn flunder(name: &str) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "Flunder",
        "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "7"},
    })
}

impl State {
    async fn answer(
        self: Arc<Self>,
        certificate: Option<Arc<ClientCertificate>>,
        request: Request<Incoming>,
    ) -> Response<Body> {
        let now = self.world.clock.now();
        let certificate = certificate.and_then(|it| Some(it.user(now).ok()?.name.clone()));
        let path = request.uri().path().to_owned();
        let query = request.uri().query().unwrap_or_default().to_owned();
        let (method, headers) = (request.method().to_string(), request.headers().clone());
        let mut request = request;
        let body = match headers.contains_key(header::UPGRADE) {
            true => Bytes::new(),
            false => request.body_mut().collect().await.map(|it| it.to_bytes()).unwrap_or_default(),
        };
        let seen = Seen { method, path: path.clone(), headers: headers.clone(), certificate, body };
        self.seen.lock().expect("the server of a test").push(seen);
        let mood = *self.mood.lock().expect("the server of a test");
        match mood {
            Mood::Healthy | Mood::Old => {}
            Mood::Garbage => return full(200, "application/json", "<html>not what you think"),
            Mood::Huge => return full(200, "application/json", vec![b' '; 32 << 20]),
            Mood::Broken => return full(500, "text/plain", "no"),
            Mood::Slow => std::future::pending().await,
            Mood::Verbose => {
                let mut response = full(200, "application/json", "{}");
                let long = "y".repeat(1 << 20).parse().expect("the server of a test");
                response.headers_mut().insert("x-long", long);
                return response;
            }
            Mood::Cut => {
                let mut response = full(200, "application/json", "");
                // The head is on its way before it breaks off.
                let body = futures_util::stream::unfold(true, |is_first| async move {
                    if !is_first {
                        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                        return None;
                    }
                    Some((Ok(Frame::data(Bytes::from_static(b"{\"kind\":"))), false))
                });
                *response.body_mut() = StreamBody::new(body).boxed_unsync();
                let length = "100".parse().expect("the server of a test");
                response.headers_mut().insert(header::CONTENT_LENGTH, length);
                return response;
            }
            Mood::Unswitched => return full(200, "text/plain", "GET /api/v1/secrets"),
            Mood::Elsewhere => {
                let mut response = full(302, "text/plain", "");
                let location =
                    "https://127.0.0.1/api/v1/secrets".parse().expect("the server of a test");
                response.headers_mut().insert(header::LOCATION, location);
                return response;
            }
        }
        if headers.contains_key(header::UPGRADE) {
            return self.upgrade(request);
        }
        let accept =
            headers.get(header::ACCEPT).and_then(|it| it.to_str().ok()).unwrap_or_default();
        let is_aggregated = mood == Mood::Healthy && accept.contains("as=APIGroupDiscoveryList");
        self.resource(&path, &query, is_aggregated)
    }

    fn resource(&self, path: &str, query: &str, is_aggregated: bool) -> Response<Body> {
        let base = format!("/apis/{GROUP}/v1");
        match path {
            "/apis" if is_aggregated => full(
                200,
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
                json!({"kind": "APIGroupDiscoveryList", "items": [{
                    "metadata": {"name": GROUP},
                    "versions": [{"version": "v1", "resources": [{
                        "resource": "flunders", "scope": "Namespaced", "singularResource": "flunder",
                        "responseKind": {"group": GROUP, "version": "v1", "kind": "Flunder"},
                        "verbs": ["create", "get", "list", "watch"], "shortNames": ["fl"],
                    }]}],
                }]})
                .to_string(),
            ),
            "/openapi/v3" => json(&json!({"paths": {format!("apis/{GROUP}/v1"): {
                "serverRelativeURL": format!("/openapi/v3/apis/{GROUP}/v1?hash=AB"),
            }}})),
            "/openapi/v2" => json(&json!({
                "swagger": "2.0",
                "paths": {
                    format!("{base}/flunders"): {"get": {"responses": {"200": {"schema": {"$ref": "#/definitions/Flunder"}}}}},
                    "/api/v1/pods": {"get": {"description": "not theirs"}},
                },
                "definitions": {"Flunder": {"type": "object", "description": "a flunder"}},
            })),
            _ if path == format!("/openapi/v3{base}") => json(&json!({"openapi": "3.0.0"})),
            _ if path == base => json(&json!({
                "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{GROUP}/v1"),
                "resources": [{
                    "name": "flunders", "singularName": "flunder", "namespaced": true,
                    "kind": "Flunder", "verbs": ["create", "get", "list", "watch"],
                }],
            })),
            _ if query.contains("watch=") => self.watch(),
            _ if path.ends_with("/flunders") => json(&json!({
                "kind": "FlunderList", "apiVersion": format!("{GROUP}/v1"),
                "metadata": {"resourceVersion": "7"}, "items": [flunder("one")],
            })),
            _ if path.contains("/flunders/") => json(&flunder("one")),
            _ => json(&json!({"kind": "Whatever", "path": path, "query": query})),
        }
    }

    fn watch(&self) -> Response<Body> {
        let (tx, rx) = mpsc::unbounded_channel();
        self.watchers.lock().expect("the server of a test").push(tx);
        let frames = futures_util::stream::unfold(rx, |mut rx| async move {
            Some((Ok(Frame::data(rx.recv().await?)), rx))
        });
        let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
        let kind = "application/json".parse().expect("the server of a test");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }

    /// What comes is sent back, in capitals.
    fn upgrade(&self, mut request: Request<Incoming>) -> Response<Body> {
        let upgraded = hyper::upgrade::on(&mut request);
        self.tasks.spawn("test-upgrade", |_| async move {
            let Ok(upgraded) = upgraded.await else { return };
            let mut stream = TokioIo::new(upgraded);
            let mut bytes = [0; 64];
            while let Ok(length @ 1..) = stream.read(&mut bytes).await {
                bytes.make_ascii_uppercase();
                if stream.write_all(&bytes[..length]).await.is_err() {
                    return;
                }
            }
        });
        let mut response = full(101, "text/plain", "");
        response
            .headers_mut()
            .insert(header::CONNECTION, "Upgrade".parse().expect("the server of a test"));
        response
            .headers_mut()
            .insert(header::UPGRADE, "echo".parse().expect("the server of a test"));
        response
    }
}
