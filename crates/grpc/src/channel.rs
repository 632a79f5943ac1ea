//! A client's connection: one TCP, TLS or Unix stream with HTTP/2, many calls at once.
//!
//! Promises: a failed call tells whether the server can have seen it (`CallError`); a connection
//! whose peer is silent is noticed by pings and all its calls end. It never reconnects or retries:
//! whoever holds it decides.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use h2::{PingPong, RecvStream, SendStream};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, Uri};
use lifecycle::{Shutdown, Tasks};
use prost::Message;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use super::frame::{self, Decoder};
use super::{Code, Method, Status};

const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;
const FRAME_MAX: u32 = 64 << 10;
/// Unless another is given; keeps one message from taking all memory.
const ANSWER_MAX: usize = 512 << 20;

/// Where a server is.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// A name or an address; with TLS also the name that the server's certificate must have.
    pub host: String,
    pub port: u16,
    /// `None` for plain HTTP/2.
    pub tls: Option<Arc<rustls::ClientConfig>>,
}

#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// For TCP, TLS and HTTP/2 together.
    pub timeout_connect: Duration,
    /// After this long without a ping, one is sent.
    pub ping_interval: Duration,
    /// How long its answer may take before the connection is given up.
    pub timeout_ping: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            timeout_connect: Duration::from_secs(5),
            ping_interval: Duration::from_secs(10),
            timeout_ping: Duration::from_secs(5),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("{host:?} is not a host name")]
    ParseHost { host: String },
    #[error("connecting to {host}:{port}")]
    Tcp {
        host: String,
        port: u16,
        #[source]
        source: std::io::Error,
    },
    #[error("starting TLS with {host}:{port}")]
    Tls {
        host: String,
        port: u16,
        #[source]
        source: std::io::Error,
    },
    #[error("starting HTTP/2 with {host}:{port}")]
    Http {
        host: String,
        port: u16,
        #[source]
        source: h2::Error,
    },
    #[error("connecting to {host}:{port} took longer than {after:?}")]
    TimedOut { host: String, port: u16, after: Duration },
    #[error("connecting to {}", path.display())]
    Unix {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("starting HTTP/2 with {}", path.display())]
    UnixHttp {
        path: PathBuf,
        #[source]
        source: h2::Error,
    },
    #[error("connecting to {} took longer than {after:?}", path.display())]
    UnixTimedOut { path: PathBuf, after: Duration },
}

/// How a call can fail. Only `NotSent` is sure not to have happened.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CallError {
    /// The server answered. Whether that means "did not happen" depends on the status.
    #[error(transparent)]
    Status(#[from] Status),
    /// The server has not looked at the request.
    #[error("the request was not sent: {why}")]
    NotSent { why: String },
    /// The connection broke while the answer was under way.
    #[error("the connection broke: {why}")]
    Broken { why: String },
}

/// Cheap to clone; the connection ends when its last clone and its last call are gone.
#[derive(Clone)]
pub struct Channel {
    sender: SendRequest<Bytes>,
    /// `http://host:port`, to which a path is joined.
    scheme: &'static str,
    authority: http::uri::Authority,
    headers: Vec<(HeaderName, HeaderValue)>,
    answer_max: usize,
    closed: Shutdown,
    calls: Calls,
}

/// How many calls are under way. Go's servers end a connection that is pinged while there are
/// none (`PermitWithoutStream` is false), and then there is nobody to whom silence would matter.
#[derive(Clone, Default)]
struct Calls(Arc<AtomicUsize>);

/// One call, until it is dropped.
struct UnderWay(Calls);

impl Calls {
    fn begin(&self) -> UnderWay {
        self.0.fetch_add(1, Ordering::Relaxed);
        UnderWay(self.clone())
    }

