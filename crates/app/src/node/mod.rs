//! The node on this machine: which part gets which directory, identity and neighbor. What it needs
//! is checked before anything is started; what it leaves behind is removed by [`purge`].

mod cluster_dns;
mod containers_left;
mod machine;
mod purge;
mod requirements;
mod role;
mod settings;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use apimachinery::User;
use containers::Embedded;
use informer::Factory;
use lifecycle::Tasks;
use network::Network;
use node_api::PodNetwork;
use stdx::World;
use telemetry::Registry;
use volumes::LocalVolumes;

use crate::api_server::ApiServer;
use crate::control_plane::KUBERNETES_VERSION;

pub(crate) use containers_left::count as count_containers;
pub(crate) use machine::{address as machine_address, architecture};
pub(crate) use purge::purge;
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

fn network_config(settings: &Settings, data_dir: &Path) -> network::Config {
    let node = settings.node_cidr;
    network::Config {
        cluster: settings.cluster,
        bridge: settings.bridge.clone(),
        pod_network: node.address,
        prefix_length: node.prefix_length,
        cluster_network: settings.pod_cidr.address,
        cluster_prefix_length: settings.pod_cidr.prefix_length,
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

fn containers_config(settings: &Settings, data_dir: &Path) -> Result<containers::Config> {
    Ok(containers::Config {
        cluster: settings.cluster,
        directory: data_dir.join("containers"),
        cgroup_root: settings.cgroup_root.clone(),
        program: std::env::current_exe().context("finding our own program")?,
        log_size_max: LOG_SIZE_MAX,
        log_files_max: LOG_FILES_MAX,
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
    let dns = start_dns(settings, neighbors);
    let kubelet = start_kubelet(settings, neighbors);
    start_service_proxy(settings, neighbors);
    let tasks = neighbors.tasks.child("node-role");
    role::spawn(&neighbors.api.server, &settings.node_name, &tasks, neighbors.world);
    let (dns, kubelet) = tokio::join!(dns, kubelet);
    dns?;
    kubelet
}

fn start_service_proxy(settings: &Settings, neighbors: &Neighbors<'_>) {
    let tasks = neighbors.tasks.child("service-proxy");
    let user = User::new("system:kube-proxy", &[]);
    let client = neighbors.api.server.client(user, "kube-proxy");
    let factory = Factory::new(client, neighbors.world.clone(), &tasks);
    let config = service_proxy::Config {
        cluster: settings.cluster,
        node_name: settings.node_name.clone(),
        cluster_network: settings.pod_cidr.address,
        cluster_prefix_length: settings.pod_cidr.prefix_length,
        service_network: settings.service_cidr.address,
        service_prefix_length: settings.service_cidr.prefix_length,
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
    let listen = SocketAddr::new(neighbors.network.gateway().into(), DNS_PORT);
    let config = dns::Config {
        listen,
        domain: CLUSTER_DOMAIN.to_owned(),
        upstreams: machine::name_servers(),
    };
    let address = dns::start(config, &tasks, neighbors.world, &factory).await;
    let address = address.with_context(|| {
        format!("DNS cannot listen on {listen}: does another name server listen on every address?")
    })?;
    factory.start();
    cluster_dns::publish(&neighbors.api.server, settings.dns_address(), address)
        .await
        .context("publishing the Service kube-system/kube-dns")
}

const DNS_PORT: u16 = 53;

async fn start_kubelet(settings: &Settings, neighbors: &Neighbors<'_>) -> Result<()> {
    let data_dir = neighbors.api.data.path();
    let images = open_images(data_dir)?;
    let pod_network: Arc<dyn PodNetwork> = neighbors.network.clone();
    let tasks = neighbors.tasks.child("kubelet");
    let embedded = Embedded::open(
        containers_config(settings, data_dir)?,
        images.clone(),
        pod_network,
        neighbors.world.clone(),
        &tasks,
    )
    .await
    .context("opening the containers")?;
    let user = User::new(format!("system:node:{}", settings.node_name), &["system:nodes"]);
    let client = neighbors.api.server.client(user, "kubelet");
    let factory = Factory::new(client.clone(), neighbors.world.clone(), &tasks);
    let volumes = volumes::Config { directory: data_dir.join("pods") };
    let volumes = LocalVolumes::open(volumes, neighbors.world).context("opening the volumes")?;
    let address = settings.node_address(neighbors.network.gateway());
    let pki = &neighbors.api.pki;
    let parts = kubelet::Parts {
        sandboxes: Arc::new(embedded.clone()),
        containers: Arc::new(embedded.clone()),
        cgroups: Arc::new(embedded.cgroups()),
        images: Arc::new(images),
        volumes: Arc::new(volumes),
        client,
        factory: factory.clone(),
        serving: pki.kubelet_serving(&settings.node_name, &[address], &tasks)?,
        client_ca: pki.authority.certificate_pem().to_owned(),
        machine: machine::read(data_dir),
        metrics: neighbors.metrics.clone(),
    };
    let config = kubelet_config(settings, data_dir, address);
    if let Some(manifests) = &config.static_pod_directory {
        crate::data_dir::make_private(manifests)
            .with_context(|| format!("making {}", manifests.display()))?;
    }
    kubelet::start(config, parts, neighbors.world, &tasks)
        .await
        .with_context(|| format!("the kubelet cannot listen on {address}: see --kubelet-port"))
}

fn kubelet_config(settings: &Settings, data_dir: &Path, address: IpAddr) -> kubelet::Config {
    kubelet::Config {
        node_name: settings.node_name.clone(),
        node_address: address,
        listen: SocketAddr::new(address, settings.kubelet_port),
        pod_cidr: settings.node_cidr.to_string(),
        cluster_dns: vec![settings.dns_address().into()],
        cluster_domain: CLUSTER_DOMAIN.to_owned(),
        directory: data_dir.to_owned(),
        log_directory: data_dir.join("log/pods"),
        static_pod_directory: Some(data_dir.join("manifests")),
        version: KUBERNETES_VERSION.to_owned(),
        max_pods: MAX_PODS,
        allowed_unsafe_sysctls: settings.allowed_unsafe_sysctls.clone(),
    }
}
