//! Connections and flows to ports of Services: a local port for each, where the kernel's rules send
//! what is for the Service, and endpoints behind it.

mod balancer;
mod limits;
mod open;
mod tcp;
mod udp;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub(crate) use limits::Shared;
pub(crate) use open::Portals;

/// Behind one port.
pub const ENDPOINTS_MAX: usize = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protocol {
    Tcp,
    Udp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Portal {
    /// By which its node knows it.
    pub id: String,
    /// Where it listens, at a port of its own choice.
    pub address: IpAddr,
    pub protocol: Protocol,
    /// At most [`ENDPOINTS_MAX`].
    pub endpoints: Vec<SocketAddr>,
    /// Flows to these go on, though no new ones come; as many at most.
    pub serving: Vec<SocketAddr>,
    /// So long a client that is silent stays with its endpoint.
    pub affinity: Option<Duration>,
}
