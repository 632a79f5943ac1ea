//! Routes of the main table.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustix::io::Errno;

use super::{AF_INET, AF_UNSPEC, Address, RouteSocket, address, family, octets, unless};
use crate::netlink::message::flags;
use crate::netlink::{Attribute, Attributes, Error, Message, Reply};

pub(in crate::netlink) const RTM_NEWROUTE: u16 = 24;
pub(in crate::netlink) const RTM_DELROUTE: u16 = 25;
const RTM_GETROUTE: u16 = 26;

/// Length of `struct rtmsg`.
const FIXED: usize = 12;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTA_TABLE: u16 = 15;
/// `RTAX_LOCK`: which of the others hold whatever is learned of the way; `RTAX_MTU`.
const METRIC_LOCK: u16 = 1;
const METRIC_MTU: u16 = 2;

const TABLE_MAIN: u8 = 254;
const TYPE_UNICAST: u8 = 1;
const TYPE_BLACKHOLE: u8 = 6;
const TYPE_UNREACHABLE: u8 = 7;
/// `RTNH_F_ONLINK`.
const ONLINK: u32 = 4;
/// `RTM_F_CLONED`: what the kernel remembers of one destination, such as the MTU of the way there.
const REMEMBERED: u32 = 0x200;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Destination {
    pub address: IpAddr,
    pub prefix_length: u8,
}

impl Destination {
    pub const DEFAULT: Self = Self { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), prefix_length: 0 };
    pub const DEFAULT_IPV6: Self =
        Self { address: IpAddr::V6(Ipv6Addr::UNSPECIFIED), prefix_length: 0 };

    /// Everything, of the family of this address.
    pub fn default_of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::DEFAULT } else { Self::DEFAULT_IPV6 }
    }

    pub fn host(address: IpAddr) -> Self {
        Self { address, prefix_length: if address.is_ipv4() { 32 } else { 128 } }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_length)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Behind a gateway.
    Universe,
    /// On the link itself.
    Link,
    Other(u8),
}

impl Scope {
    const LINK: u8 = 253;

    fn number(self) -> u8 {
        match self {
            Self::Universe => 0,
            Self::Link => Self::LINK,
            Self::Other(number) => number,
        }
    }

    fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Universe,
            Self::LINK => Self::Link,
            other => Self::Other(other),
        }
    }
}

/// A route of the main table over one link, or to nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    pub destination: Destination,
    /// Index of the link. `None`: whoever sends there is told at once that it cannot be reached,
    /// or nobody is told anything.
    pub link: Option<u32>,
    /// What is sent there disappears.
    pub is_blackhole: bool,
    pub gateway: Option<IpAddr>,
    /// The gateway is taken to be on the link, though no address of the link says so.
    pub is_onlink: bool,
    /// The source of packets that start here, if they have none yet.
    pub source: Option<IpAddr>,
    pub scope: Scope,
    /// The lower, the better.
    pub metric: u32,
    /// The largest packet that goes there, if it is smaller than that of the link.
    pub mtu: Option<u32>,
    /// A number that whoever made the route chose: see [`Route::BY_HAND`].
    pub protocol: u8,
}

impl Route {
    /// `RTPROT_BOOT`, which those have that name no other.
    pub const BY_HAND: u8 = 3;
    /// `RTPROT_KERNEL`: of an address that a link has.
    pub const OF_KERNEL: u8 = 2;
    /// `RTPROT_RA`: learned from a router of the link.
    pub const ADVERTISED: u8 = 9;
    /// `RTPROT_BIRD`: of the daemon BIRD, which Calico has.
    pub const OF_BIRD: u8 = 12;
}

/// How this machine reaches the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultInterface {
    pub index: u32,
    pub name: String,
    pub mtu: u32,
    /// What the world sees packets come from, before anyone translates it.
    pub address: IpAddr,
}

impl RouteSocket {
    /// The main table's routes over links and to nowhere, of both families.
    pub fn routes(&mut self) -> Result<Vec<Route>, Error> {
        let message = Message::new("list routes", RTM_GETROUTE, 0, &[AF_UNSPEC; FIXED]);
        Ok(self.socket.dump(&message)?.iter().filter_map(read).collect())
    }

    /// Adds it, or replaces the one to the same destination with the same metric.
    pub fn put_route(&mut self, route: &Route) -> Result<(), Error> {
        let doing = format!("add route {}", route.destination);
        let kind = flags::CREATE | flags::REPLACE;
        self.socket.request(&message(doing, RTM_NEWROUTE, kind, route))
    }

    pub fn delete_route(&mut self, route: &Route) -> Result<(), Error> {
        let doing = format!("delete route {}", route.destination);
        let message = message(doing, RTM_DELROUTE, 0, route);
        unless(self.socket.request(&message), &[Errno::SRCH, Errno::NODEV])
    }

    /// The link of the best default route, of IPv4 if there is one, else of IPv6, and the address
    /// used on it. `None` without such a route.
    pub fn default_interface(&mut self) -> Result<Option<DefaultInterface>, Error> {
        match self.default_interface_to(Destination::DEFAULT)? {
            None => self.default_interface_to(Destination::DEFAULT_IPV6),
            found => Ok(found),
        }
    }

