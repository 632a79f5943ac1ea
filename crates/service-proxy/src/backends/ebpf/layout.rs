//! Keys and values of the maps, as programs and this process both see them. Pure.
//!
//! Addresses of IPv4 are written as IPv6 writes them (::ffff:10.96.0.1), so that one map serves both
//! families, and sockets of IPv6 that speak IPv4.
//!
//! ```text
//! frontend   0 address 16   16 port 2   18 protocol 1   19 zero 1
//! endpoint   0 address 16   16 port 2   18 zero 2
//! ```

use std::net::{IpAddr, Ipv6Addr};

use linux::bpf::{MapFormat, MapKind};

use crate::service_port::frontend::Frontend;
use crate::service_port::{Endpoint, Protocol};

pub(super) const FRONTEND: usize = 20;
pub(super) const ENDPOINT: usize = 20;
/// A frontend and a number.
pub(super) const SLOT: usize = FRONTEND + 4;
/// Number of slots 4, zero 4, nanoseconds of affinity 8.
pub(super) const CHOICE: usize = 16;
/// A frontend and an endpoint.
pub(super) const MEMBER: usize = FRONTEND + ENDPOINT;
/// A frontend, zero 4, the network namespace 8.
pub(super) const CLIENT: usize = FRONTEND + 12;
/// An endpoint, zero 4, when it was last used 8.
pub(super) const REMEMBERED: usize = ENDPOINT + 12;
/// A socket 8, an endpoint, zero 4.
pub(super) const FLOW: usize = 12 + ENDPOINT;
pub(super) const ADDRESS: usize = 16;

/// Clients that are remembered, in all: those that were silent longest are forgotten first.
const CLIENTS_MAX: u32 = 16_384;
/// Sockets whose Service is remembered, in the same way.
const FLOWS_MAX: u32 = 32_768;
/// Addresses of this node.
const ADDRESSES_MAX: u32 = 4096;

/// The maps, in the order of the lists of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Table {
    /// Frontend to choice.
    Frontends,
    /// Frontend and slot to endpoint.
    Slots,
    /// Frontends with affinity, and their endpoints.
    Members,
    /// Addresses that node ports are at.
    Addresses,
    /// Which endpoint a client had last. Written by programs.
    Clients,
    /// What a socket asked for where it was given this endpoint. Written by programs.
    Flows,
}

impl Table {
    pub(super) const ALL: [Self; 6] =
        [Self::Frontends, Self::Slots, Self::Members, Self::Addresses, Self::Clients, Self::Flows];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Frontends => "frontends",
            Self::Slots => "slots",
            Self::Members => "members",
            Self::Addresses => "addresses",
            Self::Clients => "clients",
            Self::Flows => "flows",
        }
    }

    /// With room for so many, where the number is ours to choose.
    pub(super) const fn format(self, entries_max: u32) -> MapFormat {
        let hash = MapKind::Hash;
        let (kind, key, value, entries_max) = match self {
            Self::Frontends => (hash, FRONTEND, CHOICE, entries_max),
            Self::Slots => (hash, SLOT, ENDPOINT, entries_max),
            Self::Members => (hash, MEMBER, 4, entries_max),
            Self::Addresses => (hash, ADDRESS, 4, ADDRESSES_MAX),
            Self::Clients => (MapKind::LruHash, CLIENT, REMEMBERED, CLIENTS_MAX),
            Self::Flows => (MapKind::LruHash, FLOW, FRONTEND, FLOWS_MAX),
        };
        MapFormat { kind, key, value, entries_max }
    }
}

pub(super) fn address_bytes(address: IpAddr) -> [u8; ADDRESS] {
    match address {
        IpAddr::V4(it) => it.to_ipv6_mapped().octets(),
        IpAddr::V6(it) => it.octets(),
    }
}

fn read_address(bytes: &[u8]) -> Option<IpAddr> {
    Some(Ipv6Addr::from(*bytes.first_chunk::<ADDRESS>()?).to_canonical())
}

