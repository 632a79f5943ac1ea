//! Runs the pods of one node: the API's and static ones. One folder per part; siblings meet in
//! `node`.
//!
//! Sees the node only through `node-api`, the cluster only through the API. Nothing polls:
//! containers' ends come as events, pods by the informer, probes and renewals by deadlines.

mod admission;
mod allocation;
mod certificates;
mod cgroups;
pub mod container_config;
mod context;
mod disk;
mod folder;
pub mod hooks;
pub mod host_files;
mod huge_pages;
mod metrics;
mod node_status;
mod objects;
pub mod pod_facts;
mod pod_worker;
mod pods;
pub mod probes;
mod runtime_classes;
pub mod server;
mod sources;
mod status;
mod tokens;
pub mod volumes;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use authn::pki::Rotating;
use client::Client;
use informer::{Factory, Lister, Selection};
use k8s_openapi::api::core::v1::{Node, Pod, Service, Taint};
use lifecycle::Tasks;
use node_api::containers::Resources;
use node_api::{Cgroups, Containers, Images, Sandboxes, Volumes};
use reconcile::EventRecorder;
use stdx::World;
use telemetry::Registry as MetricsRegistry;
use tokio::net::TcpListener;

use context::Context;
pub use huge_pages::Pools;
use metrics::{Measured, Metrics, show_running};
use objects::Objects;
use pods::{Directory, Registry};
use probes::Probes;
use runtime_classes::RuntimeClasses;

#[derive(Clone, Debug)]
pub struct Config {
    pub node_name: String,
    /// One of each family at the most, the first one first.
    pub node_addresses: Vec<IpAddr>,
    /// Where the kubelet's server listens (upstream: port 10250).
    pub listen: SocketAddr,
    /// `spec.podCIDRs` of the Node.
    pub pod_cidrs: Vec<stdx::Cidr>,
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
    /// That the Node gets beside those that every node has.
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// That the Node is created with.
    pub taints: Vec<Taint>,
    /// Creates the Node, and gives it its labels; else somebody else does.
    pub is_registering: bool,
    /// Beside those that are safe.
    pub allowed_unsafe_sysctls: Vec<linux::sysctl::Pattern>,
    /// Projected volumes may have ClusterTrustBundles (upstream's gate of that name).
    pub has_trust_bundles: bool,
    /// And certificates of the pod's own (upstream's gate PodCertificateRequest).
    pub has_pod_certificates: bool,
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
    pub serving: Arc<Rotating>,
    /// PEM; who signed the API server's client certificate.
    pub client_ca: String,
    pub machine: Machine,
    /// What `/metrics` shows.
    pub metrics: MetricsRegistry,
}

/// What the machine says of itself; read by `app`.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    pub cpus: u32,
    pub memory: u64,
    pub ephemeral_storage: u64,
    pub huge_pages: Pools,
    pub machine_id: String,
    pub boot_id: String,
    pub kernel_version: String,
    pub os_image: String,
    pub architecture: String,
    pub has_app_armor: bool,
    pub has_se_linux: bool,
}

/// Registers the node and starts everything; returns at once. What already runs is adopted as soon
/// as the API has said which pods belong here.
pub async fn start(
    mut config: Config,
    mut parts: Parts,
    world: &World,
    tasks: &Tasks,
) -> std::io::Result<()> {
    let listener = TcpListener::bind(config.listen).await?;
    config.listen = listener.local_addr()?;
    measure(&mut parts);
    let factory = parts.factory.clone();
    let selected = |field_selector: String| Selection { field_selector, ..Selection::default() };
    let name = &config.node_name;
    let pods = factory.informer_of::<Pod>(selected(format!("spec.nodeName={name}")));
    let nodes = factory.informer_of::<Node>(selected(format!("metadata.name={name}")));
    let services = factory.informer::<Service>();
    let recorder =
        EventRecorder::on_host(tasks, parts.client.clone(), world.clone(), "kubelet", name);
    let probes = Probes::spawn(tasks, parts.containers.clone(), recorder.clone(), world);
    let context = Arc::new(Context {
        objects: Objects::new(factory.clone(), parts.client.clone(), &config),
        runtime_classes: RuntimeClasses::new(&factory),
        probes,
        recorder,
        services: services.indexer(),
        allocatable: node_status::allocatable_of(&parts.machine, &config),
        metrics: Metrics::new(&parts.metrics, &config.node_name),
        world: world.clone(),
        config,
        parts,
    });
    node_status::spawn(tasks, context.clone(), &nodes);
    ensure_cgroups(&context).await?;
    let registry = Registry::default();
    serve(listener, &context, registry.clone(), pods.indexer(), tasks)?;
    pods::spawn(tasks, context, pods::Sources { pods, nodes, services }, registry);
    factory.start();
    Ok(())
}

/// Calls to the node are counted from here on.
fn measure(parts: &mut Parts) {
    let metrics = &parts.metrics;
    let (sandboxes, containers) = (parts.sandboxes.clone(), parts.containers.clone());
    show_running(metrics, Arc::downgrade(&sandboxes), Arc::downgrade(&containers));
    parts.sandboxes = Arc::new(Measured::new(sandboxes, metrics));
    parts.containers = Arc::new(Measured::new(containers, metrics));
    parts.images = Arc::new(Measured::new(parts.images.clone(), metrics));
}

fn serve(
    listener: TcpListener,
    context: &Context,
    registry: Registry,
    pods: Lister<Pod>,
    tasks: &Tasks,
) -> std::io::Result<()> {
    let parts = &context.parts;
    let tls = authn::pki::rotating_server_config(parts.serving.clone(), &parts.client_ca);
    let tls = tls.map_err(|err| std::io::Error::other(stdx::error_chain(&err)))?;
    let (sandboxes, containers) = (parts.sandboxes.clone(), parts.containers.clone());
    let directory =
        Directory { registry, pods, sandboxes: sandboxes.clone(), containers: containers.clone() };
    let parts = server::Parts {
        node_name: context.config.node_name.clone(),
        pods: Arc::new(directory),
        containers,
        sandboxes,
        cgroups: parts.cgroups.clone(),
        memory: parts.machine.memory,
        client: parts.client.clone(),
        world: context.world.clone(),
        metrics: parts.metrics.clone(),
    };
    server::serve(listener, Arc::new(tls), parts, tasks);
    Ok(())
}

/// The parents of all pods' cgroups. The node's own processes are beside them, without a limit on
/// either.
async fn ensure_cgroups(context: &Context) -> std::io::Result<()> {
    let root = Resources {
        cpu_shares: Some(cgroups::shares(context.allocatable.cpu_millis)),
        ..Resources::default()
    };
    let lowest = Resources { cpu_shares: Some(cgroups::shares(0)), ..Resources::default() };
    let all = [
        (cgroups::ROOT.to_owned(), root),
        (format!("{}/burstable", cgroups::ROOT), lowest.clone()),
        (format!("{}/besteffort", cgroups::ROOT), lowest),
    ];
    for (name, resources) in all {
        let made = context.parts.cgroups.ensure(&name, resources).await;
        made.map_err(|err| std::io::Error::other(stdx::error_chain(&err)))?;
    }
    Ok(())
}