    fn is_idle(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Channel {
    pub async fn connect(
        endpoint: &Endpoint,
        timing: Timing,
        tasks: &Tasks,
    ) -> Result<Self, ConnectError> {
        let after = timing.timeout_connect;
        match tokio::time::timeout(after, Self::establish(endpoint, timing, tasks)).await {
            Ok(result) => result,
            Err(_) => {
                let Endpoint { host, port, .. } = endpoint.clone();
                Err(ConnectError::TimedOut { host, port, after })
            }
        }
    }

    async fn establish(
        endpoint: &Endpoint,
        timing: Timing,
        tasks: &Tasks,
    ) -> Result<Self, ConnectError> {
        let Endpoint { host, port, tls } = endpoint.clone();
        let tcp = TcpStream::connect((host.as_str(), port)).await;
        let tcp = tcp.map_err(|source| ConnectError::Tcp { host: host.clone(), port, source })?;
        // A small request must not wait for the acknowledgement of the one before.
        let _ = tcp.set_nodelay(true);
        let Some(config) = tls else {
            return Self::handshake(tcp, endpoint, timing, tasks).await;
        };
        let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())
            .map_err(|_| ConnectError::ParseHost { host: host.clone() })?;
        let stream = TlsConnector::from(config).connect(name, tcp).await;
        let stream = stream.map_err(|source| ConnectError::Tls { host, port, source })?;
        Self::handshake(stream, endpoint, timing, tasks).await
    }

    async fn handshake<S>(
        stream: S,
        endpoint: &Endpoint,
        timing: Timing,
        tasks: &Tasks,
    ) -> Result<Self, ConnectError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Endpoint { host, port, tls } = endpoint.clone();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let authority = match host.contains(':') && !host.starts_with('[') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        };
        let authority =
            authority.parse().map_err(|_| ConnectError::ParseHost { host: host.clone() })?;
        Self::begin(stream, (scheme, authority), timing, tasks)
            .await
            .map_err(|source| ConnectError::Http { host, port, source })
    }

    /// Over a socket of this machine. Nobody can be told apart by a name there.
    pub async fn connect_unix(
        path: &Path,
        timing: Timing,
        tasks: &Tasks,
    ) -> Result<Self, ConnectError> {
        let at = || path.to_owned();
        let connecting = async {
            let stream = UnixStream::connect(path).await;
            let stream = stream.map_err(|source| ConnectError::Unix { path: at(), source })?;
            let authority = http::uri::Authority::from_static("localhost");
            Self::begin(stream, ("http", authority), timing, tasks)
                .await
                .map_err(|source| ConnectError::UnixHttp { path: at(), source })
        };
        let after = timing.timeout_connect;
        let connected = tokio::time::timeout(after, connecting).await;
        connected.unwrap_or_else(|_| Err(ConnectError::UnixTimedOut { path: at(), after }))
    }

    async fn begin<S>(
        stream: S,
        (scheme, authority): (&'static str, http::uri::Authority),
        timing: Timing,
        tasks: &Tasks,
    ) -> Result<Self, h2::Error>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, mut connection) = h2::client::Builder::new()
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_frame_size(FRAME_MAX)
            .enable_push(false)
            .handshake(stream)
            .await?;
        let pings = connection.ping_pong().expect("taken once");
        let closed = Shutdown::new();
        let at_end = closed.clone().drop_guard();
        let calls = Calls::default();
        let watched = calls.clone();
        tasks.spawn("grpc-connection", |shutdown| async move {
            let _at_end = at_end;
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                // Calls on it have the error; there is nobody else to tell.
                _ = connection => {}
                () = await_silence(pings, timing, watched) => {}
            }
        });
        let answer_max = ANSWER_MAX;
        Ok(Self { sender, scheme, authority, headers: Vec::new(), answer_max, closed, calls })
    }

    /// The same connection with a secret on each call. `None` if it cannot be a header.
    pub fn with_token(&self, token: &str) -> Option<Self> {
        let mut token = HeaderValue::from_str(token).ok()?;
        token.set_sensitive(true);
        Some(self.with_header(http::header::AUTHORIZATION, token))
    }

    /// The same connection with this header on each call.
    #[must_use]
    pub fn with_header(&self, name: HeaderName, value: HeaderValue) -> Self {
        let mut channel = self.clone();
        channel.headers.push((name, value));
        channel
    }

    /// The same connection with another bound for one answer.
    #[must_use]
    pub fn with_answers_up_to(&self, answer_max: usize) -> Self {
        Self { answer_max, ..self.clone() }
    }

    /// Whether calls can only fail.
    pub fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }

    /// Waits for the end of the connection.
    pub async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// One request, one answer. Dropping the future cancels the call.
    pub async fn unary<Q, A>(&self, method: Method<Q, A>, request: &Q) -> Result<A, CallError>
    where
        Q: Message,
        A: Message + Default,
    {
        let _call = self.calls.begin();
        let (response, mut send) = self.start(method.path).await?;
        send.send_data(frame::encode(request), true).map_err(|err| broken(&err))?;
        let mut answers = Answers::open(response, self.answer_max).await?;
        let Some(answer) = answers.next_message().await? else {
            return Err(Status::new(Code::Internal, "the answer has no message").into());
        };
        // The status comes after the message, and it alone says that the call succeeded.
        match answers.next_message().await? {
            None => Ok(frame::decode(answer)?),
            Some(_) => Err(Status::new(Code::Internal, "the answer has two messages").into()),
        }
    }

    /// A call that streams both ways (or its answers only: then the sender is dropped after the
    /// request). The first request goes out at once; many servers send no headers before they have
    /// it.
    pub async fn open<Q, A>(
        &self,
        method: Method<Q, A>,
        first: &Q,
    ) -> Result<(Requests<Q>, Pending<A>), CallError>
    where
        Q: Message,
        A: Message + Default,
    {
        let call = self.calls.begin();
        let (response, mut send) = self.start(method.path).await?;
        send.send_data(frame::encode(first), false).map_err(|err| broken(&err))?;
        let requests = Requests { send, _call: call, messages: std::marker::PhantomData };
        let answer_max = self.answer_max;
        Ok((requests, Pending { response, answer_max, messages: std::marker::PhantomData }))
    }

    async fn start(
        &self,
        path: &'static str,
    ) -> Result<(h2::client::ResponseFuture, SendStream<Bytes>), CallError> {
        let not_sent = |err: &h2::Error| CallError::NotSent { why: err.to_string() };
        let mut sender = self.sender.clone().ready().await.map_err(|err| not_sent(&err))?;
        let uri = Uri::builder()
            .scheme(self.scheme)
            .authority(self.authority.clone())
            .path_and_query(path)
            .build()
            .expect("parts that were parsed make a URI");
        let mut request = Request::post(uri)
            .header(http::header::CONTENT_TYPE, "application/grpc")
            .header(http::header::TE, "trailers");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.body(()).expect("headers are valid");
        sender.send_request(request, false).map_err(|err| not_sent(&err))
    }
}

