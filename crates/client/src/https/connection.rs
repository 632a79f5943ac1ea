//! Connections to the servers of one API, to one of them at a time: HTTP/2 shared by all requests,
//! or HTTP/1.1 with one connection for each.
//!
//! Promises: a server that cannot be reached is passed over for the next one, and tried again
//! later; a failed request says whether a server can have seen it. Which requests are sent again is
//! not decided here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
use stdx::Random;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::order::Order;
use super::servers::{Endpoint, Servers};

const TIMEOUT_CONNECT: Duration = Duration::from_secs(10);
/// Where there is another one to go to.
const TIMEOUT_CONNECT_OF_SEVERAL: Duration = Duration::from_secs(3);
/// How often a silent server is asked whether it is there, while somebody waits for it, and how
/// long it has to answer. Who has another to go to leaves well before a node counts as lost.
const PING: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));
const PING_OF_SEVERAL: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(5));

/// How servers are spoken to, and which there are.
pub(super) struct Target {
    pub(super) first: Endpoint,
    pub(super) others: Servers,
    /// `None` for plain HTTP.
    pub(super) tls: Option<Arc<rustls::ClientConfig>>,
    /// The name that certificates must have, if not the server's host.
    pub(super) tls_server_name: Option<ServerName<'static>>,
}

pub(super) struct Connections {
    target: Target,
    tasks: Tasks,
    random: Random,
    state: Mutex<State>,
}

struct State {
    shared: Option<(Shared, Arc<Endpoint>)>,
    order: Order,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(Shared),
}

#[derive(Clone)]
struct Shared {
    sender: http2::SendRequest<Full<Bytes>>,
    /// Somebody has met its end, maybe before it says so itself.
    is_broken: Arc<AtomicBool>,
}

impl Sender {
    async fn send(
        &mut self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, hyper::Error> {
        match self {
            Self::Http2(Shared { sender, .. }) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
            Self::Http1(sender) => {
                // HTTP/1.1 has the path alone in its first line, and the host in a header.
                let host = request.uri().authority().map(|it| it.as_str().to_owned());
                if let Some(host) = host.and_then(|it| it.parse().ok()) {
                    request.headers_mut().insert(http::header::HOST, host);
                }
                if let Some(path) = request.uri().path_and_query().cloned() {
                    *request.uri_mut() = Uri::from(path);
                }
                sender.ready().await?;
                sender.send_request(request).await
            }
        }
    }

    /// Whether this is the end of the connection, which is told once.
    fn is_broken_by(&self, err: &hyper::Error) -> bool {
        // The end of one request alone.
        if of_http2(err).is_some_and(h2::Error::is_reset) {
            return false;
        }
        match self {
            Self::Http2(shared) => !shared.is_broken.swap(true, Ordering::Relaxed),
            Self::Http1(_) => true,
        }
    }
}

impl Shared {
    fn is_good(&self) -> bool {
        !self.sender.is_closed() && !self.is_broken.load(Ordering::Relaxed)
    }
}

/// A request that was not answered.
pub(super) struct Failure {
    pub(super) error: ApiError,
    /// No server has looked at it.
    pub(super) is_unsent: bool,
}

/// What became of a request, and at which server, if it came to one.
pub(super) struct Sent {
    pub(super) server: Option<Arc<Endpoint>>,
    pub(super) outcome: Result<Response<Incoming>, Failure>,
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

impl From<hyper::Error> for Failure {
    fn from(err: hyper::Error) -> Self {
        let error = unavailable("the request was not answered", stdx::error_chain(&err));
        Self { error, is_unsent: is_unsent(&err) }
    }
}

/// Sure alone: a server that goes away names the last request that it will answer, and what came
/// after that ends with its farewell (RFC 9113, 6.8); others it refuses before it looks (8.7).
fn is_unsent(err: &hyper::Error) -> bool {
    let is_refused = of_http2(err).is_some_and(|it| {
        (it.is_go_away() && it.is_remote()) || it.reason() == Some(h2::Reason::REFUSED_STREAM)
    });
    err.is_canceled() || err.is_closed() || is_refused
}

fn of_http2(err: &hyper::Error) -> Option<&h2::Error> {
    std::error::Error::source(err).and_then(|it| it.downcast_ref())
}

impl Connections {
    pub(super) fn new(target: Target, tasks: Tasks, random: Random) -> Self {
        let state = Mutex::new(State { shared: None, order: Order::default() });
        Self { target, tasks, random, state }
    }

