//! Addresses of links.

use std::net::IpAddr;

use rustix::io::Errno;

use super::{AF_UNSPEC, Link, RouteSocket, address, family, octets, unless};
use crate::netlink::message::flags;
use crate::netlink::{Error, Message, Reply};

pub(in crate::netlink) const RTM_NEWADDR: u16 = 20;
pub(in crate::netlink) const RTM_DELADDR: u16 = 21;
const RTM_GETADDR: u16 = 22;

/// Length of `struct ifaddrmsg`.
const FIXED: usize = 8;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// `IFA_F_NODAD`: nobody is asked whether he has it, so it is usable at once.
const UNASKED: u8 = 0x02;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// Index of the link.
    pub link: u32,
    pub address: IpAddr,
    pub prefix_length: u8,
    /// As the kernel numbers it: 0 is global, 253 link, 254 host.
    pub scope: u8,
}

impl RouteSocket {
    /// Of all links.
    pub fn addresses(&mut self) -> Result<Vec<Address>, Error> {
        let message = Message::new("list addresses", RTM_GETADDR, 0, &[AF_UNSPEC; FIXED]);
        Ok(self.socket.dump(&message)?.iter().filter_map(read).collect())
    }

    /// Usable at once: whoever gives it knows that nobody else has it.
    pub fn add_address(
        &mut self,
        link: &Link,
        address: IpAddr,
        prefix_length: u8,
    ) -> Result<(), Error> {
        let doing = format!("add address {address}/{prefix_length} to {}", link.name);
        let kind = flags::CREATE | flags::EXCL;
        let message = message(doing, RTM_NEWADDR, kind, (link.index, address, prefix_length));
        unless(self.socket.request(&message), &[Errno::EXIST])
    }

    pub fn delete_address(
        &mut self,
        link: &Link,
        address: IpAddr,
        prefix_length: u8,
    ) -> Result<(), Error> {
        let doing = format!("delete address {address}/{prefix_length} of {}", link.name);
        let message = message(doing, RTM_DELADDR, 0, (link.index, address, prefix_length));
        unless(self.socket.request(&message), &[Errno::ADDRNOTAVAIL])
    }
}

fn message(doing: String, kind: u16, flags: u16, subject: (u32, IpAddr, u8)) -> Message {
    let (link, address, prefix_length) = subject;
    let [a, b, c, d] = link.to_ne_bytes();
    let flags_of_address = if address.is_ipv6() { UNASKED } else { 0 };
    let fixed = [family(address), prefix_length, flags_of_address, 0, a, b, c, d];
    Message::new(doing, kind, flags, &fixed).with(|it| {
        it.bytes(IFA_LOCAL, &octets(address)).bytes(IFA_ADDRESS, &octets(address));
    })
}

/// `struct ifaddrmsg`: family, prefix length, flags, scope, index.
pub(in crate::netlink) fn read(reply: &Reply) -> Option<Address> {
    let attributes = reply.attributes(FIXED);
    // On links to one peer the address is the peer's and the local one ours.
    let attribute =
        attributes.find_kind(IFA_LOCAL).or_else(|| attributes.find_kind(IFA_ADDRESS))?;
    Some(Address {
        link: reply.u32_at(4)?,
        address: address(attribute)?,
        prefix_length: *reply.payload.get(1)?,
        scope: *reply.payload.get(3)?,
    })
}
