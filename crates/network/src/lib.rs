//! The pod network of one node: a veth pair per pod, addresses that survive restarts, masquerading,
//! host ports.
//!
//! What should be is computed purely; one diff and one apply talk netlink. No external program. How
//! packets flow, and why, is in this crate's README.md.

mod follow;
mod forwarding;
mod host_ports;
mod inherited;
mod kernel;
mod kernel_state;
mod mending;
mod network;
mod patience;
mod range;
mod records;
mod table;

use std::net::Ipv4Addr;
use std::path::PathBuf;

use node_api::ClusterId;

pub use network::Network;

#[derive(Clone, Debug)]
pub struct Config {
    /// Whose network it is: links are in its group, tables have its name, and nothing else is
    /// touched.
    pub cluster: ClusterId,
    /// The link that has the gateway's address.
    pub bridge: String,
    /// This node's part of the pod network; its first address is the bridge's.
    pub pod_network: Ipv4Addr,
    pub prefix_length: u8,
    /// All pods of the cluster: traffic to it is not masqueraded.
    pub cluster_network: Ipv4Addr,
    pub cluster_prefix_length: u8,
    /// Addresses in use are written here.
    pub directory: PathBuf,
    /// Where clusters of this network namespace tell each other what kernel settings were. What is
    /// there should live as long as they do: `/run`.
    pub settings: PathBuf,
    /// `None`: that of the way to the world.
    pub mtu: Option<u32>,
}
