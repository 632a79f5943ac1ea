//! Connections to one server: HTTP/2 shared by all requests, or HTTP/1.1 with one connection for
//! each.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::{ApiError, Reason};
use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use lifecycle::Tasks;
use rustls::pki_types::ServerName;
use stdx::{Backoff, Random};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

const TIMEOUT_CONNECT: Duration = Duration::from_secs(10);
const PING_INTERVAL: Duration = Duration::from_secs(30);
const DELAY_FIRST: Duration = Duration::from_millis(100);
const DELAY_MAX: Duration = Duration::from_secs(5);

/// The server's end of a connection.
pub(super) struct Endpoint {
    pub(super) host: String,
    pub(super) port: u16,
    /// `None` for plain HTTP.
    pub(super) tls: Option<(Arc<rustls::ClientConfig>, ServerName<'static>)>,
}

pub(super) struct Connections {
    endpoint: Endpoint,
    tasks: Tasks,
    random: Random,
    state: Mutex<State>,
}

struct State {
    shared: Option<http2::SendRequest<Full<Bytes>>>,
    backoff: Backoff,
    /// After a failure nobody connects before this.
    retry_at: Option<Instant>,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// Runs hyper's own tasks under our names.
#[derive(Clone)]
struct Executor(Tasks);

impl<F> hyper::rt::Executor<F> for Executor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, task: F) {
        self.0.spawn("http2-stream", |_| task);
    }
}

fn unavailable(what: &str, err: impl std::fmt::Display) -> ApiError {
    ApiError::new(Reason::ServiceUnavailable, format!("{what}: {err}"))
}

impl Connections {
    pub(super) fn new(endpoint: Endpoint, tasks: Tasks, random: Random) -> Self {
        let backoff = Backoff::new(DELAY_FIRST, DELAY_MAX);
        let state = Mutex::new(State { shared: None, backoff, retry_at: None });
        Self { endpoint, tasks, random, state }
    }

    /// Sends one request and waits for the head of the response.
    pub(super) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, ApiError> {
        let response = match self.sender().await? {
            Sender::Http2(mut sender) => {
                sender.ready().await.map_err(|err| unavailable("the connection closed", err))?;
                sender.send_request(request).await
            }
            Sender::Http1(mut sender) => {
                // HTTP/1.1 has the path alone in its first line, and the host in a header.
                let host = request.uri().authority().map(|it| it.as_str().to_owned());
                if let Some(host) = host.and_then(|it| it.parse().ok()) {
                    request.headers_mut().insert(http::header::HOST, host);
                }
                if let Some(path) = request.uri().path_and_query().cloned() {
                    *request.uri_mut() = Uri::from(path);
                }
                sender.ready().await.map_err(|err| unavailable("the connection closed", err))?;
                sender.send_request(request).await
            }
        };
        response.map_err(|err| unavailable("the request was not answered", stdx::error_chain(&err)))
    }

    /// Whoever has the shared connection keeps it for what is under way.
    pub(super) async fn forget(&self) {
        self.state.lock().await.shared = None;
    }

    async fn sender(&self) -> Result<Sender, ApiError> {
        let mut state = self.state.lock().await;
        if let Some(sender) = state.shared.as_ref().filter(|it| !it.is_closed()) {
            return Ok(Sender::Http2(sender.clone()));
        }
        state.shared = None;
        if let Some(retry_at) = state.retry_at.take() {
            tokio::time::sleep_until(retry_at).await;
        }
        let connected = tokio::time::timeout(TIMEOUT_CONNECT, self.connect()).await;
        match connected.unwrap_or_else(|_| Err(unavailable("connecting", "timed out"))) {
            Ok(sender) => {
                state.backoff.reset();
                if let Sender::Http2(shared) = &sender {
                    state.shared = Some(shared.clone());
                }
                Ok(sender)
            }
            Err(err) => {
                let delay = self.random.jitter(state.backoff.step(), 0.5);
                state.retry_at = Some(Instant::now() + delay);
                Err(err)
            }
        }
    }

    async fn connect(&self) -> Result<Sender, ApiError> {
        let Endpoint { host, port, tls } = &self.endpoint;
        let at = format!("connecting to {host}:{port}");
        let tcp = TcpStream::connect((host.as_str(), *port)).await;
        let tcp = tcp.map_err(|err| unavailable(&at, err))?;
        // A small request must not wait for the acknowledgement of the one before.
        let _ = tcp.set_nodelay(true);
        let Some((config, name)) = tls else {
            return self.handshake_http1(TokioIo::new(tcp)).await;
        };
        let stream = TlsConnector::from(config.clone()).connect(name.clone(), tcp).await;
        let stream = stream.map_err(|err| unavailable(&at, err))?;
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            self.handshake_http2(TokioIo::new(stream)).await
        } else {
            self.handshake_http1(TokioIo::new(stream)).await
        }
    }

    async fn handshake_http2<I>(&self, io: I) -> Result<Sender, ApiError>
    where
        I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    {
        let (sender, connection) = http2::Builder::new(Executor(self.tasks.clone()))
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_INTERVAL)
            .adaptive_window(true)
            .handshake(io)
            .await
            .map_err(|err| unavailable("starting HTTP/2", err))?;
        self.tasks.spawn("http2", |shutdown| async move {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                // Requests on it have the error; there is nobody else to tell.
                _ = connection => {}
            }
        });
        Ok(Sender::Http2(sender))
    }

    async fn handshake_http1<I>(&self, io: I) -> Result<Sender, ApiError>
    where
        I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    {
        let (sender, connection) =
            http1::handshake(io).await.map_err(|err| unavailable("starting HTTP/1.1", err))?;
        self.tasks.spawn("http1", |shutdown| async move {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                _ = connection => {}
            }
        });
        Ok(Sender::Http1(sender))
    }
}
