//! Connection tracking: reading the kernel's entries of one protocol, and deleting those that must
//! not go on.
//!
//! Deleting an entry lets the next packet of the flow be judged by the rules as if it were the
//! first.

use std::net::IpAddr;

use rustix::io::Errno;

use super::attributes::Reader;
use super::{Attribute, Attributes, Error, Family, Message, Reply, Socket};

/// Numbers of `linux/netfilter/nfnetlink_conntrack.h`.
mod numbers {
    pub(super) const SUBSYSTEM: u16 = 1;
    pub(super) const GET: u16 = 1;
    pub(super) const DELETE: u16 = 2;

    pub(super) const TUPLE_ORIGINAL: u16 = 1;
    pub(super) const TUPLE_REPLY: u16 = 2;
    pub(super) const ID: u16 = 12;
    pub(super) const ZONE: u16 = 18;
    pub(super) const FILTER: u16 = 25;

    pub(super) const TUPLE_IP: u16 = 1;
    pub(super) const TUPLE_PROTOCOL: u16 = 2;
    pub(super) const IPV4_SOURCE: u16 = 1;
    pub(super) const IPV4_DESTINATION: u16 = 2;
    pub(super) const IPV6_SOURCE: u16 = 3;
    pub(super) const IPV6_DESTINATION: u16 = 4;
    pub(super) const PROTOCOL_NUMBER: u16 = 1;
    pub(super) const PROTOCOL_SOURCE: u16 = 2;
    pub(super) const PROTOCOL_DESTINATION: u16 = 3;

    pub(super) const FILTER_ORIGINAL: u16 = 1;
    pub(super) const FILTER_BY_PROTOCOL: u32 = 1 << 3;
}

/// Length of `struct nfgenmsg`.
const FIXED: usize = 4;

/// One direction of a flow, as its packets look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuple {
    pub source: IpAddr,
    pub source_port: u16,
    pub destination: IpAddr,
    pub destination_port: u16,
}

/// A flow. With destination NAT, the source of the reply is where the packets really go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub protocol: u8,
    pub original: Tuple,
    pub reply: Tuple,
    /// What the kernel knows this very entry by, so that one that took its place is left alone.
    id: Option<u32>,
    zone: Option<u16>,
}

impl Entry {
    /// One that the kernel did not tell of.
    pub fn new(protocol: u8, original: Tuple, reply: Tuple) -> Self {
        Self { protocol, original, reply, id: None, zone: None }
    }
}

/// The entries of the network namespace in which this was opened.
#[derive(Debug)]
pub struct Conntrack {
    socket: Socket,
}

impl Conntrack {
    pub fn open() -> Result<Self, Error> {
        Ok(Self { socket: Socket::open(Family::Netfilter)? })
    }

    /// All entries of one family and one protocol that has ports.
    pub fn list(&mut self, family: stdx::Family, protocol: u8) -> Result<Vec<Entry>, Error> {
        let message = message("list conntrack entries", numbers::GET, family).with(|it| {
            it.nest(numbers::TUPLE_ORIGINAL, |it| {
                it.nest(numbers::TUPLE_PROTOCOL, |it| {
                    it.u8(numbers::PROTOCOL_NUMBER, protocol);
                });
            });
            it.nest(numbers::FILTER, |it| {
                it.u32(numbers::FILTER_ORIGINAL, numbers::FILTER_BY_PROTOCOL);
            });
        });
        let replies = self.socket.dump(&message)?;
        let entries = replies.iter().filter_map(read_entry);
        Ok(entries.filter(|it| it.protocol == protocol).collect())
    }

    /// Whether the entry was still there.
    pub fn delete(&mut self, entry: &Entry) -> Result<bool, Error> {
        let family = stdx::Family::of(entry.original.destination);
        let message = message("delete a conntrack entry", numbers::DELETE, family).with(|it| {
            it.nest(numbers::TUPLE_ORIGINAL, |it| write_tuple(entry, it));
            if let Some(zone) = entry.zone {
                it.u16_be(numbers::ZONE, zone);
            }
            if let Some(id) = entry.id {
                it.u32(numbers::ID, id);
            }
        });
        match self.socket.request(&message) {
            Ok(()) => Ok(true),
            Err(err) if err.is(Errno::NOENT) => Ok(false),
            Err(err) => Err(err),
        }
    }

