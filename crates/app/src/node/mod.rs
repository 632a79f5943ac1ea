//! The node on this machine: which part gets which directory, identity and neighbor. What it needs
//! is checked before anything is started; what it leaves behind is removed by [`purge`].

mod cluster_dns;
mod containers;
mod containers_left;
mod derived_id;
mod late_network;
mod machine;
mod peers;
mod pod_ranges;
mod policies;
mod purge;
mod requirements;
mod role;
mod settings;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use apimachinery::User;
use authn::pki::Rotating;
use client::Client;
use informer::Factory;
use lifecycle::Tasks;
use network::{Network, PodRange};
use node_api::PodNetwork;
use stdx::World;
use telemetry::Registry;
use volumes::LocalVolumes;

use crate::api_server::ApiServer;
use crate::control_plane::KUBERNETES_VERSION;

pub(crate) use containers::ContainersConfig;
pub(crate) use containers_left::count as count_containers;
pub(crate) use derived_id::derive as derive_id;
pub(crate) use late_network::LateNetwork;
pub(crate) use machine::{addresses as machine_addresses, architecture};
pub(crate) use pod_ranges::{PodRanges, follow as follow_pod_ranges, wait as wait_for_pod_ranges};
pub(crate) use purge::{purge, purge_settings};
pub(crate) use requirements::validate as check_requirements;
pub(crate) use settings::{Settings, node_name};

/// As upstream's kubelet keeps them.
const LOG_SIZE_MAX: u64 = 10 * 1024 * 1024;
const LOG_FILES_MAX: u32 = 5;
const MAX_PODS: u32 = 110;
pub(crate) const CLUSTER_DOMAIN: &str = "cluster.local";

/// The network comes first: the API server and DNS listen on its address.
pub(crate) fn open_network(settings: &Settings, data_dir: &Path) -> Result<Arc<Network>> {
    let network = Network::open(network_config(settings, data_dir));
    Ok(Arc::new(network.context("making the pod network")?))
}

pub(crate) fn network_config(settings: &Settings, data_dir: &Path) -> network::Config {
    let wholes = settings.pod_cidrs.all();
    let ranges = settings.node_cidrs.iter().zip(wholes);
    network::Config {
        cluster: settings.cluster,
        node: settings.node_name.clone(),
        addresses: settings.node_addresses(&[]),
        backend: settings.network.to_owned(),
        has_direct_routes: settings.has_direct_routes,
        bridge: settings.bridge.clone(),
        ranges: ranges.map(|(node, cluster)| PodRange { node: *node, cluster: *cluster }).collect(),
        directory: data_dir.join("network"),
        settings: PathBuf::from("/run"),
        mtu: None,
    }
}

fn image_config(data_dir: &Path) -> Result<images::Config> {
    Ok(images::Config {
        toolbox: Some(std::env::current_exe().context("finding our own program")?),
        toolbox_tools: toolbox::TOOLS.iter().map(|it| (*it).to_owned()).collect(),
        ..images::Config::new(data_dir.join("images"))
    })
}

pub(crate) fn open_images(data_dir: &Path) -> Result<images::Store> {
    images::Store::open(image_config(data_dir)?).context("opening the image store")
}

fn containers_config(settings: &Settings, data_dir: &Path) -> Result<::containers::Config> {
    Ok(::containers::Config {
        cluster: settings.cluster,
        directory: data_dir.join("containers"),
        cgroup_root: settings.cgroup_root.clone(),
        program: std::env::current_exe().context("finding our own program")?,
        log_size_max: LOG_SIZE_MAX,
        log_files_max: LOG_FILES_MAX,
        timeouts: ::containers::Timeouts::default(),
    })
}

/// What [`start`] needs beside the settings.
pub(crate) struct Neighbors<'a> {
    pub(crate) api: &'a ApiServer,
    pub(crate) network: &'a Arc<Network>,
    pub(crate) tasks: &'a Tasks,
    pub(crate) world: &'a World,
    /// What the kubelet's `/metrics` shows.
    pub(crate) metrics: Registry,
}

