//! Which hardware address a network address has.

use std::net::IpAddr;

use super::{HardwareAddress, Link, RouteSocket, family, octets};
use crate::netlink::message::flags;
use crate::netlink::{Error, Message};

const RTM_NEWNEIGH: u16 = 28;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// `NUD_PERMANENT`: neither asked for nor forgotten.
const PERMANENT: u16 = 0x80;

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
        // `struct ndmsg`: family, 3 bytes of padding, index, state (16 bits), flags, type.
        let mut fixed = [0; 12];
        fixed[0] = family(address);
        fixed[4..8].copy_from_slice(&link.index.to_ne_bytes());
        fixed[8..10].copy_from_slice(&PERMANENT.to_ne_bytes());
        let kind = flags::CREATE | flags::REPLACE;
        let message = Message::new(doing, RTM_NEWNEIGH, kind, &fixed).with(|it| {
            it.bytes(NDA_DST, &octets(address)).bytes(NDA_LLADDR, &hardware_address.0);
        });
        self.socket.request(&message)
    }
}
