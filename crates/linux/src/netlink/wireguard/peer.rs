//! Who is behind a WireGuard link: where, and for which addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use stdx::{Cidr, Family};

use super::key::{self, Key};
use crate::netlink::{Attribute, Attributes};

const PUBLIC_KEY: u16 = 1;
const FLAGS: u16 = 3;
const ENDPOINT: u16 = 4;
const ALLOWED: u16 = 9;
const ALLOWED_FAMILY: u16 = 1;
const ALLOWED_ADDRESS: u16 = 2;
const ALLOWED_LENGTH: u16 = 3;

const REMOVE: u32 = 1;
const REPLACE_ALLOWED: u32 = 2;

const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// Where it was told to be, or was heard from last.
    pub endpoint: Option<SocketAddr>,
    /// From which addresses it may send, and which it is sent.
    pub allowed: BTreeSet<Cidr>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change<'a> {
    Remove(&'a Key),
    Put(&'a Key, &'a Peer),
}

/// Those that go come first: a range is one peer's alone.
pub(super) fn changes<'a>(
    actual: &'a BTreeMap<Key, Peer>,
    desired: &'a BTreeMap<Key, Peer>,
) -> Vec<Change<'a>> {
    let gone = actual.keys().filter(|it| !desired.contains_key(it)).map(Change::Remove);
    let differs = |it: &(&Key, &Peer)| actual.get(it.0) != Some(it.1);
    let put = desired.iter().filter(differs).map(|(key, peer)| Change::Put(key, peer));
    gone.chain(put).collect()
}

impl Change<'_> {
    /// As an element of a list, whose number nobody reads.
    pub(super) fn write(&self, peers: &mut Attributes) {
        peers.nest(0, |it| match self {
            Self::Remove(key) => {
                it.bytes(PUBLIC_KEY, &key.0).u32(FLAGS, REMOVE);
            }
            Self::Put(key, peer) => {
                it.bytes(PUBLIC_KEY, &key.0).u32(FLAGS, REPLACE_ALLOWED);
                if let Some(endpoint) = peer.endpoint {
                    it.bytes(ENDPOINT, &socket_address(endpoint));
                }
                it.nest(ALLOWED, |it| {
                    peer.allowed.iter().for_each(|range| write_range(it, *range));
                });
            }
        });
    }
}

fn write_range(ranges: &mut Attributes, range: Cidr) {
    ranges.nest(0, |it| {
        let family = if range.family() == Family::V4 { AF_INET } else { AF_INET6 };
        let address = match range.network() {
            IpAddr::V4(it) => it.octets().to_vec(),
            IpAddr::V6(it) => it.octets().to_vec(),
        };
        it.u16(ALLOWED_FAMILY, family)
            .bytes(ALLOWED_ADDRESS, &address)
            .u8(ALLOWED_LENGTH, range.prefix_length());
    });
}

/// `struct sockaddr_in` or `sockaddr_in6`: family in the machine's order, port in the network's.
fn socket_address(address: SocketAddr) -> Vec<u8> {
    let family = if address.is_ipv4() { AF_INET } else { AF_INET6 };
    let mut bytes = family.to_ne_bytes().to_vec();
    bytes.extend(address.port().to_be_bytes());
    match address {
        SocketAddr::V4(it) => {
            bytes.extend(it.ip().octets());
            bytes.extend([0; 8]);
        }
        SocketAddr::V6(it) => {
            bytes.extend([0; 4]);
            bytes.extend(it.ip().octets());
            bytes.extend(it.scope_id().to_ne_bytes());
        }
    }
    bytes
}

fn read_socket_address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(*bytes.first_chunk()?);
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    let address = match family {
        AF_INET => IpAddr::from(Ipv4Addr::from(*bytes.get(4..)?.first_chunk::<4>()?)),
        AF_INET6 => IpAddr::from(Ipv6Addr::from(*bytes.get(8..)?.first_chunk::<16>()?)),
        _ => return None,
    };
    Some(SocketAddr::new(address, port))
}

pub(super) fn read(attribute: Attribute<'_>) -> Option<(Key, Peer)> {
    let of_peer = attribute.nested();
    let key = of_peer.find_kind(PUBLIC_KEY).and_then(key::read).map(Key)?;
    let endpoint = of_peer.find_kind(ENDPOINT).and_then(|it| read_socket_address(it.payload));
    let ranges = of_peer.find_kind(ALLOWED).into_iter().flat_map(Attribute::nested);
    Some((key, Peer { endpoint, allowed: ranges.filter_map(read_range).collect() }))
}

fn read_range(attribute: Attribute<'_>) -> Option<Cidr> {
    let range = attribute.nested();
    let address = range.find_kind(ALLOWED_ADDRESS)?;
    let address: IpAddr = match address.payload.len() {
        4 => address.array::<4>()?.into(),
        16 => address.array::<16>()?.into(),
        _ => return None,
    };
    Cidr::containing(address, range.find_kind(ALLOWED_LENGTH)?.u8()?)
}
