//! What a node is started with, and purged by.

use std::net::{IpAddr, Ipv4Addr};

use linux::sysctl::Pattern;
use node_api::ClusterId;

use crate::cluster::{Cluster, Node};
use crate::commands::network::Cidr;

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) cluster: ClusterId,
    pub(crate) node_name: String,
    pub(crate) node_ip: Option<IpAddr>,
    pub(crate) bridge: String,
    /// This node's part of the pod network.
    pub(crate) node_cidr: Cidr,
    pub(crate) pod_cidr: Cidr,
    pub(crate) service_cidr: Cidr,
    pub(crate) cgroup_root: String,
    pub(crate) kubelet_port: u16,
    /// For this start alone: nothing has to be found again by it.
    pub(crate) allowed_unsafe_sysctls: Vec<Pattern>,
}

impl Settings {
    pub(crate) fn new(cluster: &Cluster, node: &Node) -> Self {
        Self {
            cluster: cluster.id,
            node_name: node.name.clone(),
            node_ip: node.ip,
            bridge: node.bridge.clone(),
            node_cidr: cluster.node_cidr(),
            pod_cidr: cluster.pod_cidr,
            service_cidr: cluster.service_cidr,
            cgroup_root: node.cgroup_root.clone(),
            kubelet_port: node.kubelet_port,
            allowed_unsafe_sysctls: Vec::new(),
        }
    }

    /// The tenth address of the Services, as everywhere.
    pub(crate) fn dns_address(&self) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.service_cidr.address) + 10)
    }

    /// The one that was given, else the one the machine sends from, else the bridge's: a machine
    /// without a network.
    pub(crate) fn node_address(&self, gateway: Ipv4Addr) -> IpAddr {
        self.node_ip.or_else(super::machine::address).unwrap_or(IpAddr::V4(gateway))
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
