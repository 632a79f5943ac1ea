//! The pod network of one node: a veth pair per pod, addresses that survive restarts, masquerading,
//! host ports.
//!
//! What should be is computed purely, by a back end; one diff and one apply talk netlink. No
//! external program. How packets flow, and why, is in this crate's README.md.

mod addresses;
mod attaching;
mod firewalls;
mod follow;
mod gate;
mod hardware;
mod host_ports;
mod inherited;
mod kernel;
mod kernel_state;
mod keys;
pub mod leftovers;
mod links;
mod mending;
mod network;
mod node;
mod node_itself;
mod overlaps;
mod paths;
mod patience;
mod place;
pub mod policy;
mod probes;
mod purge;
mod records;
mod repairs;
mod speaker;
mod table;

use std::net::IpAddr;
use std::path::PathBuf;

use node_api::ClusterId;

pub use gate::Gate;
pub use network::Network;
pub use node::{Peer, PodRange};
pub use paths::{
    ANNOTATIONS, HOST_GW, IPIP, LeftOut, NONE, ROUTED, UDP, VXLAN, WIREGUARD, concerns,
    named as path_named, names as path_names, validate_direct_routes,
};
pub use probes::{Tried, Unreached};
pub use speaker::{AS_DEFAULT, Bgp};

#[derive(Clone, Debug)]
pub struct Config {
    /// Whose network it is: links are in its group, tables have its name, and nothing else is
    /// touched.
    pub cluster: ClusterId,
    /// The Node's name.
    pub node: String,
    /// Where other nodes find this one. Those of pods are passed over: a machine without any other
    /// has none. Empty: where packets for the world leave from, as long as that is so.
    pub addresses: Vec<IpAddr>,
    /// Whom this machine asks for names: no pod may have the address.
    pub name_servers: Vec<IpAddr>,
    /// How pods reach other nodes: one of [`path_names`].
    pub backend: String,
    /// Nodes on a network of this node are reached without a tunnel, where the back end has one.
    /// The same for all nodes of a cluster.
    pub has_direct_routes: bool,
    /// How routes are told and heard, where the back end does.
    pub bgp: Bgp,
    /// What carries packets, where the back end needs somebody who does.
    pub worker: Option<packets::Place>,
    /// The link that has the gateways' addresses.
    pub bridge: String,
    /// One of each family at the most; pods have an address of each, in this order.
    pub ranges: Vec<PodRange>,
    /// Addresses in use are written here.
    pub directory: PathBuf,
    /// Where clusters of this network namespace tell each other what kernel settings were. What is
    /// there should live as long as they do: `/run`.
    pub settings: PathBuf,
    /// Of pods' links. `None`: that of the way to other nodes, less what the back end adds; it is
    /// followed.
    pub mtu: Option<u32>,
}
