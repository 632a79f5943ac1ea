//! The pod network of one node: a bridge, a veth pair per pod, addresses that survive restarts, masquerading, host ports.
//!
//! What should be is computed purely; one diff and one apply talk netlink. No external program.

use std::net::Ipv4Addr;
use std::path::PathBuf;

#[derive(Clone, Debug)]
pub struct Config {
    pub bridge: String,
    /// This node's part of the pod network; its first address is the bridge's.
    pub pod_network: Ipv4Addr,
    pub prefix_length: u8,
    /// All pods of the cluster: traffic to it is not masqueraded.
    pub cluster_network: Ipv4Addr,
    pub cluster_prefix_length: u8,
    /// Addresses in use are written here.
    pub directory: PathBuf,
    pub mtu: Option<u32>,
}

/// Implements [`node_api::PodNetwork`].
pub struct Network;

impl Network {
    /// Makes the bridge and the rules, or corrects them.
    pub fn open(_config: Config) -> Result<Self, node_api::Error> {
        todo!()
    }

    /// The bridge's address: pods' gateway, and where the node listens for them.
    pub fn gateway(&self) -> Ipv4Addr {
        todo!()
    }

    /// Removes the bridge, the rules and the files.
    pub fn purge(&self) -> Vec<node_api::Error> {
        todo!()
    }
}