/// Starts DNS, the service proxy and the kubelet; returns when all have started, before the Node is
/// Ready.
pub(crate) async fn start(settings: &Settings, neighbors: &Neighbors<'_>) -> Result<()> {
    let tasks = neighbors.tasks.child("network");
    neighbors.network.follow(&tasks).context("following the pod network")?;
    follow_peers(settings, neighbors, &tasks);
    policies::start(settings, neighbors)?;
    let dns = start_dns(settings, neighbors);
    let kubelet = start_kubelet(settings, neighbors);
    start_service_proxy(settings, neighbors);
    let tasks = neighbors.tasks.child("node-role");
    role::spawn(&neighbors.api.server, &settings.node_name, &tasks, neighbors.world);
    let (dns, kubelet) = tokio::join!(dns, kubelet);
    dns?;
    kubelet
}

fn follow_peers(settings: &Settings, neighbors: &Neighbors<'_>, tasks: &Tasks) {
    let server = &neighbors.api.server;
    let node = User::new(format!("system:node:{}", settings.node_name), &["system:nodes"]);
    let identities = peers::Identities {
        network: &server.client(User::new("xebec:network", &[]), "xebec-network"),
        node: &server.client(node, "xebec-network"),
    };
    let (network, name) = (neighbors.network, &settings.node_name);
    peers::spawn(network, name, &identities, tasks, neighbors.world);
}

fn start_service_proxy(settings: &Settings, neighbors: &Neighbors<'_>) {
    let tasks = neighbors.tasks.child("service-proxy");
    let user = User::new("system:kube-proxy", &[]);
    let client = neighbors.api.server.client(user, "kube-proxy");
    let factory = Factory::new(client, neighbors.world.clone(), &tasks);
    let config = service_proxy::Config {
        cluster: settings.cluster,
        node_name: settings.node_name.clone(),
        mode: settings.proxy_mode,
        pod_cidrs: settings.pod_cidrs.all().to_vec(),
        service_cidrs: settings.service_cidrs.all().to_vec(),
        node_port_addresses: None,
    };
    service_proxy::start(config, &tasks, neighbors.world, &factory);
    factory.start();
}

async fn start_dns(settings: &Settings, neighbors: &Neighbors<'_>) -> Result<()> {
    let tasks = neighbors.tasks.child("dns");
    let user = User::new(
        "system:serviceaccount:kube-system:coredns",
        &["system:serviceaccounts", "system:serviceaccounts:kube-system"],
    );
    let client = neighbors.api.server.client(user, "coredns");
    let factory = Factory::new(client, neighbors.world.clone(), &tasks);
    let gateways = neighbors.network.gateways();
    let dns_addresses = settings.dns_addresses();
    let [dns_address, ..] = dns_addresses[..] else { anyhow::bail!("Services have no addresses") };
    // The first is where the ClusterIP leads: of the same family.
    let mut listen: Vec<_> = gateways.iter().map(|it| SocketAddr::new(*it, DNS_PORT)).collect();
    listen.sort_by_key(|it| it.is_ipv4() != dns_address.is_ipv4());
    listen.retain(|it| dns_addresses.iter().any(|address| address.is_ipv4() == it.is_ipv4()));
    let config = dns::Config {
        listen: listen.clone(),
        domain: CLUSTER_DOMAIN.to_owned(),
        upstreams: machine::name_servers(),
    };
    let listens = dns::start(config, &tasks, neighbors.world, &factory).await;
    let listens = listens.with_context(|| {
        format!(
            "DNS cannot listen on {listen:?}: does another name server listen on every address?"
        )
    })?;
    factory.start();
    cluster_dns::publish(&neighbors.api.server, dns_address, &listens)
        .await
        .context("publishing the Service kube-system/kube-dns")
}

const DNS_PORT: u16 = 53;

