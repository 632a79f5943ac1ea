//! Serves any `kvstore::Store` to etcd's clients: KV, Watch, Lease, Maintenance, Cluster, and what
//! clients probe of Auth.
//!
//! Promises: etcd's semantics, error texts and codes; nothing a peer sends can panic it or take
//! unbounded memory; a slow reader holds up nobody else. Not promised: etcd's file formats (a
//! snapshot is the store's own), users and roles, changes of membership.

mod cluster;
mod connection;
mod error;
mod exchange;
mod kv;
mod lease;
mod link;
mod listen;
mod maintenance;
mod patience;
mod peer;
mod probe;
mod routes;
mod watch;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use kvstore::{Revision, Store};
use lifecycle::Tasks;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::wire::messages::ResponseHeader;
use crate::wire::tls;

pub use listen::Error;

/// What we say we are. Clients turn features on by it: from 3.5.13 on, progress of a watch can be
/// trusted.
pub const VERSION: &str = "3.5.21";
pub const VERSION_CLUSTER: &str = "3.5.0";

/// Plain values, so that a command line can fill them in.
#[derive(Clone)]
pub struct Config {
    /// `https://HOST:PORT`, or `http://HOST:PORT` where HOST is a loopback address.
    pub listen: Vec<String>,
    /// Needed for `https`.
    pub identity: Option<tls::Identity>,
    /// Only clients with a certificate of this CA are served.
    pub client_ca_pem: Option<Vec<u8>>,
    /// The member's name in `member list`.
    pub name: String,
    /// The ids of cluster and member are made from this: the same for the same store, whenever it
    /// is served.
    pub id_seed: Vec<u8>,
    pub limits: Limits,
    /// Makes the store's snapshots, for `etcdctl snapshot save`.
    pub snapshots: Option<Arc<dyn Snapshots>>,
}

/// A whole, consistent copy of the store.
pub trait Snapshots: Send + Sync {
    fn snapshot(&self) -> BoxFuture<'_, std::io::Result<std::fs::File>>;
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub connections: usize,
    /// Calls that one connection may have open, watch streams included.
    pub streams: u32,
    pub watches_per_stream: usize,
    pub request_bytes: usize,
    /// How often a watch that asked for it is told how far it is when it has no events.
    pub progress_interval: Duration,
    /// A connection that has been silent this long is asked whether it is still there.
    pub ping_interval: Duration,
    pub timeout_ping: Duration,
    /// How long calls may take to end when the server stops.
    pub timeout_drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            streams: 10_000,
            watches_per_stream: 100_000,
            // etcd's default.
            request_bytes: 3 << 19,
            progress_interval: Duration::from_secs(600),
            ping_interval: Duration::from_secs(120),
            timeout_ping: Duration::from_secs(20),
            timeout_drain: Duration::from_secs(5),
        }
    }
}

impl Config {
    pub fn new(listen: Vec<String>, id_seed: impl Into<Vec<u8>>) -> Self {
        Self {
            listen,
            identity: None,
            client_ca_pem: None,
            name: "default".to_owned(),
            id_seed: id_seed.into(),
            limits: Limits::default(),
            snapshots: None,
        }
    }
}

/// A front that listens.
pub struct Serving {
    /// One for each of `Config::listen`, with the port that was chosen for port 0.
    pub addresses: Vec<SocketAddr>,
}

/// Listens, and serves until `tasks` are told to stop. Returns as soon as clients can connect.
pub async fn serve(store: Arc<dyn Store>, config: Config, tasks: &Tasks) -> Result<Serving, Error> {
    let listeners = listen::bind(&config).await?;
    let addresses: Vec<_> = listeners.iter().map(listen::Listener::address).collect();
    let client_urls = listeners.iter().map(listen::Listener::url).collect();
    let front = Arc::new(Front::new(store, &config, client_urls));
    for listener in listeners {
        let (front, connections) = (front.clone(), tasks.clone());
        tasks.spawn("etcd-listener", |shutdown| async move {
            listener.run(front, connections, shutdown).await;
        });
    }
    Ok(Serving { addresses })
}

/// Serves one connection that is open already, until it ends: for tests that need no socket.
pub async fn serve_connection<S>(store: Arc<dyn Store>, config: &Config, io: S, tasks: &Tasks)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let front = Arc::new(Front::new(store, config, Vec::new()));
    connection::run(io, front, tasks.clone(), tasks.shutdown_signal()).await;
}

/// What every call needs.
pub(crate) struct Front {
    store: Arc<dyn Store>,
    limits: Limits,
    name: String,
    client_urls: Vec<String>,
    cluster_id: u64,
    member_id: u64,
    snapshots: Option<Arc<dyn Snapshots>>,
}

/// There are no elections, so there is one term.
const RAFT_TERM: u64 = 2;

impl Front {
    fn new(store: Arc<dyn Store>, config: &Config, client_urls: Vec<String>) -> Self {
        Self {
            store,
            limits: config.limits,
            name: config.name.clone(),
            client_urls,
            cluster_id: id_of(b"cluster", &config.id_seed),
            member_id: id_of(b"member", &config.id_seed),
            snapshots: config.snapshots.clone(),
        }
    }

    fn header(&self, revision: Revision) -> Option<ResponseHeader> {
        Some(self.response_header(revision))
    }

    fn response_header(&self, revision: Revision) -> ResponseHeader {
        ResponseHeader {
            cluster_id: self.cluster_id,
            member_id: self.member_id,
            revision: number(revision),
            raft_term: RAFT_TERM,
        }
    }
}

fn id_of(what: &[u8], seed: &[u8]) -> u64 {
    let digest: [u8; 32] = Sha256::new().chain_update(what).chain_update(seed).finalize().into();
    let [a, b, c, d, e, f, g, h, ..] = digest;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// A revision as etcd counts it.
fn number(revision: Revision) -> i64 {
    i64::try_from(revision.0).unwrap_or(i64::MAX)
}
