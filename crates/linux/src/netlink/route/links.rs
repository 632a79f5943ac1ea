//! Network interfaces: bridges and veth pairs.

use std::fmt;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use super::tunnels::{self, TunnelKind};
use super::{AF_INET, AF_INET6, AF_UNSPEC, RouteSocket, unless};
use crate::netlink::message::flags;
use crate::netlink::{Attributes, Error, Message, Reply};

pub(in crate::netlink) const RTM_NEWLINK: u16 = 16;
pub(in crate::netlink) const RTM_DELLINK: u16 = 17;
const RTM_GETLINK: u16 = 18;
const RTM_SETLINK: u16 = 19;

/// Length of `struct ifinfomsg`.
pub(super) const FIXED: usize = 16;
pub(super) const IFF_UP: u32 = 0x1;
const IFF_LOWER_UP: u32 = 0x1_0000;

pub(super) const IFLA_ADDRESS: u16 = 1;
pub(super) const IFLA_IFNAME: u16 = 3;
pub(super) const IFLA_MTU: u16 = 4;
const IFLA_MASTER: u16 = 10;
pub(super) const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_PID: u16 = 19;
const IFLA_AF_SPEC: u16 = 26;
pub(super) const IFLA_GROUP: u16 = 27;
const IFLA_NET_NS_FD: u16 = 28;
pub(super) const IFLA_INFO_KIND: u16 = 1;
pub(super) const IFLA_INFO_DATA: u16 = 2;
const IFLA_INET_CONF: u16 = 1;
const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
/// `IN6_ADDR_GEN_MODE_NONE`.
const NO_ADDRESSES: u8 = 1;
const VETH_INFO_PEER: u16 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HardwareAddress(pub [u8; 6]);

impl fmt::Display for HardwareAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// A link as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub index: u32,
    pub name: String,
    /// `bridge`, `veth`, ...; `None` for real devices and the loopback.
    pub kind: Option<String>,
    /// More of kinds that have more to tell.
    pub tunnel: Option<TunnelKind>,
    /// The bridge of which it is a port.
    pub master: Option<u32>,
    pub mtu: u32,
    pub address: Option<HardwareAddress>,
    /// A number that whoever made the link chose; 0 if nobody did. Rules can match it.
    pub group: u32,
    pub is_up: bool,
    pub has_carrier: bool,
}

/// What to change; what is `None` stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkChange {
    pub is_up: Option<bool>,
    pub mtu: Option<u32>,
    pub address: Option<HardwareAddress>,
    pub group: Option<u32>,
    /// `Some(0)`: of no bridge.
    pub master: Option<u32>,
}

/// Where the other end of a pair is made.
#[derive(Clone, Copy, Debug)]
pub enum Namespace<'a> {
    Same,
    /// That of this process.
    Process(u32),
    /// That of this open file.
    File(BorrowedFd<'a>),
}

/// Two links, each of which receives what the other sends. Once made, the near one is up, the peer
/// not yet.
#[derive(Clone, Copy, Debug)]
pub struct VethPair<'a> {
    pub name: &'a str,
    pub address: HardwareAddress,
    pub group: u32,
    pub mtu: u32,
    pub peer: Peer<'a>,
}

#[derive(Clone, Copy, Debug)]
pub struct Peer<'a> {
    pub name: &'a str,
    pub address: HardwareAddress,
    pub namespace: Namespace<'a>,
}

/// Settings of one link that are also files below `/proc/sys/net/ipv4/conf/<link>/`
/// (`IPV4_DEVCONF_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ipv4Setting {
    Forwarding = 1,
    ProxyArp = 3,
    AcceptRedirects = 4,
    SendRedirects = 6,
    /// 1: packets whose source is not routed back over the link are dropped.
    ReversePathFilter = 8,
    AcceptSourceRoute = 9,
    /// 1: neighbors that announce themselves are remembered.
    ArpAccept = 21,
    /// 1: 127.0.0.0/8 may go over the link.
    RouteLocalnet = 26,
}

impl RouteSocket {
    pub fn links(&mut self) -> Result<Vec<Link>, Error> {
        let message = Message::new("list links", RTM_GETLINK, 0, &fixed(0, 0, 0));
        Ok(self.socket.dump(&message)?.iter().filter_map(read).collect())
    }

    pub fn link(&mut self, name: &str) -> Result<Option<Link>, Error> {
        let doing = format!("get link {name}");
        let message = Message::new(doing, RTM_GETLINK, 0, &fixed(0, 0, 0)).with(|it| {
            it.string(IFLA_IFNAME, name);
        });
        match self.socket.ask(&message) {
            Ok(reply) => Ok(reply.as_ref().and_then(read)),
            Err(err) if err.is(Errno::NODEV) => Ok(None),
            Err(err) => Err(err),
        }
    }

    /// Makes a bridge that is up. Refused (`EEXIST`) if a link of the name is there.
    pub fn create_bridge(&mut self, name: &str, group: u32, mtu: u32) -> Result<(), Error> {
        let doing = format!("add bridge {name}");
        let kind = flags::CREATE | flags::EXCL;
        let up = fixed(0, IFF_UP, IFF_UP);
        let message = Message::new(doing, RTM_NEWLINK, kind, &up).with(|it| {
            it.string(IFLA_IFNAME, name).u32(IFLA_GROUP, group).u32(IFLA_MTU, mtu).nest(
                IFLA_LINKINFO,
                |it| {
                    it.string(IFLA_INFO_KIND, "bridge");
                },
            );
        });
        self.socket.request(&message)
    }

