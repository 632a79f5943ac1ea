//! `extension-server`: a part of an API, to be served through the API server's aggregation: one
//! kind, `flunders` of `wardle.example.com/v1`, kept in memory.
//!
//! It believes the API server alone: requests need its client certificate, and the name of a user.
//! What users may do is decided by the API server before they get here.

mod documents;
mod objects;

use std::cell::RefCell;
use std::convert::Infallible;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use authn::ClientCertificate;
use authn::pki::{Identity, server_config};
use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;
use tokio_rustls::TlsAcceptor;

use self::objects::{Objects, Refusal};
use crate::every_address::every_address;
use crate::stop::Stop;

const GROUP: &str = "wardle.example.com";
const VERSION: &str = "v1";
/// Of an object that is sent.
const BODY_MAX: usize = 1 << 20;
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

type Body = UnsyncBoxBody<Bytes, Infallible>;

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// Where to listen
    #[arg(long, value_name = "N", default_value_t = 8443)]
    port: u16,
    /// Certificate to serve with, for SERVICE.NAMESPACE.svc
    #[arg(long, value_name = "FILE")]
    tls_cert_file: PathBuf,
    /// Its key
    #[arg(long, value_name = "FILE")]
    tls_private_key_file: PathBuf,
    /// Authorities of those who may speak for users: `requestheader-client-ca-file` of the
    /// ConfigMap `extension-apiserver-authentication`
    #[arg(long, value_name = "FILE")]
    requestheader_client_ca_file: PathBuf,
    /// Their common names
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        default_value = "front-proxy-client"
    )]
    requestheader_allowed_names: Vec<String>,
}

struct Server {
    allowed_names: Vec<String>,
    objects: RefCell<Objects>,
}

pub(crate) async fn run(flags: Flags) -> Result<()> {
    let mut stop = Stop::listen()?;
    let acceptor = acceptor(&flags)?;
    let listener = TcpListener::bind(&every_address(flags.port)[..])
        .await
        .with_context(|| format!("listening on port {}", flags.port))?;
    println!("{GROUP}/{VERSION} is served on port {}", flags.port);
    let server = Rc::new(Server {
        allowed_names: flags.requestheader_allowed_names,
        objects: RefCell::new(Objects::new()),
    });
    let serving = async {
        loop {
            tokio::select! {
                biased;
                () = stop.wait() => return,
                accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                    tokio::task::spawn_local(serve(server.clone(), acceptor.clone(), stream));
                },
            }
        }
    };
    LocalSet::new().run_until(serving).await;
    Ok(())
}

fn acceptor(flags: &Flags) -> Result<TlsAcceptor> {
    let read = |path: &PathBuf| {
        std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
    };
    let identity = Identity {
        certificate_pem: read(&flags.tls_cert_file)?,
        private_key_pem: read(&flags.tls_private_key_file)?,
    };
    let mut tls = server_config(&identity, &read(&flags.requestheader_client_ca_file)?)?;
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(tls)))
}

