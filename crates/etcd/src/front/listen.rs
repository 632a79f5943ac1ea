//! Sockets: where to listen, TLS, and which protocol a new connection speaks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lifecycle::{Shutdown, Tasks};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;

use super::{Config, Front, connection, probe};
use crate::wire::tls;

/// For TLS, and for HTTP/2's first frames.
pub(super) const TIMEOUT_HELLO: Duration = Duration::from_secs(10);
/// After a failed accept (no file descriptors, most likely), so that it is not tried in a tight loop.
const DELAY_ACCEPT: Duration = Duration::from_millis(100);
/// What an HTTP/2 client says first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "{url:?} is not an address to listen on: it must be https://HOST:PORT or http://HOST:PORT"
    )]
    ParseUrl { url: String },
    #[error("finding the address of {url}")]
    Resolve {
        url: String,
        #[source]
        source: std::io::Error,
    },
    #[error(
        "{url}: plain http is served on loopback addresses only, and {address} is none; use https"
    )]
    PlainBeyondLoopback { url: String, address: SocketAddr },
    #[error("{url} needs a certificate and a private key")]
    NoIdentity { url: String },
    #[error("preparing TLS")]
    Tls(#[from] tls::Error),
    #[error("listening on {url}")]
    Listen {
        url: String,
        #[source]
        source: std::io::Error,
    },
}

pub(super) struct Listener {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    connections: Arc<Semaphore>,
}

pub(super) async fn bind(config: &Config) -> Result<Vec<Listener>, Error> {
    let connections = Arc::new(Semaphore::new(config.limits.connections));
    let mut listeners = Vec::new();
    for url in &config.listen {
        listeners.push(bind_one(url, config, connections.clone()).await?);
    }
    Ok(listeners)
}

async fn bind_one(
    url: &str,
    config: &Config,
    connections: Arc<Semaphore>,
) -> Result<Listener, Error> {
    let unparsable = || Error::ParseUrl { url: url.to_owned() };
    let (scheme, host) = url.split_once("://").ok_or_else(unparsable)?;
    let host = host.trim_end_matches('/');
    let tls = match scheme {
        "http" => None,
        "https" => {
            let identity = config.identity.as_ref();
            let identity = identity.ok_or_else(|| Error::NoIdentity { url: url.to_owned() })?;
            let tls = tls::server_config(identity, config.client_ca_pem.as_deref())?;
            Some(TlsAcceptor::from(tls))
        }
        _ => return Err(unparsable()),
    };
    let addresses: Vec<SocketAddr> = tokio::net::lookup_host(host)
        .await
        .map_err(|source| Error::Resolve { url: url.to_owned(), source })?
        .collect();
    let beyond = addresses.iter().find(|it| !it.ip().is_loopback());
    if let (None, Some(address)) = (&tls, beyond) {
        return Err(Error::PlainBeyondLoopback { url: url.to_owned(), address: *address });
    }
    let failed = |source| Error::Listen { url: url.to_owned(), source };
    let listener = TcpListener::bind(&addresses[..]).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok(Listener { listener, address, tls, connections })
}

impl Listener {
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    pub(super) async fn run(self, front: Arc<Front>, tasks: Tasks, shutdown: Shutdown) {
        loop {
            let accepted = tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                accepted = self.accept() => accepted,
            };
            match accepted {
                Ok((tcp, permit)) => self.spawn(tcp, permit, front.clone(), &tasks),
                Err(err) => {
                    tracing::warn!(error = %err, "accepting a connection");
                    tokio::time::sleep(DELAY_ACCEPT).await;
                }
            }
        }
    }

    /// Connections beyond the limit wait in the kernel's queue.
    async fn accept(&self) -> std::io::Result<(TcpStream, OwnedSemaphorePermit)> {
        let permit = self.connections.clone().acquire_owned().await;
        let permit = permit.map_err(std::io::Error::other)?;
        let (tcp, _) = self.listener.accept().await?;
        Ok((tcp, permit))
    }

    fn spawn(
        &self,
        tcp: TcpStream,
        permit: OwnedSemaphorePermit,
        front: Arc<Front>,
        tasks: &Tasks,
    ) {
        let tls = self.tls.clone();
        // A tree of its own: its signal is polled at each step, and should not be shared with other connections.
        let tasks = tasks.child("etcd");
        let calls = tasks.clone();
        tasks.spawn("connection", |shutdown| async move {
            let _permit = permit;
            let _ = tcp.set_nodelay(true);
            // Boxed, so that the task has room for the one that runs only.
            match tls {
                Some(tls) => Box::pin(run_tls(tls, tcp, front, calls, shutdown)).await,
                None => Box::pin(run_plain(tcp, front, calls, shutdown)).await,
            }
        });
    }
}

async fn run_tls(
    tls: TlsAcceptor,
    tcp: TcpStream,
    front: Arc<Front>,
    tasks: Tasks,
    shutdown: Shutdown,
) {
    let accepted = tokio::time::timeout(TIMEOUT_HELLO, tls.accept(tcp)).await;
    let Ok(Ok(stream)) = accepted else {
        return;
    };
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        connection::run(stream, front, tasks, shutdown).await;
    } else {
        let probed = tokio::time::timeout(TIMEOUT_HELLO, probe::run_http1(stream, &front));
        // Whoever probes and goes away has nothing to be told.
        let _ = probed.await;
    }
}

async fn run_plain(tcp: TcpStream, front: Arc<Front>, tasks: Tasks, shutdown: Shutdown) {
    let mut first = [0; PREFACE.len()];
    let peeked = tokio::time::timeout(TIMEOUT_HELLO, tcp.peek(&mut first)).await;
    let Ok(Ok(n_peeked)) = peeked else {
        return;
    };
    if n_peeked > 0 && PREFACE.starts_with(&first[..n_peeked]) {
        connection::run(tcp, front, tasks, shutdown).await;
    } else {
        let _ = tokio::time::timeout(TIMEOUT_HELLO, probe::run_http1(tcp, &front)).await;
    }
}
