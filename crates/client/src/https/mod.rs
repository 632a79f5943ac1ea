//! The transport over HTTPS: JSON, or protobuf for single objects, over HTTP/2 (or HTTP/1.1 when
//! the server has nothing better), with a client certificate or a bearer token.

mod connection;
mod decode;
mod discovery;
#[cfg(test)]
mod failover_tests;
mod lines;
mod metrics;
mod order;
mod path;
mod servers;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use apimachinery::{ApiError, Reason};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderName, Method, Response};
use http_body::Body;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use lifecycle::Tasks;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use stdx::{Pace, World};
use telemetry::Registry;
use tokio::time::Instant;

use crate::request::{Request, Verb};
use crate::transport::{Discovered, Reply, Transport, WatchEvent, WatchStream};
use connection::{Connections, Target};
pub use decode::{error, reply};
use lines::Lines;
use metrics::Metrics;
pub use path::Rendered;
use servers::Endpoint;
pub use servers::Servers;

/// Asks a server of ours for what its store remembers beyond what every client can count on.
pub const HISTORY_HEADER: &str = "xebec-history";
pub const HISTORY_OF_STORE: &str = "store";

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// Of what not every kind has.
const EITHER: &str = "application/vnd.kubernetes.protobuf,application/json";
const TIMEOUT_CALL: Duration = Duration::from_secs(60);
const BODY_MAX: usize = 256 << 20;
/// Of a server that is too busy.
const RETRIES_MAX: u32 = 3;
/// Of one request whose connection broke.
const SENDS_MAX: u32 = 3;
const RETRY_AFTER_MAX: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0:?} is not the URL of an API server")]
    Server(String),
    #[error("reading the certificate authority")]
    Authority(#[source] rustls::pki_types::pem::Error),
    #[error("trusting the certificate authority")]
    Trust(#[source] rustls::Error),
    #[error("reading the client certificate or its key")]
    Certificate(#[source] rustls::pki_types::pem::Error),
    #[error("setting up TLS")]
    Tls(#[source] rustls::Error),
    #[error("the token has characters that no header can have")]
    Token,
    #[error("the header {0:?} has characters that no header can have")]
    Header(String),
}

/// The form in which single objects are sent and asked for. Lists and watches are JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Content {
    #[default]
    Json,
    /// For kinds that have it.
    Protobuf,
}

/// Where to connect and as whom.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// `https://host:port`, with a path when the API is behind one.
    pub server: String,
    /// Those that answer the same, where that one cannot be reached.
    pub others: Servers,
    /// The only authorities that are trusted.
    pub ca_pem: Vec<u8>,
    /// Certificate chain and key.
    pub certificate_pem: Option<(Vec<u8>, Vec<u8>)>,
    /// In their place, one that changes: from the next connection on ([`Https::reconnect`]).
    pub identity: Option<Arc<dyn ResolvesClientCert>>,
    pub token: Option<String>,
    /// The name that the server's certificate must have, if not its host.
    pub tls_server_name: Option<String>,
    pub user_agent: String,
    /// Where requests are counted.
    pub metrics: Registry,
    /// How often it may ask; watches do not count, as upstream's do not.
    pub pace: Option<Pace>,
    pub content: Content,
    /// Sent with every request: whom to act as, for one.
    pub headers: Vec<(String, String)>,
}

/// A `Transport` to the servers of one API with one identity. Cheap to clone.
#[derive(Clone)]
pub struct Https {
    shared: Arc<Shared>,
}

struct Shared {
    connections: Connections,
    authorization: Option<HeaderValue>,
    user_agent: HeaderValue,
    metrics: Metrics,
    pace: Option<Mutex<Pace>>,
    content: Content,
    headers: HeaderMap,
}

impl Https {
    /// Connects with the first request, and again whenever the connection is gone.
    pub fn new(tasks: &Tasks, world: &World, config: &Config) -> Result<Self, Error> {
        let first = Endpoint::parse(&config.server)?;
        let tls = first.is_tls.then(|| tls_config(config).map(Arc::new)).transpose()?;
        let name = config.tls_server_name.as_ref().unwrap_or(&first.host).clone();
        let name = ServerName::try_from(name).map_err(|_| Error::Server(config.server.clone()))?;
        let tls_server_name = config.tls_server_name.as_ref().map(|_| name);
        let metrics = Metrics::new(&config.metrics, first.name());
        let target = Target { first, others: config.others.clone(), tls, tls_server_name };
        let connections = Connections::new(target, tasks.child("client"), world.random.clone());
        let header = |text: String| HeaderValue::from_str(&text).map_err(|_| Error::Token);
        let authorization = match &config.token {
            None => None,
            Some(token) => {
                let mut value = header(format!("Bearer {token}"))?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        let agent = if config.user_agent.is_empty() { "xebec" } else { &config.user_agent };
        let user_agent = header(agent.to_owned())?;
        let (pace, content) = (config.pace.map(Mutex::new), config.content);
        let headers = headers(&config.headers)?;
        let shared =
            Shared { connections, authorization, user_agent, metrics, pace, content, headers };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The next request makes a connection of its own, with the identity as it is then. What is under
    /// way ends where it is.
    pub async fn reconnect(&self) {
        self.shared.connections.forget().await;
    }
}

fn headers(pairs: &[(String, String)]) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let wrong = || Error::Header(name.clone());
        let key: HeaderName = name.parse().map_err(|_| wrong())?;
        let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| wrong())?;
        headers.append(key, value);
    }
    Ok(headers)
}

fn tls_config(config: &Config) -> Result<rustls::ClientConfig, Error> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&config.ca_pem) {
        roots.add(certificate.map_err(Error::Authority)?).map_err(Error::Trust)?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(Error::Tls)?
        .with_root_certificates(roots);
    let mut tls = match (&config.identity, &config.certificate_pem) {
        (Some(identity), _) => builder.with_client_cert_resolver(identity.clone()),
        (None, None) => builder.with_no_client_auth(),
        (None, Some((chain, key))) => {
            let chain = CertificateDer::pem_slice_iter(chain)
                .collect::<Result<Vec<_>, _>>()
                .map_err(Error::Certificate)?;
            let key = PrivateKeyDer::from_pem_slice(key).map_err(Error::Certificate)?;
            builder.with_client_auth_cert(chain, key).map_err(Error::Tls)?
        }
    };
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    if config.identity.is_some() {
        // Who resumes a session is who began it: with the certificate as it was then.
        tls.resumption = rustls::client::Resumption::disabled();
    }
    Ok(tls)
}