    /// The same for one of [`Destination::DEFAULT`] and [`Destination::DEFAULT_IPV6`].
    pub fn default_interface_to(
        &mut self,
        default: Destination,
    ) -> Result<Option<DefaultInterface>, Error> {
        let best = self
            .routes()?
            .into_iter()
            .filter(|it| it.destination == default && it.link.is_some())
            .min_by_key(|it| it.metric);
        let Some(route) = best else { return Ok(None) };
        let is_usable = |it: &Address| {
            let is_of_family = it.address.is_ipv4() == default.address.is_ipv4();
            Some(it.link) == route.link && is_of_family && it.scope == 0
        };
        let address = match route.source {
            Some(source) => Some(source),
            None => self.addresses()?.into_iter().find(is_usable).map(|it| it.address),
        };
        let link = self.links()?.into_iter().find(|it| Some(it.index) == route.link);
        Ok(match (link, address) {
            (Some(link), Some(address)) => Some(DefaultInterface {
                index: link.index,
                name: link.name,
                mtu: link.mtu,
                address,
            }),
            _ => None,
        })
    }
}

/// `struct rtmsg`: family, lengths of destination and source, type of service, table, protocol,
/// scope, type, flags (32 bits).
fn message(doing: String, kind: u16, message_flags: u16, route: &Route) -> Message {
    let Destination { address, prefix_length } = route.destination;
    let scope = route.scope.number();
    // The kernel finds the link of a gateway itself.
    let goes_somewhere = route.link.is_some() || route.gateway.is_some();
    let route_type = match (goes_somewhere, route.is_blackhole) {
        (true, _) => TYPE_UNICAST,
        (false, true) => TYPE_BLACKHOLE,
        (false, false) => TYPE_UNREACHABLE,
    };
    let mut fixed = [0; FIXED];
    let head =
        [family(address), prefix_length, 0, 0, TABLE_MAIN, route.protocol, scope, route_type];
    fixed[..head.len()].copy_from_slice(&head);
    let route_flags = if route.is_onlink { ONLINK } else { 0 };
    fixed[head.len()..].copy_from_slice(&route_flags.to_ne_bytes());
    Message::new(doing, kind, message_flags, &fixed).with(|it| {
        it.bytes(RTA_DST, &octets(address));
        if let Some(link) = route.link {
            it.u32(RTA_OIF, link);
        }
        if let Some(gateway) = route.gateway {
            it.bytes(RTA_GATEWAY, &octets(gateway));
        }
        if let Some(source) = route.source {
            it.bytes(RTA_PREFSRC, &octets(source));
        }
        if route.metric != 0 {
            it.u32(RTA_PRIORITY, route.metric);
        }
        if let Some(mtu) = route.mtu {
            it.nest(RTA_METRICS, |it| write_mtu(it, address, mtu));
        }
    })
}

/// What is passed on follows a route of IPv6 only if that is locked. One of IPv4 is always followed,
/// and a lock would let this host's own packets go in pieces.
fn write_mtu(metrics: &mut Attributes, destination: IpAddr, mtu: u32) {
    if destination.is_ipv6() {
        metrics.u32(METRIC_LOCK, 1 << METRIC_MTU);
    }
    metrics.u32(METRIC_MTU, mtu);
}

pub(in crate::netlink) fn read(reply: &Reply) -> Option<Route> {
    let fixed: [u8; FIXED] = reply.payload.first_chunk().copied()?;
    let [family, prefix_length, _, _, table, protocol, scope, route_type, ..] = fixed;
    let attributes = reply.attributes(FIXED);
    let number = |kind| attributes.find_kind(kind).and_then(|it| it.u32());
    let table = number(RTA_TABLE).unwrap_or_else(|| u32::from(table));
    let link = match route_type {
        TYPE_UNICAST => Some(number(RTA_OIF)?),
        TYPE_UNREACHABLE | TYPE_BLACKHOLE => None,
        _ => return None,
    };
    let flags = reply.u32_at(8)?;
    if table != u32::from(TABLE_MAIN) || flags & REMEMBERED != 0 {
        return None;
    }
    let any = if family == AF_INET {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    } else {
        IpAddr::V6(Ipv6Addr::UNSPECIFIED)
    };
    let find_address = |kind| attributes.find_kind(kind).and_then(address);
    Some(Route {
        destination: Destination { address: find_address(RTA_DST).unwrap_or(any), prefix_length },
        link,
        is_blackhole: route_type == TYPE_BLACKHOLE,
        gateway: find_address(RTA_GATEWAY),
        is_onlink: flags & ONLINK != 0,
        source: find_address(RTA_PREFSRC),
        scope: Scope::from_number(scope),
        metric: number(RTA_PRIORITY).unwrap_or_default(),
        mtu: attributes
            .find_kind(RTA_METRICS)
            .and_then(|it| it.nested().find_kind(METRIC_MTU))
            .and_then(Attribute::u32),
        protocol,
    })
}