fn read_port(bytes: &[u8]) -> Option<u16> {
    bytes.get(ADDRESS..)?.first_chunk().map(|it| u16::from_be_bytes(*it))
}

pub(super) fn frontend_bytes(frontend: &Frontend) -> [u8; FRONTEND] {
    let mut bytes = [0; FRONTEND];
    bytes[..16].copy_from_slice(&address_bytes(frontend.address));
    bytes[16..18].copy_from_slice(&frontend.port.to_be_bytes());
    bytes[18] = frontend.protocol.number();
    bytes
}

pub(super) fn read_frontend(bytes: &[u8]) -> Option<Frontend> {
    let protocol = match bytes.get(18)? {
        6 => Protocol::Tcp,
        17 => Protocol::Udp,
        _ => return None,
    };
    Some(Frontend { protocol, address: read_address(bytes)?, port: read_port(bytes)? })
}

pub(super) fn endpoint_bytes(endpoint: &Endpoint) -> [u8; ENDPOINT] {
    let mut bytes = [0; ENDPOINT];
    bytes[..16].copy_from_slice(&address_bytes(endpoint.address));
    bytes[16..18].copy_from_slice(&endpoint.port.to_be_bytes());
    bytes
}

pub(super) fn read_endpoint(bytes: &[u8]) -> Option<Endpoint> {
    Some(Endpoint { address: read_address(bytes)?, port: read_port(bytes)? })
}

pub(super) fn slot_bytes(frontend: &Frontend, slot: u32) -> Vec<u8> {
    [&frontend_bytes(frontend)[..], &slot.to_ne_bytes()].concat()
}

/// The slot's frontend and number.
pub(super) fn read_slot(bytes: &[u8]) -> Option<(Frontend, u32)> {
    let number = bytes.get(FRONTEND..)?.first_chunk().map(|it| u32::from_ne_bytes(*it));
    Some((read_frontend(bytes)?, number?))
}

pub(super) fn member_bytes(frontend: &Frontend, endpoint: &Endpoint) -> Vec<u8> {
    [frontend_bytes(frontend), endpoint_bytes(endpoint)].concat()
}

pub(super) fn choice_bytes(n_slots: u32, affinity: Option<std::time::Duration>) -> [u8; CHOICE] {
    let affinity = affinity.map_or(0, |it| u64::try_from(it.as_nanos()).unwrap_or(u64::MAX));
    let mut bytes = [0; CHOICE];
    bytes[..4].copy_from_slice(&n_slots.to_ne_bytes());
    bytes[8..].copy_from_slice(&affinity.to_ne_bytes());
    bytes
}

/// A socket and the endpoint it was given.
pub(super) fn read_flow(bytes: &[u8]) -> Option<(u64, Endpoint)> {
    let socket = bytes.first_chunk().map(|it| u64::from_ne_bytes(*it))?;
    Some((socket, read_endpoint(bytes.get(8..)?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        for address in ["10.96.0.1", "fd00::1", "0.0.0.0", "::"] {
            let address: IpAddr = address.parse().unwrap();
            let frontend = Frontend { protocol: Protocol::Udp, address, port: 53 };
            let endpoint = Endpoint { address, port: 8053 };
            assert_eq!(read_slot(&slot_bytes(&frontend, 7)), Some((frontend, 7)));
            assert_eq!(read_endpoint(&endpoint_bytes(&endpoint)), Some(endpoint));
            let flow = [&9u64.to_ne_bytes()[..], &endpoint_bytes(&endpoint), &[0; 4]].concat();
            assert_eq!((flow.len(), read_flow(&flow)), (FLOW, Some((9, endpoint))));
        }
        assert_eq!(read_slot(&[0; 3]), None);
        assert_eq!(read_frontend(&[0; FRONTEND]), None, "of no protocol");
    }
}