async fn start_kubelet(settings: &Settings, neighbors: &Neighbors<'_>) -> Result<()> {
    let data_dir = neighbors.api.data.path();
    let tasks = neighbors.tasks.child("kubelet");
    let user = User::new(format!("system:node:{}", settings.node_name), &["system:nodes"]);
    let client = neighbors.api.server.client(user, "kubelet");
    let addresses = settings.node_addresses(neighbors.network.gateways());
    let pki = &neighbors.api.pki;
    let serving = pki.kubelet_serving(&settings.node_name, &addresses, &tasks)?;
    let config = kubelet_config(settings, data_dir, addresses)?;
    if let Some(manifests) = &config.static_pod_directory {
        crate::data_dir::make_private(manifests)
            .with_context(|| format!("making {}", manifests.display()))?;
    }
    let wiring = KubeletWiring {
        config,
        containers: ContainersConfig::new(settings, data_dir)?,
        data_dir,
        pod_network: neighbors.network.clone(),
        factory: Factory::new(client.clone(), neighbors.world.clone(), &tasks),
        client,
        serving,
        client_ca: pki.authority.certificate_pem().to_owned(),
        metrics: neighbors.metrics.clone(),
        port_flag: "--kubelet-port",
        world: neighbors.world,
        tasks: &tasks,
    };
    run_kubelet(wiring).await
}

/// A kubelet, whoever starts it.
pub(crate) struct KubeletWiring<'a> {
    pub(crate) config: kubelet::Config,
    pub(crate) containers: ContainersConfig,
    /// Images are below it.
    pub(crate) data_dir: &'a Path,
    pub(crate) pod_network: Arc<dyn PodNetwork>,
    /// As the node.
    pub(crate) client: Client,
    pub(crate) factory: Arc<Factory>,
    pub(crate) serving: Arc<Rotating>,
    /// PEM.
    pub(crate) client_ca: String,
    pub(crate) metrics: Registry,
    /// What chooses another port than the one that is taken.
    pub(crate) port_flag: &'static str,
    pub(crate) world: &'a World,
    pub(crate) tasks: &'a Tasks,
}

pub(crate) async fn run_kubelet(wiring: KubeletWiring<'_>) -> Result<()> {
    let KubeletWiring { config, world, tasks, .. } = wiring;
    let opened = wiring.containers.open(wiring.data_dir, wiring.pod_network, world, tasks).await?;
    let volumes = volumes::Config { directory: config.directory.join("pods") };
    let volumes = LocalVolumes::open(volumes, world).context("opening the volumes")?;
    let parts = kubelet::Parts {
        sandboxes: opened.sandboxes,
        containers: opened.containers,
        cgroups: opened.cgroups,
        images: opened.images,
        volumes: Arc::new(volumes),
        client: wiring.client,
        factory: wiring.factory,
        serving: wiring.serving,
        client_ca: wiring.client_ca,
        machine: machine::read(&config.directory),
        metrics: wiring.metrics,
    };
    let (listen, flag) = (config.listen, wiring.port_flag);
    kubelet::start(config, parts, world, tasks)
        .await
        .with_context(|| format!("the kubelet cannot listen on {listen}: see {flag}"))
}

fn kubelet_config(
    settings: &Settings,
    data_dir: &Path,
    addresses: Vec<IpAddr>,
) -> Result<kubelet::Config> {
    let first = *addresses.first().context("the node has no address: see --node-ip")?;
    Ok(kubelet::Config {
        node_name: settings.node_name.clone(),
        node_addresses: addresses,
        listen: SocketAddr::new(first, settings.kubelet_port),
        pod_cidrs: settings.node_cidrs.clone(),
        cluster_dns: settings.dns_addresses().into_iter().take(1).collect(),
        cluster_domain: CLUSTER_DOMAIN.to_owned(),
        directory: data_dir.to_owned(),
        log_directory: data_dir.join("log/pods"),
        static_pod_directory: Some(data_dir.join("manifests")),
        version: KUBERNETES_VERSION.to_owned(),
        max_pods: MAX_PODS,
        labels: BTreeMap::new(),
        taints: Vec::new(),
        is_registering: true,
        allowed_unsafe_sysctls: settings.allowed_unsafe_sysctls.clone(),
        has_trust_bundles: settings.gates.is_enabled(features::CLUSTER_TRUST_BUNDLE_PROJECTION),
        has_pod_certificates: settings.gates.is_enabled(features::POD_CERTIFICATE_REQUEST),
    })
}