async fn serve(server: Rc<Server>, acceptor: TlsAcceptor, stream: TcpStream) {
    let handshake = tokio::time::timeout(HANDSHAKE_MAX, acceptor.accept(stream)).await;
    let Ok(Ok(stream)) = handshake else { return };
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let client = ClientCertificate::of_connection(chain);
    let answering = hyper::service::service_fn(move |request: Request<Incoming>| {
        let (server, client) = (server.clone(), client.clone());
        async move { Ok::<_, Infallible>(server.answer(client.as_deref(), request).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), answering);
    // A client that breaks off is its own business.
    let _ = connection.await;
}

/// What a path is about.
#[derive(Debug, PartialEq, Eq)]
enum Path<'a> {
    Document(&'static str),
    List(Option<&'a str>),
    One(&'a str, &'a str),
    Nothing,
}

impl<'a> Path<'a> {
    fn parse(path: &'a str) -> Self {
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        match segments[..] {
            ["healthz" | "livez" | "readyz"] => Self::Document("health"),
            ["apis"] => Self::Document("groups"),
            ["apis", GROUP] => Self::Document("group"),
            ["apis", GROUP, VERSION] => Self::Document("resources"),
            ["openapi", "v2"] => Self::Document("v2"),
            ["openapi", "v3"] => Self::Document("index"),
            ["openapi", "v3", "apis", GROUP, VERSION] => Self::Document("v3"),
            ["apis", GROUP, VERSION, "flunders"] => Self::List(None),
            ["apis", GROUP, VERSION, "namespaces", namespace, "flunders"] => {
                Self::List(Some(namespace))
            }
            ["apis", GROUP, VERSION, "namespaces", namespace, "flunders", name] => {
                Self::One(namespace, name)
            }
            _ => Self::Nothing,
        }
    }
}

impl Server {
    async fn answer(
        &self,
        client: Option<&ClientCertificate>,
        request: Request<Incoming>,
    ) -> Response<Body> {
        let (head, body) = request.into_parts();
        let path = Path::parse(head.uri.path());
        if path == Path::Document("health") {
            return text(StatusCode::OK, "ok");
        }
        if !self.believes(client, head.headers.get("x-remote-user")) {
            return status(401, "Unauthorized", "Unauthorized");
        }
        let accept = head.headers.get(header::ACCEPT).and_then(|it| it.to_str().ok());
        let is_aggregated = accept.is_some_and(|it| it.contains("as=APIGroupDiscoveryList"));
        let query = head.uri.query().unwrap_or_default();
        let is_watch = ["watch=true", "watch=1"].iter().any(|it| query.contains(it));
        match (head.method, path) {
            (Method::GET, Path::Document(name)) => document(name, is_aggregated),
            (Method::GET, Path::List(namespace)) if is_watch => {
                self.watch(namespace, query.contains("resourceVersion="))
            }
            (Method::GET, Path::List(namespace)) => {
                json_of(200, &self.objects.borrow().list(namespace))
            }
            (Method::POST, Path::List(Some(namespace))) => match read(body).await {
                Ok(object) => answer(201, self.objects.borrow_mut().create(namespace, object)),
                Err(refusal) => answer(200, Err(refusal)),
            },
            (Method::GET, Path::One(namespace, name)) => {
                answer(200, self.objects.borrow().get(&key(namespace, name)))
            }
            (Method::PUT, Path::One(namespace, name)) => match read(body).await {
                Ok(object) => {
                    answer(200, self.objects.borrow_mut().update(key(namespace, name), object))
                }
                Err(refusal) => answer(200, Err(refusal)),
            },
            (Method::DELETE, Path::One(namespace, name)) => {
                answer(200, self.objects.borrow_mut().delete(&key(namespace, name)))
            }
            (_, Path::Nothing) => status(404, "NotFound", "there is nothing here"),
            _ => status(405, "MethodNotAllowed", "this cannot be done here"),
        }
    }

    fn believes(
        &self,
        client: Option<&ClientCertificate>,
        user: Option<&header::HeaderValue>,
    ) -> bool {
        let now = Timestamp::now();
        let name = client.and_then(|it| it.user(now).ok()).map(|it| it.name.as_str());
        let is_proxy = name.is_some_and(|name| {
            self.allowed_names.is_empty() || self.allowed_names.iter().any(|it| it == name)
        });
        is_proxy && user.is_some_and(|it| !it.is_empty())
    }

    fn watch(&self, namespace: Option<&str>, is_begun: bool) -> Response<Body> {
        let (present, events) = self.objects.borrow().watch(namespace, is_begun);
        let namespace = namespace.map(str::to_owned);
        let first = stream::iter([present]);
        let rest = stream::unfold((events, namespace), |(mut events, namespace)| async move {
            loop {
                // Who is too far behind begins anew.
                let event = events.recv().await.ok()?;
                if namespace.as_ref().is_none_or(|it| *it == event.namespace) {
                    return Some((event.line, (events, namespace)));
                }
            }
        });
        let lines = futures_util::StreamExt::chain(first, rest);
        let frames = futures_util::StreamExt::map(lines, |it| Ok(Frame::data(Bytes::from(it))));
        let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
        let kind = header::HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}

fn key(namespace: &str, name: &str) -> (String, String) {
    (namespace.to_owned(), name.to_owned())
}

async fn read(body: Incoming) -> Result<Value, Refusal> {
    let body = Limited::new(body, BODY_MAX).collect().await;
    let body = body.map_err(|_| Refusal::Invalid("the body is too large".to_owned()))?;
    serde_json::from_slice::<Value>(&body.to_bytes())
        .ok()
        .filter(|it| it["metadata"].is_object())
        .ok_or_else(|| Refusal::Invalid("the body is no object in JSON".to_owned()))
}

fn answer(code: u16, outcome: Result<Value, Refusal>) -> Response<Body> {
    match outcome {
        Ok(object) => json_of(code, &object),
        Err(Refusal::NotFound) => status(404, "NotFound", "flunders not found"),
        Err(Refusal::Exists) => status(409, "AlreadyExists", "flunders already exists"),
        Err(Refusal::Conflict) => status(409, "Conflict", "the object has been modified"),
        Err(Refusal::Invalid(why)) => status(422, "Invalid", &why),
        Err(Refusal::Full) => status(507, "InternalError", "there are too many objects"),
    }
}

fn document(name: &str, is_aggregated: bool) -> Response<Body> {
    let document = match name {
        "groups" if is_aggregated => {
            let mut response = json_of(200, &documents::aggregated());
            let kind = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
            let kind = header::HeaderValue::from_static(kind);
            response.headers_mut().insert(header::CONTENT_TYPE, kind);
            return response;
        }
        "groups" => documents::groups(),
        "group" => documents::group(),
        "resources" => documents::resources(),
        "v2" => documents::openapi_v2(),
        "index" => documents::index(),
        _ => documents::openapi_v3(),
    };
    json_of(200, &document)
}

fn status(code: u16, reason: &str, message: &str) -> Response<Body> {
    json_of(
        code,
        &json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "reason": reason, "message": message, "code": code,
        }),
    )
}

fn json_of(code: u16, value: &Value) -> Response<Body> {
    let mut response = text(StatusCode::from_u16(code).unwrap_or_default(), value.to_string());
    let kind = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn text(code: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(text.into()).boxed_unsync());
    *response.status_mut() = code;
    response
}

#[cfg(test)]
mod tests {
    use super::Path;

    #[test]
    fn paths_lead_to_objects_and_documents() {
        let base = "/apis/wardle.example.com/v1";
        let check = |path: &str, expected: Path<'_>| assert_eq!(Path::parse(path), expected);
        check("/healthz", Path::Document("health"));
        check("/apis", Path::Document("groups"));
        check(base, Path::Document("resources"));
        check("/openapi/v3/apis/wardle.example.com/v1", Path::Document("v3"));
        check(&format!("{base}/flunders"), Path::List(None));
        check(&format!("{base}/namespaces/a/flunders"), Path::List(Some("a")));
        check(&format!("{base}/namespaces/a/flunders/b"), Path::One("a", "b"));
        check(&format!("{base}/namespaces/a/fischers"), Path::Nothing);
        check("/apis/other.example.com/v1", Path::Nothing);
    }
}
