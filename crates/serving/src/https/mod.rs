//! HTTP/1.1 and HTTP/2 over TLS: one connection from its handshake to its end.

mod refusals;

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use lifecycle::{Shutdown, Tasks};
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use self::refusals::Refusals;
use crate::body::Measured;
use crate::gathered::Gathered;
use crate::{
    Bounds, Farewell, Guest, Limits, Meter, Overdue, Patient, Peer, Room, Stream, Timeouts, accept,
};

/// Of all headers of one request.
const HEADERS_MAX: usize = 64 << 10;
/// Streams that a client opens and resets before we get to them (CVE-2023-44487), and that we reset
/// for its errors (CVE-2025-8671): more end the connection.
const RESETS_PENDING_MAX: usize = 20;
const RESETS_OURS_MAX: usize = 256;
/// A silent HTTP/2 client is asked whether it is there, and has so long to answer.
const PING_INTERVAL: Duration = Duration::from_secs(60);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// When a client is not known any more.
pub type Until = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Serves until shutdown. `identify` gets the certificates of each connection, which TLS has
/// verified: the client's own first, none of a client without; `answer` gets what it made of them,
/// and the request.
pub fn serve<P, I, F, R, B>(
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    bounds: impl Into<Bounds>,
    tasks: &Tasks,
    identify: I,
    answer: F,
) where
    P: Clone + Send + Sync + 'static,
    I: Fn(&[CertificateDer<'_>]) -> P + Clone + Send + Sync + 'static,
    F: Fn(P, Request<Incoming>) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Send
        + Unpin
        + 'static,
{
    let identify = move |chain: &[CertificateDer<'_>]| (identify(chain), None);
    serve_while_known(listener, tls, bounds, tasks, identify, answer);
}

/// The same for clients that may cease to be known: then their connections end at once, with
/// everything on them.
pub fn serve_while_known<P, I, F, R, B>(
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    bounds: impl Into<Bounds>,
    tasks: &Tasks,
    identify: I,
    answer: F,
) where
    P: Clone + Send + Sync + 'static,
    I: Fn(&[CertificateDer<'_>]) -> (P, Option<Until>) + Clone + Send + Sync + 'static,
    F: Fn(P, Request<Incoming>) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Send
        + Unpin
        + 'static,
{
    let Bounds { share, streams } = bounds.into();
    let room = Room::new(Limits::of(share, Timeouts::HTTPS));
    let acceptor = TlsAcceptor::from(with_protocols(tls));
    let connections = tasks.clone();
    tasks.spawn("https", |shutdown| async move {
        let timeouts = room.limits().timeouts;
        let server = Server {
            timeouts,
            streams,
            tasks: connections.clone(),
            refusals: Arc::default(),
            identify,
            answer,
        };
        accept(&listener, &room, &connections, &shutdown, |guest, shutdown| {
            server.clone().run(acceptor.clone(), guest, shutdown)
        })
        .await;
    });
}

fn with_protocols(tls: Arc<rustls::ServerConfig>) -> Arc<rustls::ServerConfig> {
    if !tls.alpn_protocols.is_empty() {
        return tls;
    }
    let mut tls = (*tls).clone();
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(tls)
}

/// Runs the streams of HTTP/2 connections as tasks that the server knows.
#[derive(Clone)]
struct Streams(Tasks);

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, stream: F) {
        self.0.spawn("http2-stream", |_| async move {
            stream.await;
        });
    }
}

type Answered<B> = Pin<Box<dyn Future<Output = Result<Response<Measured<B>>, Infallible>> + Send>>;

#[derive(Clone)]
pub(crate) struct Server<I, F> {
    pub(crate) timeouts: Timeouts,
    /// At once, over one connection of HTTP/2.
    pub(crate) streams: u32,
    pub(crate) tasks: Tasks,
    pub(crate) refusals: Arc<Refusals>,
    pub(crate) identify: I,
    pub(crate) answer: F,
}

impl<P, I, F, R, B> Server<I, F>
where
    P: Clone + Send + Sync + 'static,
    I: Fn(&[CertificateDer<'_>]) -> (P, Option<Until>) + Clone + Send + Sync + 'static,
    F: Fn(P, Request<Incoming>) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Send
        + Unpin
        + 'static,
{
    pub(crate) async fn run<S>(self, acceptor: TlsAcceptor, guest: Guest<S>, shutdown: Shutdown)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Guest { stream, address, meter } = guest;
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            accepted = self.handshake(&acceptor, stream) => accepted,
        };
        let stream = match accepted {
            Ok(stream) => stream,
            Err(err) => return self.refusals.note(address, &err),
        };
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        meter.greeted(!is_http2);
        let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let (client, until) = (self.identify)(certificates);
        if let Some(until) = until {
            let meter = meter.clone();
            self.tasks.spawn("known-client", |shutdown| async move {
                tokio::select! {
                    biased;
                    () = shutdown.cancelled() => {}
                    () = meter.closed() => {}
                    () = until => meter.evict(),
                }
            });
        }
        let service = service_fn(self.service(client, Peer(address), &meter));
        let builder = builder(is_http2, self.streams, Streams(self.tasks.clone()));
        let stream = TokioIo::new(Gathered::new(stream, is_http2));
        let connection = builder.serve_connection_with_upgrades(stream, service);
        let mut connection = std::pin::pin!(connection);
        let ended = loop {
            let leave = tokio::select! {
                biased;
                leave = self.leave(&meter, &shutdown) => leave,
                ended = connection.as_mut() => break ended,
            };
            match leave {
                Leave::AtOnce => return,
                Leave::AfterThese => connection.as_mut().graceful_shutdown(),
                Leave::Soon => {
                    connection.as_mut().graceful_shutdown();
                    let drained = tokio::time::timeout(self.timeouts.drain, connection.as_mut());
                    break drained.await.unwrap_or(Ok(()));
                }
            }
        };
        // If it was upgraded, others have the stream now.
        meter.upgraded();
        if let Err(err) = ended {
            tracing::debug!(error = %err, "a connection ended");
        }
    }

    async fn handshake<S>(
        &self,
        acceptor: &TlsAcceptor,
        stream: Stream<S>,
    ) -> io::Result<TlsStream<Stream<S>>>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let within = self.timeouts.handshake;
        tokio::time::timeout(within, acceptor.accept(stream)).await.unwrap_or_else(|_| {
            let reason = format!("it took longer than {} s", within.as_secs());
            Err(io::Error::new(io::ErrorKind::TimedOut, reason))
        })
    }

    /// Requests with what the connection's certificate proves, counted until their answer is handed
    /// over.
    fn service(
        &self,
        client: P,
        peer: Peer,
        meter: &Arc<Meter>,
    ) -> impl Fn(Request<Incoming>) -> Answered<B> + use<P, I, F, R, B> {
        let (answer, meter) = (self.answer.clone(), meter.clone());
        move |mut request| {
            let exchange = meter.begin();
            request.extensions_mut().insert(peer);
            let (answered, meter) = (answer(client.clone(), request), meter.clone());
            Box::pin(async move {
                let response = answered.await;
                if response.extensions().get::<Patient>().is_some() {
                    exchange.be_patient();
                }
                if response.extensions().get::<Farewell>().is_some() {
                    meter.say_farewell();
                }
                Ok(response.map(|body| Measured::new(body, exchange)))
            })
        }
    }

    async fn leave(&self, meter: &Meter, shutdown: &Shutdown) -> Leave {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => Leave::Soon,
            () = meter.farewell() => Leave::AfterThese,
            why = meter.overdue(&self.timeouts) => match why {
                Overdue::Idle => Leave::Soon,
                Overdue::Header | Overdue::Stalled => {
                    tracing::debug!(?why, "a connection is closed");
                    Leave::AtOnce
                }
            },
        }
    }
}

/// How a connection ends that does not end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leave {
    /// Nobody reads what would be said.
    AtOnce,
    /// When what is in flight has ended, however long that takes.
    AfterThese,
    /// What is in flight has a moment.
    Soon,
}

fn builder(is_http2: bool, n_streams: u32, streams: Streams) -> auto::Builder<Streams> {
    let builder = auto::Builder::new(streams);
    let mut builder = if is_http2 { builder.http2_only() } else { builder.http1_only() };
    // The meter has the other time-outs.
    builder.http1().header_read_timeout(None).max_buf_size(HEADERS_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(n_streams)
        .max_header_list_size(HEADERS_MAX as u32)
        .max_pending_accept_reset_streams(RESETS_PENDING_MAX)
        .max_local_error_reset_streams(RESETS_OURS_MAX)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}