fn timed_out() -> ApiError {
    ApiError::new(Reason::Timeout, format!("the server did not answer within {TIMEOUT_CALL:?}"))
}

impl Shared {
    /// Sends until the server is not too busy, a bounded number of times. A response is one of
    /// success.
    async fn send(&self, rendered: Rendered, accept: &str) -> Result<Response<Incoming>, ApiError> {
        let mut attempt = 0;
        loop {
            let response = self.send_to_one(&rendered, accept).await?;
            if response.status().is_success() {
                return Ok(response);
            }
            let err = refusal(response).await;
            attempt += 1;
            if err.reason() != Reason::TooManyRequests || attempt > RETRIES_MAX {
                return Err(err);
            }
            self.metrics.retried(&rendered.method, err.code());
            let seconds = err.retry_after_seconds().and_then(|it| u64::try_from(it).ok());
            let delay = Duration::from_secs(seconds.unwrap_or(1).max(1));
            tokio::time::sleep(delay.min(RETRY_AFTER_MAX)).await;
        }
    }

    /// To one server after the other, until one answers. What may have been carried out is not sent
    /// again, unless it only reads.
    async fn send_to_one(
        &self,
        rendered: &Rendered,
        accept: &str,
    ) -> Result<Response<Incoming>, ApiError> {
        let mut tries_left = SENDS_MAX;
        loop {
            tries_left -= 1;
            let start = Instant::now();
            let sent = self.connections.send(|it| self.request(it, rendered, accept)).await;
            let code = sent.outcome.as_ref().ok().map(|it| it.status().as_u16());
            let server = sent.server.as_deref().map(Endpoint::name);
            self.metrics.answered(&rendered.method, server.as_deref(), code, start.elapsed());
            let failure = match sent.outcome {
                Ok(response) => return Ok(response),
                Err(failure) => failure,
            };
            let may_repeat = failure.is_unsent || rendered.method == Method::GET;
            // Nobody was there: the next connection waits, and whoever asks decides whether it does.
            if sent.server.is_none() || !may_repeat || tries_left == 0 {
                return Err(failure.error);
            }
            tracing::debug!(error = %failure.error, "sent again");
        }
    }

    fn request(
        &self,
        server: &Endpoint,
        rendered: &Rendered,
        accept: &str,
    ) -> Result<http::Request<Full<Bytes>>, ApiError> {
        let mut request = http::Request::builder()
            .method(rendered.method.clone())
            .uri(format!("{}{}", server.base, rendered.path))
            .header(ACCEPT, accept)
            .header(USER_AGENT, self.user_agent.clone());
        if let Some(content_type) = rendered.content_type {
            request = request.header(CONTENT_TYPE, content_type);
        }
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        if rendered.is_beyond_horizon {
            request = request.header(HISTORY_HEADER, HISTORY_OF_STORE);
        }
        if let Some(headers) = request.headers_mut() {
            headers.extend(self.headers.clone());
        }
        request
            .body(Full::new(rendered.body.clone()))
            .map_err(|err| ApiError::bad_request(format!("building the request: {err}")))
    }