/// The client's side of a stream. Dropping it resets the stream; `finish` ends it in order.
pub struct Requests<Q> {
    send: SendStream<Bytes>,
    _call: UnderWay,
    messages: std::marker::PhantomData<fn(Q)>,
}

impl<Q: Message> Requests<Q> {
    /// Waits for room, so that what a slow server has not taken is bounded by one message.
    pub async fn send(&mut self, request: &Q) -> Result<(), CallError> {
        send_paced(&mut self.send, frame::encode(request)).await.map_err(|err| broken(&err))
    }

    pub fn finish(mut self) -> Result<(), CallError> {
        self.send.send_data(Bytes::new(), true).map_err(|err| broken(&err))
    }
}

/// A stream whose server has not begun to answer.
pub struct Pending<A> {
    response: h2::client::ResponseFuture,
    answer_max: usize,
    messages: std::marker::PhantomData<fn() -> A>,
}

impl<A: Message + Default> Pending<A> {
    pub async fn answers(self) -> Result<Responses<A>, CallError> {
        let answers = Answers::open(self.response, self.answer_max).await?;
        Ok(Responses { answers, messages: std::marker::PhantomData })
    }
}

/// The server's side of a stream.
pub struct Responses<A> {
    answers: Answers,
    messages: std::marker::PhantomData<fn() -> A>,
}

