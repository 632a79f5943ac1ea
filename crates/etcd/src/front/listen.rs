//! Sockets: where to listen, TLS, and which protocol a new connection speaks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lifecycle::{Shutdown, Tasks};
use serving::{Guest, Limits, Room, Share, Timeouts};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::{Config, Front, connection, probe};
use crate::wire::tls;

/// For TLS, and for HTTP/2's first frames.
pub(super) const TIMEOUT_HELLO: Duration = Duration::from_secs(10);
/// Of the process's descriptors.
const SHARE: Share = Share(4);
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
    room: Arc<Room>,
}

pub(super) async fn bind(config: &Config) -> Result<Vec<Listener>, Error> {
    let limits = Limits::of(SHARE, Timeouts::HTTPS);
    let connections = limits.connections.min(config.limits.connections);
    // Its clients are few and known: one API server may need them all.
    let room = Room::new(Limits { connections, per_client: connections, ..limits });
    let mut listeners = Vec::new();
    for url in &config.listen {
        listeners.push(bind_one(url, config, room.clone()).await?);
    }
    Ok(listeners)
}

async fn bind_one(url: &str, config: &Config, room: Arc<Room>) -> Result<Listener, Error> {
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
    Ok(Listener { listener, address, tls, room })
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
        serving::accept(&self.listener, &self.room, &tasks, &shutdown, |guest, _| {
            let (tls, front) = (self.tls.clone(), front.clone());
            // A tree of its own: its signal is polled at each step, and should not be shared with
            // other connections.
            let tasks = tasks.child("etcd");
            async move {
                let shutdown = tasks.shutdown_signal();
                // Boxed, so that the task has room for the one that runs only.
                match tls {
                    Some(tls) => Box::pin(run_tls(tls, guest, front, tasks, shutdown)).await,
                    None => Box::pin(run_plain(guest, front, tasks, shutdown)).await,
                }
            }
        })
        .await;
    }
}

/// Who has greeted works from then on, as far as the room is concerned: watches are silent for
/// long.
async fn run_tls(
    tls: TlsAcceptor,
    guest: Guest,
    front: Arc<Front>,
    tasks: Tasks,
    shutdown: Shutdown,
) {
    let Guest { stream: tcp, meter, .. } = guest;
    let accepted = tokio::time::timeout(TIMEOUT_HELLO, tls.accept(tcp)).await;
    let Ok(Ok(stream)) = accepted else {
        return;
    };
    let _works = meter.begin();
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        connection::run(stream, front, tasks, shutdown).await;
    } else {
        let probed = tokio::time::timeout(TIMEOUT_HELLO, probe::run_http1(stream, &front));
        // Whoever probes and goes away has nothing to be told.
        let _ = probed.await;
    }
}

async fn run_plain(guest: Guest, front: Arc<Front>, tasks: Tasks, shutdown: Shutdown) {
    let Guest { stream: tcp, meter, .. } = guest;
    let mut first = [0; PREFACE.len()];
    let peeked = tokio::time::timeout(TIMEOUT_HELLO, tcp.peek(&mut first)).await;
    let Ok(Ok(n_peeked)) = peeked else {
        return;
    };
    let _works = meter.begin();
    if n_peeked > 0 && PREFACE.starts_with(&first[..n_peeked]) {
        connection::run(tcp, front, tasks, shutdown).await;
    } else {
        let _ = tokio::time::timeout(TIMEOUT_HELLO, probe::run_http1(tcp, &front)).await;
    }
}
