//! Which hardware address a network address has.

use std::net::IpAddr;

use rustix::io::Errno;

use super::{AF_UNSPEC, HardwareAddress, Link, RouteSocket, address, family, octets, unless};
use crate::netlink::message::flags;
use crate::netlink::{Error, Message, Reply};

pub(in crate::netlink) const RTM_NEWNEIGH: u16 = 28;
pub(in crate::netlink) const RTM_DELNEIGH: u16 = 29;
pub(super) const RTM_GETNEIGH: u16 = 30;
/// Length of `struct ndmsg`.
pub(super) const FIXED: usize = 12;
pub(super) const NDA_DST: u16 = 1;
pub(super) const NDA_LLADDR: u16 = 2;
/// `NUD_PERMANENT`: neither asked for nor forgotten.
pub(super) const PERMANENT: u16 = 0x80;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbor {
    pub address: IpAddr,
    pub hardware_address: HardwareAddress,
}

impl RouteSocket {
    /// Makes the link know its neighbor for good, so that it need not ask.
    pub fn put_neighbor(&mut self, link: &Link, neighbor: Neighbor) -> Result<(), Error> {
        let Neighbor { address, hardware_address } = neighbor;
        let doing = format!("add neighbor {address} at {hardware_address} on {}", link.name);
        let kind = flags::CREATE | flags::REPLACE;
        let fixed = fixed(family(address), link.index, PERMANENT);
        let message = Message::new(doing, RTM_NEWNEIGH, kind, &fixed).with(|it| {
            it.bytes(NDA_DST, &octets(address)).bytes(NDA_LLADDR, &hardware_address.0);
        });
        self.socket.request(&message)
    }

    pub fn delete_neighbor(&mut self, link: &Link, address: IpAddr) -> Result<(), Error> {
        let doing = format!("delete neighbor {address} on {}", link.name);
        let fixed = fixed(family(address), link.index, 0);
        let message = Message::new(doing, RTM_DELNEIGH, 0, &fixed).with(|it| {
            it.bytes(NDA_DST, &octets(address));
        });
        unless(self.socket.request(&message), &[Errno::NOENT, Errno::NODEV])
    }

    /// Those that links know for good, each with the index of its link.
    pub fn permanent_neighbors(&mut self) -> Result<Vec<(u32, Neighbor)>, Error> {
        let message = Message::new("list neighbors", RTM_GETNEIGH, 0, &fixed(AF_UNSPEC, 0, 0));
        Ok(self.socket.dump(&message)?.iter().filter_map(read).collect())
    }
}

/// `struct ndmsg`: family, 3 bytes of padding, index, state (16 bits), flags, type.
pub(super) fn fixed(family: u8, link: u32, state: u16) -> [u8; FIXED] {
    let mut fixed = [0; FIXED];
    fixed[0] = family;
    fixed[4..8].copy_from_slice(&link.to_ne_bytes());
    fixed[8..10].copy_from_slice(&state.to_ne_bytes());
    fixed
}

/// The link of a notice, whatever it says of whom.
pub(in crate::netlink) fn read_link(reply: &Reply) -> Option<u32> {
    reply.u32_at(4)
}

pub(in crate::netlink) fn read(reply: &Reply) -> Option<(u32, Neighbor)> {
    let state = reply.payload.get(8..10)?.try_into().map(u16::from_ne_bytes).ok()?;
    let attributes = reply.attributes(FIXED);
    let hardware_address = attributes.find_kind(NDA_LLADDR)?.array::<6>().map(HardwareAddress)?;
    let address = attributes.find_kind(NDA_DST).and_then(address)?;
    let is_permanent = state & PERMANENT != 0;
    Some((reply.u32_at(4)?, Neighbor { address, hardware_address })).filter(|_| is_permanent)
}