    /// Waits for its turn.
    async fn pace(&self) {
        let Some(pace) = &self.pace else { return };
        let wait = pace.lock().unwrap_or_else(PoisonError::into_inner).reserve(Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }

    async fn exchange(&self, rendered: Rendered, accept: &str) -> Result<Bytes, ApiError> {
        self.pace().await;
        let whole = async { collect(self.send(rendered, accept).await?).await };
        tokio::time::timeout(TIMEOUT_CALL, whole).await.unwrap_or_else(|_| Err(timed_out()))
    }

    async fn get(&self, path: &str, accept: &str) -> Result<Bytes, ApiError> {
        self.exchange(Rendered::get(path.to_owned()), accept).await
    }

    async fn discover(&self) -> Result<Vec<Discovered>, ApiError> {
        let mut found = Vec::new();
        for path in ["/api", "/apis"] {
            let root: discovery::Root = parse(&self.get(path, discovery::ACCEPT).await?)?;
            for path in root.old_paths() {
                let resources: discovery::OldResources = parse(&self.get(&path, JSON).await?)?;
                found.extend(resources.resources());
            }
            found.extend(root.resources());
        }
        Ok(found)
    }
}

fn parse<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(bytes)
        .map_err(|err| ApiError::internal("the discovery document cannot be read").with_source(err))
}

async fn collect(response: Response<Incoming>) -> Result<Bytes, ApiError> {
    let body = Limited::new(response.into_body(), BODY_MAX).collect().await;
    body.map(http_body_util::Collected::to_bytes).map_err(|err| {
        ApiError::new(Reason::ServiceUnavailable, format!("the answer broke off: {err}"))
    })
}

async fn refusal(response: Response<Incoming>) -> ApiError {
    let code = response.status().as_u16();
    let retry_after = response.headers().get(RETRY_AFTER);
    let retry_after = retry_after.and_then(|it| it.to_str().ok()?.parse().ok());
    let body = collect(response).await.and_then(decode::as_json).unwrap_or_default();
    error(code, &body, retry_after)
}

/// A watch under way: what came and is not cut into lines yet.
struct Watch<B> {
    body: B,
    lines: Lines,
    is_over: bool,
}

impl<B: Body<Data = Bytes, Error: std::error::Error + 'static> + Unpin> Watch<B> {
    async fn next(&mut self) -> Option<Result<WatchEvent, ApiError>> {
        while !self.is_over {
            match self.lines.next(lines::LINE_MAX) {
                Ok(Some(line)) => {
                    let event = decode::event(&line);
                    self.is_over = event.is_err();
                    return Some(event);
                }
                Ok(None) => {}
                Err(err) => {
                    self.is_over = true;
                    let broken = ApiError::internal("the watch cannot be read");
                    return Some(Err(broken.with_source(err)));
                }
            }
            match self.body.frame().await? {
                Ok(frame) => {
                    if let Ok(bytes) = frame.into_data() {
                        self.lines.push(&bytes);
                    }
                }
                Err(err) => {
                    self.is_over = true;
                    let message = format!("the watch broke off: {}", stdx::error_chain(&err));
                    return Some(Err(ApiError::new(Reason::ServiceUnavailable, message)));
                }
            }
        }
        None
    }
}

/// The events of a watch, from the body of its answer.
pub fn events<B>(body: B) -> WatchStream
where
    B: Body<Data = Bytes, Error: std::error::Error + 'static> + Send + Unpin + 'static,
{
    let watch = Watch { body, lines: Lines::default(), is_over: false };
    let events =
        stream::unfold(
            watch,
            |mut watch| async move { watch.next().await.map(|event| (event, watch)) },
        );
    events.boxed()
}

impl Transport for Https {
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply, ApiError>> {
        let is_list = request.verb == Verb::List;
        // Of a collection that is deleted a list comes back.
        let is_single = !is_list && request.verb != Verb::DeleteCollection;
        let is_protobuf = self.shared.content == Content::Protobuf && is_single;
        let mut rendered = path::render(&request);
        drop(request);
        if is_protobuf {
            rendered.encode_as_protobuf();
        }
        async move {
            let accept = if is_protobuf { EITHER } else { JSON };
            let answer = self.shared.exchange(rendered, accept).await?;
            reply(&decode::as_json(answer)?, is_list)
        }
        .boxed()
    }

    fn watch(&self, request: Request) -> BoxFuture<'_, Result<WatchStream, ApiError>> {
        let rendered = path::render(&request);
        drop(request);
        async move {
            let head = tokio::time::timeout(TIMEOUT_CALL, self.shared.send(rendered, JSON)).await;
            let body = head.unwrap_or_else(|_| Err(timed_out()))?.into_body();
            Ok(events(body))
        }
        .boxed()
    }

    fn get_path(&self, path: String) -> BoxFuture<'_, Result<Bytes, ApiError>> {
        async move { self.shared.get(&path, JSON).await }.boxed()
    }

    fn discover(&self) -> BoxFuture<'_, Result<Vec<Discovered>, ApiError>> {
        self.shared.discover().boxed()
    }
}
