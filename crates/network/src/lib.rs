//! The pod network of one node: a veth pair per pod, addresses that survive restarts, masquerading,
//! host ports.
//!
//! What should be is computed purely, by a back end; one diff and one apply talk netlink. No
//! external program. How packets flow, and why, is in this crate's README.md.

mod addresses;
mod backends;
mod follow;
mod forwarding;
mod gate;
mod hardware;
mod host_ports;
mod inherited;
mod kernel;
mod kernel_state;
mod mending;
mod network;
mod node;
mod node_itself;
mod patience;
pub mod policy;
mod records;
mod table;

use std::path::PathBuf;

use node_api::ClusterId;

pub use backends::{HOST_GATEWAY, SINGLE_NODE, names as backend_names};
pub use gate::Gate;
pub use network::Network;
pub use node::{Peer, PodRange};

#[derive(Clone, Debug)]
pub struct Config {
    /// Whose network it is: links are in its group, tables have its name, and nothing else is
    /// touched.
    pub cluster: ClusterId,
    /// How pods reach other nodes: one of [`backend_names`].
    pub backend: String,
    /// The link that has the gateways' addresses.
    pub bridge: String,
    /// One of each family at the most; pods have an address of each, in this order.
    pub ranges: Vec<PodRange>,
    /// Addresses in use are written here.
    pub directory: PathBuf,
    /// Where clusters of this network namespace tell each other what kernel settings were. What is
    /// there should live as long as they do: `/run`.
    pub settings: PathBuf,
    /// `None`: that of the way to the world.
    pub mtu: Option<u32>,
}
