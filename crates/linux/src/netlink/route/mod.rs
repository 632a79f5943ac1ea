//! Links, addresses, routes, neighbors and forwarding entries (rtnetlink).
//!
//! Every change is idempotent: making what is there and removing what is gone succeed, so that a
//! caller can always go on from a half-made state. But a link that is there already is not made: it
//! may be somebody else's.

pub(super) mod addresses;
pub(super) mod forwards;
pub(super) mod links;
pub(super) mod neighbors;
pub(super) mod routes;
mod tunnels;

use std::net::IpAddr;
use std::path::Path;

use rustix::io::Errno;

pub use addresses::Address;
pub use forwards::Forward;
pub use links::{HardwareAddress, Ipv4Setting, Link, LinkChange, Namespace, Peer, VethPair};
pub use neighbors::Neighbor;
pub use routes::{DefaultInterface, Destination, Route, Scope};
pub use tunnels::{NewTunnel, TunnelKind, Vxlan};

use super::{Error, Family, Socket};

/// A socket that speaks of links, addresses, routes and neighbors of one network namespace.
#[derive(Debug)]
pub struct RouteSocket {
    socket: Socket,
}

impl RouteSocket {
    /// In the network namespace of the calling thread.
    pub fn open() -> Result<Self, Error> {
        Ok(Self { socket: Socket::open(Family::Route)? })
    }

    /// In the network namespace that this file names, such as `/proc/4711/ns/net`.
    pub fn open_in(namespace: &Path) -> Result<Self, Error> {
        Ok(Self { socket: Socket::open_in(Family::Route, namespace)? })
    }
}

const AF_UNSPEC: u8 = 0;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => AF_INET,
        IpAddr::V6(_) => AF_INET6,
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(it) => it.octets().to_vec(),
        IpAddr::V6(it) => it.octets().to_vec(),
    }
}

fn address(attribute: super::Attribute<'_>) -> Option<IpAddr> {
    match attribute.payload.len() {
        4 => attribute.array::<4>().map(IpAddr::from),
        16 => attribute.array::<16>().map(IpAddr::from),
        _ => None,
    }
}

/// Success if it was refused only because it is so already.
fn unless(result: Result<(), Error>, errnos: &[Errno]) -> Result<(), Error> {
    match result {
        Err(err) if errnos.iter().any(|it| err.is(*it)) => Ok(()),
        other => other,
    }
}

/// Whatever kind of message it is.
pub(super) fn read_any(reply: &crate::netlink::Reply) {
    let _ = (links::read(reply), addresses::read(reply));
    let _ = (routes::read(reply), neighbors::read(reply), forwards::read(reply));
}