    /// Sends one request, which is made for the server that it goes to, and waits for the head of
    /// the response.
    pub(super) async fn send(
        &self,
        make: impl Fn(&Endpoint) -> Result<Request<Full<Bytes>>, ApiError>,
    ) -> Sent {
        let (sender, server) = match self.sender().await {
            Ok(found) => found,
            Err(error) => {
                return Sent { server: None, outcome: Err(Failure { error, is_unsent: true }) };
            }
        };
        let outcome = match make(&server) {
            Ok(request) => self.send_over(sender, &server, request).await,
            Err(error) => Err(Failure { error, is_unsent: false }),
        };
        Sent { server: Some(server), outcome }
    }

    async fn send_over(
        &self,
        mut sender: Sender,
        server: &Arc<Endpoint>,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Failure> {
        let answered = sender.send(request).await;
        if let Err(err) = &answered
            && sender.is_broken_by(err)
        {
            self.state.lock().await.order.missed(server, Instant::now(), &self.random);
        }
        Ok(answered?)
    }

    /// Whoever has the shared connection keeps it for what is under way.
    pub(super) async fn forget(&self) {
        self.state.lock().await.shared = None;
    }

    /// Of the connection that there is, else of a new one: to the server of the last one, or to the
    /// next that can be reached.
    async fn sender(&self) -> Result<(Sender, Arc<Endpoint>), ApiError> {
        let mut state = self.state.lock().await;
        if let Some((shared, server)) = state.shared.as_ref().filter(|it| it.0.is_good()) {
            return Ok((Sender::Http2(shared.clone()), server.clone()));
        }
        state.shared = None;
        let others = self.target.others.all();
        let first = &self.target.first;
        let all = [first.clone()].into_iter().chain(others.iter().map(|it| first.beside(*it)));
        let turn = state.order.turn(all.collect(), Instant::now());
        if let Some(begin) = turn.begin {
            tokio::time::sleep_until(begin).await;
        }
        let mut failures = Vec::new();
        for server in turn.servers {
            match self.connect(&server, !others.is_empty()).await {
                Ok(sender) => {
                    state.order.reached(&server);
                    if let Sender::Http2(shared) = &sender {
                        state.shared = Some((shared.clone(), server.clone()));
                    }
                    return Ok((sender, server));
                }
                Err(err) => {
                    state.order.missed(&server, Instant::now(), &self.random);
                    failures.push(err.message().to_owned());
                }
            }
        }
        Err(ApiError::new(Reason::ServiceUnavailable, failures.join("; ")))
    }

    async fn connect(&self, server: &Endpoint, has_others: bool) -> Result<Sender, ApiError> {
        let within = if has_others { TIMEOUT_CONNECT_OF_SEVERAL } else { TIMEOUT_CONNECT };
        let ping = if has_others { PING_OF_SEVERAL } else { PING };
        let at = format!("connecting to {}", server.name());
        let connected = tokio::time::timeout(within, self.establish(server, &at, ping)).await;
        connected.unwrap_or_else(|_| Err(unavailable(&at, "timed out")))
    }

    async fn establish(
        &self,
        server: &Endpoint,
        at: &str,
        ping: (Duration, Duration),
    ) -> Result<Sender, ApiError> {
        let tcp = TcpStream::connect((server.host.as_str(), server.port)).await;
        let tcp = tcp.map_err(|err| unavailable(at, err))?;
        // A small request must not wait for the acknowledgement of the one before.
        let _ = tcp.set_nodelay(true);
        let Some(config) = &self.target.tls else {
            return self.handshake_http1(TokioIo::new(tcp)).await;
        };
        let name = match &self.target.tls_server_name {
            Some(name) => name.clone(),
            None => ServerName::try_from(server.host.clone()).map_err(|it| unavailable(at, it))?,
        };
        let stream = TlsConnector::from(config.clone()).connect(name, tcp).await;
        let stream = stream.map_err(|err| unavailable(at, err))?;
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            self.handshake_http2(TokioIo::new(stream), ping).await
        } else {
            self.handshake_http1(TokioIo::new(stream)).await
        }
    }

    async fn handshake_http2<I>(
        &self,
        io: I,
        (ping, timeout_ping): (Duration, Duration),
    ) -> Result<Sender, ApiError>
    where
        I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    {
        let (sender, connection) = http2::Builder::new(Executor(self.tasks.clone()))
            .timer(TokioTimer::new())
            .keep_alive_interval(ping)
            .keep_alive_timeout(timeout_ping)
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
        Ok(Sender::Http2(Shared { sender, is_broken: Arc::default() }))
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
