//! Packets of pods in datagrams from node to node: one bare packet of IPv4 in each, as flannel's back
//! end `udp` has it.

mod carry;
mod packet;
mod table;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use stdx::Cidr;

pub(crate) use carry::Carrier;
pub(crate) use table::Table;

/// Of flannel; nodes send from it, too.
pub const PORT: u16 = 8285;

/// What a worker carries, as its node says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tunnel {
    /// From where datagrams are sent.
    pub local: Option<SocketAddrV4>,
    /// This node's pods: nobody else's are let in.
    pub own: Option<Cidr>,
    /// Ranges of pods, and where their nodes are.
    pub ways: BTreeMap<Cidr, Ipv4Addr>,
}