impl<A: Message + Default> Responses<A> {
    /// The next answer; `None` when the server ended the stream with success. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<A>, CallError> {
        match self.answers.next_message().await? {
            Some(message) => Ok(Some(frame::decode(message)?)),
            None => Ok(None),
        }
    }
}

/// The messages of one response, and the status at its end.
struct Answers {
    recv: RecvStream,
    decoder: Decoder,
    is_done: bool,
}

impl Answers {
    async fn open(
        response: h2::client::ResponseFuture,
        answer_max: usize,
    ) -> Result<Self, CallError> {
        let response = response.await.map_err(|err| unanswered(&err))?;
        check_head(&response)?;
        let recv = response.into_body();
        Ok(Self { recv, decoder: Decoder::new(answer_max), is_done: false })
    }

    async fn next_message(&mut self) -> Result<Option<Bytes>, CallError> {
        loop {
            if let Some(message) = self.decoder.next_message()? {
                return Ok(Some(message));
            }
            if self.is_done {
                return Ok(None);
            }
            match self.recv.data().await {
                Some(piece) => {
                    let piece = piece.map_err(|err| broken(&err))?;
                    let _ = self.recv.flow_control().release_capacity(piece.len());
                    self.decoder.push(piece);
                }
                None => self.read_status().await?,
            }
        }
    }

    async fn read_status(&mut self) -> Result<(), CallError> {
        let trailers = self.recv.trailers().await.map_err(|err| broken(&err))?;
        self.is_done = true;
        match trailers.as_ref().and_then(Status::read_from) {
            Some(status) => Ok(status?),
            None => Err(CallError::Broken { why: "the answer has no status".to_owned() }),
        }
    }
}

fn check_head(response: &Response<RecvStream>) -> Result<(), CallError> {
    if let Some(status) = Status::read_from(response.headers()) {
        return Ok(status?);
    }
    if response.status() != StatusCode::OK {
        let text = format!("the server answered HTTP {}", response.status());
        return Err(Status::new(Code::Unavailable, text).into());
    }
    Ok(())
}

fn broken(err: &h2::Error) -> CallError {
    CallError::Broken { why: err.to_string() }
}

/// A server that is going away, or has too many streams, says which requests it has not looked at.
fn unanswered(err: &h2::Error) -> CallError {
    if err.is_remote() && err.reason() == Some(h2::Reason::REFUSED_STREAM) {
        return CallError::NotSent { why: err.to_string() };
    }
    broken(err)
}

/// Returns when the peer did not answer a ping in time.
async fn await_silence(mut pings: PingPong, timing: Timing, calls: Calls) {
    loop {
        tokio::time::sleep(timing.ping_interval).await;
        if calls.is_idle() {
            continue;
        }
        let pong = pings.ping(h2::Ping::opaque());
        match tokio::time::timeout(timing.timeout_ping, pong).await {
            Ok(Ok(_)) => {}
            Ok(Err(_)) | Err(_) => return,
        }
    }
}

/// Sends one piece as fast as the peer's window allows, and not faster: h2 itself would buffer all
/// of it.
async fn send_paced(stream: &mut SendStream<Bytes>, mut bytes: Bytes) -> Result<(), h2::Error> {
    while !bytes.is_empty() {
        stream.reserve_capacity(bytes.len());
        let granted = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await;
        let Some(granted) = granted else {
            return Err(h2::Reason::CANCEL.into());
        };
        let granted = granted?.min(bytes.len());
        stream.send_data(bytes.split_to(granted), false)?;
    }
    Ok(())
}