    /// Refused (`EEXIST`) if a link of either name is there.
    pub fn create_veth(&mut self, pair: &VethPair<'_>) -> Result<(), Error> {
        let doing = format!("add veth pair {}", pair.name);
        let kind = flags::CREATE | flags::EXCL;
        let up = fixed(0, IFF_UP, IFF_UP);
        let message = Message::new(doing, RTM_NEWLINK, kind, &up).with(|it| {
            it.string(IFLA_IFNAME, pair.name)
                .bytes(IFLA_ADDRESS, &pair.address.0)
                .u32(IFLA_GROUP, pair.group)
                .u32(IFLA_MTU, pair.mtu)
                .nest(IFLA_LINKINFO, |it| {
                    it.string(IFLA_INFO_KIND, "veth").nest(IFLA_INFO_DATA, |it| {
                        // The kernel makes this end first, and an end alone cannot be up.
                        it.nest_after(VETH_INFO_PEER, &fixed(0, 0, 0), |it| write_peer(it, pair));
                    });
                });
        });
        self.socket.request(&message)
    }

    pub fn change_link(&mut self, link: &Link, change: LinkChange) -> Result<(), Error> {
        let flags = if change.is_up == Some(true) { IFF_UP } else { 0 };
        let mask = if change.is_up.is_some() { IFF_UP } else { 0 };
        let doing = format!("change link {} to {change:?}", link.name);
        let fixed = fixed(link.index, flags, mask);
        let message = Message::new(doing, RTM_SETLINK, 0, &fixed).with(|it| {
            if let Some(mtu) = change.mtu {
                it.u32(IFLA_MTU, mtu);
            }
            if let Some(address) = change.address {
                it.bytes(IFLA_ADDRESS, &address.0);
            }
            if let Some(group) = change.group {
                it.u32(IFLA_GROUP, group);
            }
            if let Some(master) = change.master {
                it.u32(IFLA_MASTER, master);
            }
        });
        self.socket.request(&message)
    }

    pub fn set_ipv4(&mut self, link: &Link, settings: &[(Ipv4Setting, u32)]) -> Result<(), Error> {
        let doing = format!("set {settings:?} of link {}", link.name);
        let message = Message::new(doing, RTM_SETLINK, 0, &fixed(link.index, 0, 0)).with(|it| {
            it.nest(IFLA_AF_SPEC, |it| {
                it.nest(u16::from(AF_INET), |it| {
                    it.nest(IFLA_INET_CONF, |it| {
                        for (setting, value) in settings {
                            it.u32(*setting as u16, *value);
                        }
                    });
                });
            });
        });
        self.socket.request(&message)
    }

    /// The link makes itself no IPv6 address when it comes up, not even a link-local one: it has
    /// those that it is given.
    pub fn make_no_ipv6_addresses(&mut self, link: &Link) -> Result<(), Error> {
        let doing = format!("keep link {} from making IPv6 addresses", link.name);
        let message = Message::new(doing, RTM_SETLINK, 0, &fixed(link.index, 0, 0)).with(|it| {
            it.nest(IFLA_AF_SPEC, |it| {
                it.nest(u16::from(AF_INET6), |it| {
                    it.u8(IFLA_INET6_ADDR_GEN_MODE, NO_ADDRESSES);
                });
            });
        });
        self.socket.request(&message)
    }

    /// This very link, whatever is called so by now. Also removes the other end of a pair.
    pub fn delete_link(&mut self, link: &Link) -> Result<(), Error> {
        let doing = format!("delete link {}", link.name);
        let message = Message::new(doing, RTM_DELLINK, 0, &fixed(link.index, 0, 0));
        unless(self.socket.request(&message), &[Errno::NODEV])
    }
}

fn write_peer(attributes: &mut Attributes, pair: &VethPair<'_>) {
    let peer = &pair.peer;
    attributes
        .string(IFLA_IFNAME, peer.name)
        .bytes(IFLA_ADDRESS, &peer.address.0)
        .u32(IFLA_MTU, pair.mtu);
    match peer.namespace {
        Namespace::Same => {}
        Namespace::Process(pid) => {
            attributes.u32(IFLA_NET_NS_PID, pid);
        }
        Namespace::File(file) => {
            attributes.u32(IFLA_NET_NS_FD, file.as_raw_fd().cast_unsigned());
        }
    }
}

/// `struct ifinfomsg`: family, padding, type (16 bits), index, flags, mask of the flags to change.
pub(super) fn fixed(index: u32, flags: u32, mask: u32) -> [u8; FIXED] {
    let mut fixed = [0; FIXED];
    fixed[0] = AF_UNSPEC;
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    fixed[8..12].copy_from_slice(&flags.to_ne_bytes());
    fixed[12..].copy_from_slice(&mask.to_ne_bytes());
    fixed
}

pub(in crate::netlink) fn read(reply: &Reply) -> Option<Link> {
    let flags = reply.u32_at(8)?;
    let attributes = reply.attributes(FIXED);
    let number = |kind| attributes.find_kind(kind).and_then(|it| it.u32());
    let kind = attributes
        .find_kind(IFLA_LINKINFO)
        .and_then(|it| it.nested().find_kind(IFLA_INFO_KIND))
        .and_then(|it| it.string())
        .map(str::to_owned);
    Some(Link {
        index: reply.u32_at(4)?,
        name: attributes.find_kind(IFLA_IFNAME)?.string()?.to_owned(),
        kind,
        tunnel: tunnels::read(reply),
        master: number(IFLA_MASTER),
        mtu: number(IFLA_MTU).unwrap_or_default(),
        address: attributes
            .find_kind(IFLA_ADDRESS)
            .and_then(|it| it.array::<6>())
            .map(HardwareAddress),
        group: number(IFLA_GROUP).unwrap_or_default(),
        is_up: flags & IFF_UP != 0,
        has_carrier: flags & IFF_LOWER_UP != 0,
    })
}
