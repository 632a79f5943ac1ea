//! Runs the pods of one node: the API's and static ones. One folder per part; siblings meet in `node`.
//!
//! Sees the node only through `node-api`, the cluster only through the API. Nothing polls: containers' ends come as
//! events, pods by the informer, probes and renewals by deadlines.

pub mod server;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use authn::pki::Identity;
use client::Client;
use informer::Factory;
use lifecycle::Tasks;
use node_api::{Cgroups, Containers, Images, Sandboxes, Volumes};
use stdx::World;

#[derive(Clone, Debug)]
pub struct Config {
    pub node_name: String,
    pub node_address: IpAddr,
    /// Where the kubelet's server listens (upstream: port 10250).
    pub listen: SocketAddr,
    /// `spec.podCIDR` of the Node.
    pub pod_cidr: String,
    pub cluster_dns: Vec<IpAddr>,
    pub cluster_domain: String,
    /// `pods/<uid>` with hosts files and termination logs is below it.
    pub directory: PathBuf,
    /// `<namespace>_<name>_<uid>/<container>/<n>.log` is below it.
    pub log_directory: PathBuf,
    pub static_pod_directory: Option<PathBuf>,
    /// As the Node shows it.
    pub version: String,
    pub max_pods: u32,
}

/// What the node is made of.
#[derive(Clone)]
pub struct Parts {
    pub sandboxes: Arc<dyn Sandboxes>,
    pub containers: Arc<dyn Containers>,
    pub images: Arc<dyn Images>,
    pub volumes: Arc<dyn Volumes>,
    pub cgroups: Arc<dyn Cgroups>,
    /// As `system:node:<name>`, group `system:nodes`.
    pub client: Client,
    /// Follows what this node may see; its client is the same.
    pub factory: Arc<Factory>,
    pub serving: Identity,
    /// PEM; who signed the API server's client certificate.
    pub client_ca: String,
    pub machine: Machine,
}

/// What the machine says of itself; read by `app`.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    pub cpus: u32,
    pub memory: u64,
    pub ephemeral_storage: u64,
    pub machine_id: String,
    pub boot_id: String,
    pub kernel_version: String,
    pub os_image: String,
    pub architecture: String,
}

/// Adopts what already runs, registers the node, and starts everything; returns at once.
pub async fn start(
    _config: Config,
    _parts: Parts,
    _world: &World,
    _tasks: &Tasks,
) -> std::io::Result<()> {
    todo!()
}
