//! HTTPS in front of the pipeline: connections, request parsing, negotiation and responses. Knows nothing of what a
//! verb does.

mod connect;
pub(crate) mod documents;
pub(crate) mod flow;
mod health;
mod negotiate;
mod path;
pub(crate) mod plain;
pub(crate) mod query;
mod respond;
mod route;
mod status;
mod table;
mod watch;
pub(crate) mod yaml;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use lifecycle::{Shutdown, Tasks};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::server::{Core, Server};

pub(crate) use route::unsupported;

pub(crate) type Body = UnsyncBoxBody<Bytes, std::convert::Infallible>;

/// A client that does not finish its handshake in this time is dropped.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// What requests in flight get when the server stops.
const DRAIN_MAX: Duration = Duration::from_secs(3);

pub(crate) fn serve(server: &Arc<Server>, listener: TcpListener, tls: Arc<rustls::ServerConfig>) {
    let mut tls = (*tls).clone();
    if tls.alpn_protocols.is_empty() {
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    }
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let (core, tasks) = (server.core.clone(), server.tasks.clone());
    server.tasks.spawn("https", |shutdown| async move {
        loop {
            let accepted = tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(err) => {
                    // Out of file descriptors, mostly: others may close theirs meanwhile.
                    tracing::warn!(error = %err, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let (core, acceptor) = (core.clone(), acceptor.clone());
            let streams = Streams(tasks.clone());
            tasks.spawn("connection", |shutdown| {
                connection(core, acceptor, (stream, streams), shutdown)
            });
        }
    });
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

async fn connection(
    core: Arc<Core>,
    acceptor: TlsAcceptor,
    (stream, streams): (TcpStream, Streams),
    shutdown: Shutdown,
) {
    let _ = stream.set_nodelay(true);
    let accepted = tokio::select! {
        biased;
        () = shutdown.cancelled() => return,
        accepted = tokio::time::timeout(HANDSHAKE_MAX, acceptor.accept(stream)) => accepted,
    };
    let Ok(Ok(stream)) = accepted else { return };
    let certificate: Option<Arc<[u8]>> = stream
        .get_ref()
        .1
        .peer_certificates()
        .and_then(|it| it.first())
        .map(|it| Arc::from(it.as_ref()));
    let service = service_fn(move |request| {
        let (core, certificate) = (core.clone(), certificate.clone());
        async move {
            Ok::<_, std::convert::Infallible>(route::answer(&core, certificate, request).await)
        }
    });
    let builder = auto::Builder::new(streams);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        biased;
        () = shutdown.cancelled() => None,
        ended = connection.as_mut() => Some(ended),
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            // Requests in flight finish; watches end with the cache.
            connection.as_mut().graceful_shutdown();
            match tokio::time::timeout(DRAIN_MAX, connection).await {
                Ok(ended) => ended,
                Err(_) => return,
            }
        }
    };
    if let Err(err) = ended {
        tracing::debug!(error = %err, "a connection ended");
    }
}
