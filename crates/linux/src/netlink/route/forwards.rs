//! Forwarding entries: behind which machine a hardware address of a VXLAN link is.

use std::net::IpAddr;

use rustix::io::Errno;

use super::neighbors::{FIXED, NDA_DST, NDA_LLADDR, PERMANENT, RTM_DELNEIGH, RTM_GETNEIGH};
use super::neighbors::{RTM_NEWNEIGH, fixed};
use super::{HardwareAddress, Link, RouteSocket, address, octets, unless};
use crate::netlink::message::flags;
use crate::netlink::{Attribute, Error, Message, Reply};

const AF_BRIDGE: u8 = 7;
const NDA_VNI: u16 = 7;
/// `NTF_SELF`: of the link itself, not of the bridge of which it is a port.
const OF_THE_LINK: u8 = 0x02;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    pub hardware_address: HardwareAddress,
    pub remote: IpAddr,
    /// `None`: the link's own.
    pub vni: Option<u32>,
}

impl RouteSocket {
    /// Adds it for good, in place of another of the same hardware address.
    pub fn put_forward(&mut self, link: &Link, forward: &Forward) -> Result<(), Error> {
        let Forward { hardware_address, remote, vni } = *forward;
        let doing = format!("send what is for {hardware_address} on {} to {remote}", link.name);
        let kind = flags::CREATE | flags::REPLACE;
        let message = Message::new(doing, RTM_NEWNEIGH, kind, &of(link, PERMANENT)).with(|it| {
            it.bytes(NDA_LLADDR, &hardware_address.0).bytes(NDA_DST, &octets(remote));
            if let Some(vni) = vni {
                it.u32(NDA_VNI, vni);
            }
        });
        self.socket.request(&message)
    }

    /// Whichever machine it leads to.
    pub fn delete_forward(
        &mut self,
        link: &Link,
        hardware_address: HardwareAddress,
    ) -> Result<(), Error> {
        let doing = format!("forget where {hardware_address} on {} is", link.name);
        let message = Message::new(doing, RTM_DELNEIGH, 0, &of(link, 0)).with(|it| {
            it.bytes(NDA_LLADDR, &hardware_address.0);
        });
        unless(self.socket.request(&message), &[Errno::NOENT, Errno::NODEV])
    }

    /// Those that lead to other machines, each with the index of its link.
    pub fn forwards(&mut self) -> Result<Vec<(u32, Forward)>, Error> {
        let all = fixed(AF_BRIDGE, 0, 0);
        let message = Message::new("list forwarding entries", RTM_GETNEIGH, 0, &all);
        Ok(self.socket.dump(&message)?.iter().filter_map(read).collect())
    }
}

fn of(link: &Link, state: u16) -> [u8; FIXED] {
    let mut fixed = fixed(AF_BRIDGE, link.index, state);
    fixed[10] = OF_THE_LINK;
    fixed
}

pub(in crate::netlink) fn read(reply: &Reply) -> Option<(u32, Forward)> {
    if reply.payload.first() != Some(&AF_BRIDGE) {
        return None;
    }
    let attributes = reply.attributes(FIXED);
    let hardware_address = attributes.find_kind(NDA_LLADDR)?.array::<6>().map(HardwareAddress)?;
    let remote = attributes.find_kind(NDA_DST).and_then(address)?;
    let vni = attributes.find_kind(NDA_VNI).and_then(Attribute::u32);
    Some((reply.u32_at(4)?, Forward { hardware_address, remote, vni }))
}
