//! The kubelet's HTTPS server: logs, exec, attach and port-forward for the API server, and what
//! monitors read.
//!
//! Every request is authenticated and authorized first. It knows pods through [`PodDirectory`]
//! alone.

mod access;
mod asked;
mod command;
mod directory;
pub mod garbage;
mod logs;
mod port_forward;
mod query;
mod route;
mod stats;
mod streaming;
mod websocket;

use std::sync::Arc;

use authn::ClientCertificate;
use client::Client;
use lifecycle::Tasks;
use node_api::{Cgroups, Containers, Sandboxes};
use serving::Share;
use stdx::World;
use telemetry::Registry;
use tokio::net::TcpListener;

pub use directory::{ContainerOnNode, ContainerRun, PodDirectory, PodOnNode};

pub(crate) use ::spdy::{self, chunk};
use access::Access;
use stats::Stats;

/// Of the process's descriptors.
const SHARE: Share = Share(8);

pub struct Parts {
    pub node_name: String,
    pub pods: Arc<dyn PodDirectory>,
    pub containers: Arc<dyn Containers>,
    pub sandboxes: Arc<dyn Sandboxes>,
    pub cgroups: Arc<dyn Cgroups>,
    /// What the machine has, in bytes.
    pub memory: u64,
    /// Asks who clients are and what they may do; may create TokenReviews and SubjectAccessReviews.
    pub client: Client,
    pub world: World,
    /// What `/metrics` shows.
    pub metrics: Registry,
}

/// What requests are answered with.
pub(crate) struct Core {
    pub(crate) pods: Arc<dyn PodDirectory>,
    pub(crate) containers: Arc<dyn Containers>,
    pub(crate) sandboxes: Arc<dyn Sandboxes>,
    pub(crate) stats: Stats,
    pub(crate) world: World,
    pub(crate) metrics: Registry,
    pub(crate) access: Access,
    pub(crate) tasks: Tasks,
}

/// Serves until shutdown. `tls` verifies client certificates, and takes clients without:
/// [`authn::pki::server_config`].
pub fn serve(listener: TcpListener, tls: Arc<rustls::ServerConfig>, parts: Parts, tasks: &Tasks) {
    let Parts { node_name, pods, containers, sandboxes, cgroups, memory, client, world, metrics } =
        parts;
    let access = Access::new(client, &node_name);
    let tasks = tasks.child("server");
    let own = tasks.clone();
    let stats = Stats::new(node_name, memory, cgroups);
    let core = Core { pods, containers, sandboxes, stats, world, metrics, access, tasks: own };
    let core = Arc::new(core);
    serving::serve_https(
        listener,
        tls,
        SHARE,
        &tasks,
        ClientCertificate::of_connection,
        move |certificate, request| {
            let core = core.clone();
            async move { route::answer(&core, certificate.as_deref(), request).await }
        },
    );
}
