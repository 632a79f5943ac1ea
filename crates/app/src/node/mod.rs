//! The node on this machine: which part gets which directory, identity and neighbor, whoever starts
//! it and however it reaches the API ([`Wiring`]). What it needs is checked before anything is
//! started; what it leaves behind is removed by [`purge`].

mod cluster_dns;
mod containers;
mod containers_left;
mod derived_id;
mod dns;
mod identities;
mod kubelet_parts;
mod late_network;
mod machine;
mod peers;
mod pod_ranges;
mod policies;
mod purge;
mod requirements;
mod role;
mod settings;
mod wiring;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use network::{Network, PodRange};

use crate::control_plane::KUBERNETES_VERSION;

pub(crate) use cluster_dns::spawn as publish_dns;
pub(crate) use containers::ContainersConfig;
pub(crate) use containers_left::count as count_containers;
pub(crate) use derived_id::derive as derive_id;
pub(crate) use identities::{Clients, DNS, NETWORK, PROXY, user_of};
pub(crate) use kubelet_parts::{KubeletWiring, run as run_kubelet};
pub(crate) use late_network::LateNetwork;
pub(crate) use machine::{
    addresses as machine_addresses, architecture, id as machine_id, name_servers,
};
pub(crate) use pod_ranges::{PodRanges, follow as follow_pod_ranges, wait as wait_for_pod_ranges};
pub(crate) use purge::{purge, purge_settings};
pub(crate) use requirements::validate as check_requirements;
pub(crate) use role::spawn as give_role;
pub(crate) use settings::{Settings, node_name};
pub(crate) use wiring::{Wiring, start};

/// As upstream's kubelet keeps them.
const LOG_SIZE_MAX: u64 = 10 * 1024 * 1024;
const LOG_FILES_MAX: u32 = 5;
const MAX_PODS: u32 = 110;
/// Annotation: of which ranges the pods of a node have addresses already, for whoever gives it some.
const WISHED_CIDRS: &str = "xebec.local/pod-cidrs";
pub(crate) const CLUSTER_DOMAIN: &str = "cluster.local";

/// In `up` the network comes first: the API server and DNS listen on its address.
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
        addresses: settings.node_ips.clone(),
        name_servers: machine::name_servers().iter().map(SocketAddr::ip).collect(),
        backend: settings.network.to_owned(),
        has_direct_routes: settings.has_direct_routes,
        bgp: settings.bgp.clone(),
        worker: Some(worker_in(data_dir)),
        bridge: settings.bridge.clone(),
        ranges: ranges.map(|(node, cluster)| PodRange { node: *node, cluster: *cluster }).collect(),
        directory: data_dir.join("network"),
        settings: PathBuf::from("/run"),
        mtu: None,
    }
}

/// Our own, also when its file was replaced meanwhile.
pub(crate) const PROGRAM: &str = "/proc/self/exe";

/// Of the pod network and of the service proxy alike.
pub(crate) fn worker_in(directory: &Path) -> packets::Place {
    packets::Place::new(directory.join("worker"), PathBuf::from(PROGRAM))
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
        // Whoever gives nodes their ranges says it.
        pod_cidrs: Vec::new(),
        cluster_dns: settings.dns_addresses().into_iter().take(1).collect(),
        cluster_domain: CLUSTER_DOMAIN.to_owned(),
        directory: data_dir.to_owned(),
        log_directory: data_dir.join("log/pods"),
        static_pod_directory: Some(data_dir.join("manifests")),
        version: KUBERNETES_VERSION.to_owned(),
        max_pods: MAX_PODS,
        labels: BTreeMap::from([(cluster_dns::LABEL.to_owned(), "true".to_owned())]),
        annotations: annotations(settings),
        taints: Vec::new(),
        is_registering: true,
        allowed_unsafe_sysctls: settings.allowed_unsafe_sysctls.clone(),
        has_trust_bundles: settings.gates.is_enabled(features::CLUSTER_TRUST_BUNDLE_PROJECTION),
        has_pod_certificates: settings.gates.is_enabled(features::POD_CERTIFICATE_REQUEST),
    })
}

/// A node that has given out addresses says of which ranges.
fn annotations(settings: &Settings) -> BTreeMap<String, String> {
    let ranges: Vec<String> = settings.node_cidrs.iter().map(ToString::to_string).collect();
    let wish = (WISHED_CIDRS.to_owned(), ranges.join(","));
    Some(wish).filter(|it| !it.1.is_empty()).into_iter().collect()
}
