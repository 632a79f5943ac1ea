//! The kubelet's HTTPS server: logs, exec, attach and port-forward for the API server, and what monitors read.
//!
//! Every request is authenticated and authorized first. It knows pods through [`PodDirectory`] alone.

mod access;
mod chunk;
mod command;
mod directory;
mod logs;
mod port_forward;
mod query;
mod route;
mod spdy;
mod streaming;
mod websocket;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use client::Client;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use lifecycle::{Shutdown, Tasks};
use node_api::{Containers, Sandboxes};
use stdx::World;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

pub use directory::{ContainerOnNode, ContainerRun, PodDirectory, PodOnNode};

use access::Access;

/// A client that does not finish its handshake in this time is dropped.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// What requests in flight get when the server stops.
const DRAIN_MAX: Duration = Duration::from_secs(3);

pub struct Parts {
    pub node_name: String,
    pub pods: Arc<dyn PodDirectory>,
    pub containers: Arc<dyn Containers>,
    pub sandboxes: Arc<dyn Sandboxes>,
    /// Asks who clients are and what they may do; may create TokenReviews and SubjectAccessReviews.
    pub client: Client,
    pub world: World,
}

/// What requests are answered with.
pub(crate) struct Core {
    pub(crate) pods: Arc<dyn PodDirectory>,
    pub(crate) containers: Arc<dyn Containers>,
    pub(crate) sandboxes: Arc<dyn Sandboxes>,
    pub(crate) world: World,
    pub(crate) access: Access,
    pub(crate) tasks: Tasks,
}

/// Serves until shutdown. `tls` verifies client certificates, and takes clients without: [`authn::pki::server_config`].
pub fn serve(listener: TcpListener, tls: Arc<rustls::ServerConfig>, parts: Parts, tasks: &Tasks) {
    let Parts { node_name, pods, containers, sandboxes, client, world } = parts;
    let access = Access::new(client, &node_name);
    let tasks = tasks.child("server");
    let core = Arc::new(Core { pods, containers, sandboxes, world, access, tasks: tasks.clone() });
    let acceptor = TlsAcceptor::from(tls);
    tasks.spawn("https", |shutdown| async move {
        loop {
            let accepted = tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    let (core, acceptor) = (core.clone(), acceptor.clone());
                    let tasks = core.tasks.clone();
                    tasks.spawn("connection", |shutdown| {
                        connection(core, acceptor, stream, shutdown)
                    });
                }
                Err(err) => {
                    // Out of file descriptors, mostly: others may close theirs meanwhile.
                    tracing::warn!(error = %err, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
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

async fn connection(core: Arc<Core>, acceptor: TlsAcceptor, stream: TcpStream, shutdown: Shutdown) {
    let _ = stream.set_nodelay(true);
    let accepted = tokio::select! {
        biased;
        () = shutdown.cancelled() => return,
        accepted = tokio::time::timeout(HANDSHAKE_MAX, acceptor.accept(stream)) => accepted,
    };
    let Ok(Ok(stream)) = accepted else { return };
    let certificates = stream.get_ref().1.peer_certificates();
    let certificate: Option<Arc<[u8]>> =
        certificates.and_then(|it| it.first()).map(|it| Arc::from(it.as_ref()));
    let streams = Streams(core.tasks.clone());
    let service = service_fn(move |request| {
        let (core, certificate) = (core.clone(), certificate.clone());
        async move { Ok::<_, Infallible>(route::answer(&core, certificate.as_deref(), request).await) }
    });
    let builder = auto::Builder::new(streams);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        biased;
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::time::timeout(DRAIN_MAX, connection).await.unwrap_or(Ok(()))
        }
        ended = connection.as_mut() => ended,
    };
    if let Err(err) = ended {
        tracing::debug!(error = %err, "a connection ended");
    }
}
