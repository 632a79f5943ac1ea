//! What a node is started with, and purged by.

use std::net::IpAddr;
use std::path::PathBuf;

use features::Gates;
use linux::sysctl::Pattern;
use node_api::ClusterId;
use service_proxy::backends::{self, Mode};
use stdx::Cidr;

use crate::cluster::{Cluster, Node, node_addresses};
use crate::commands::network::Cidrs;

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) cluster: ClusterId,
    pub(crate) node_name: String,
    /// Where it is to be found; empty: wherever the machine is.
    pub(crate) node_ips: Vec<IpAddr>,
    pub(crate) bridge: String,
    /// This node's parts of the pod network, in the order of `pod_cidrs`; empty until they are known.
    pub(crate) node_cidrs: Vec<Cidr>,
    pub(crate) pod_cidrs: Cidrs,
    pub(crate) service_cidrs: Cidrs,
    pub(crate) cgroup_root: String,
    pub(crate) kubelet_port: u16,
    /// The socket of another runtime than ours.
    pub(crate) container_runtime: Option<PathBuf>,
    /// For this start alone, as the next: nothing has to be found again by them.
    pub(crate) proxy_mode: &'static Mode,
    /// How pods reach other nodes.
    pub(crate) network: &'static str,
    /// Without a tunnel where no router is between.
    pub(crate) has_direct_routes: bool,
    /// How routes are told and heard, where the way between nodes does.
    pub(crate) bgp: network::Bgp,
    pub(crate) allowed_unsafe_sysctls: Vec<Pattern>,
    pub(crate) gates: Gates,
}

impl Settings {
    pub(crate) fn new(cluster: &Cluster, node: &Node) -> Self {
        Self {
            cluster: cluster.id,
            node_name: node.name.clone(),
            node_ips: cluster.node_ips(),
            bridge: node.bridge.clone(),
            node_cidrs: cluster.node_cidrs(),
            pod_cidrs: cluster.pod_cidrs.clone(),
            service_cidrs: cluster.service_cidrs.clone(),
            cgroup_root: node.cgroup_root.clone(),
            kubelet_port: node.kubelet_port,
            container_runtime: node.container_runtime.clone(),
            proxy_mode: backends::DEFAULT,
            network: network::NONE,
            has_direct_routes: false,
            bgp: network::Bgp::default(),
            allowed_unsafe_sysctls: Vec::new(),
            gates: Gates::default(),
        }
    }

    /// The tenth address of the Services, as everywhere; of each family.
    pub(crate) fn dns_addresses(&self) -> Vec<IpAddr> {
        self.service_cidrs.nth(10)
    }

    /// Never empty.
    pub(crate) fn node_addresses(&self, gateways: &[IpAddr]) -> Vec<IpAddr> {
        node_addresses(&self.node_ips, &super::machine::addresses(), gateways)
    }
}

/// The host's name as a DNS label, as kubelets use it.
pub(crate) fn node_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase();
    let is_plain = |it: char| it.is_ascii_alphanumeric() || it == '-' || it == '.';
    let name: String = name.chars().map(|it| if is_plain(it) { it } else { '-' }).collect();
    let name = name.trim_matches(['-', '.']);
    if name.is_empty() { "node".to_owned() } else { name.to_owned() }
}