    /// Deletes the entries of a family and protocol that are to go; says how many went.
    pub fn delete_where(
        &mut self,
        family: stdx::Family,
        protocol: u8,
        mut is_to_go: impl FnMut(&Entry) -> bool,
    ) -> Result<usize, Error> {
        let mut n_deleted = 0;
        for entry in self.list(family, protocol)? {
            if is_to_go(&entry) && self.delete(&entry)? {
                n_deleted += 1;
            }
        }
        Ok(n_deleted)
    }
}

fn message(doing: &'static str, kind: u16, family: stdx::Family) -> Message {
    let family = match family {
        stdx::Family::V4 => 2,
        stdx::Family::V6 => 10,
    };
    Message::new(doing, numbers::SUBSYSTEM << 8 | kind, 0, &[family, 0, 0, 0])
}

fn write_tuple(entry: &Entry, to: &mut Attributes) {
    let Tuple { source, source_port, destination, destination_port } = entry.original;
    to.nest(numbers::TUPLE_IP, |it| {
        write_address((numbers::IPV4_SOURCE, numbers::IPV6_SOURCE), source, it);
        write_address((numbers::IPV4_DESTINATION, numbers::IPV6_DESTINATION), destination, it);
    });
    to.nest(numbers::TUPLE_PROTOCOL, |it| {
        it.u8(numbers::PROTOCOL_NUMBER, entry.protocol);
        it.u16_be(numbers::PROTOCOL_SOURCE, source_port);
        it.u16_be(numbers::PROTOCOL_DESTINATION, destination_port);
    });
}

/// By the first number for IPv4, by the second for IPv6.
fn write_address((ipv4, ipv6): (u16, u16), address: IpAddr, to: &mut Attributes) {
    match address {
        IpAddr::V4(it) => to.bytes(ipv4, &it.octets()),
        IpAddr::V6(it) => to.bytes(ipv6, &it.octets()),
    };
}

/// Whatever kind of message it is.
pub(super) fn read_any(reply: &Reply) {
    let _ = read_entry(reply);
}

fn read_entry(reply: &Reply) -> Option<Entry> {
    let attributes = reply.attributes(FIXED);
    let tuple = |kind| attributes.find_kind(kind).and_then(|it| read_tuple(&it.nested()));
    let (protocol, original) = tuple(numbers::TUPLE_ORIGINAL)?;
    let (_, reply) = tuple(numbers::TUPLE_REPLY)?;
    let id = attributes.find_kind(numbers::ID).and_then(Attribute::u32);
    let zone = attributes.find_kind(numbers::ZONE).and_then(Attribute::u16_be);
    Some(Entry { protocol, original, reply, id, zone })
}

fn read_tuple(attributes: &Reader<'_>) -> Option<(u8, Tuple)> {
    let addresses = attributes.find_kind(numbers::TUPLE_IP)?.nested();
    let address = |ipv4, ipv6| {
        let ipv4 = addresses.find_kind(ipv4).and_then(|it| it.array::<4>()).map(IpAddr::from);
        let ipv6 = || addresses.find_kind(ipv6)?.array::<16>().map(IpAddr::from);
        ipv4.or_else(ipv6)
    };
    let ports = attributes.find_kind(numbers::TUPLE_PROTOCOL)?.nested();
    let port = |kind| ports.find_kind(kind).and_then(Attribute::u16_be);
    let tuple = Tuple {
        source: address(numbers::IPV4_SOURCE, numbers::IPV6_SOURCE)?,
        source_port: port(numbers::PROTOCOL_SOURCE)?,
        destination: address(numbers::IPV4_DESTINATION, numbers::IPV6_DESTINATION)?,
        destination_port: port(numbers::PROTOCOL_DESTINATION)?,
    };
    Some((ports.find_kind(numbers::PROTOCOL_NUMBER)?.u8()?, tuple))
}
