//! Links that are made of other links or of nothing: tunnels to other machines, and dummies.

use std::net::{IpAddr, Ipv4Addr};

use super::links::{
    FIXED, IFF_UP, IFLA_ADDRESS, IFLA_GROUP, IFLA_IFNAME, IFLA_INFO_DATA, IFLA_INFO_KIND,
    IFLA_LINKINFO, IFLA_MTU, RTM_NEWLINK, fixed,
};
use super::{HardwareAddress, RouteSocket, address, octets};
use crate::netlink::attributes::Reader;
use crate::netlink::message::flags;
use crate::netlink::{Attribute, Attributes, Error, Message, Reply};

const IFLA_VXLAN_ID: u16 = 1;
const IFLA_VXLAN_LOCAL: u16 = 4;
const IFLA_VXLAN_LEARNING: u16 = 7;
const IFLA_VXLAN_PORT: u16 = 15;
const IFLA_VXLAN_LOCAL6: u16 = 17;
const IFLA_IPTUN_LOCAL: u16 = 2;

/// Ethernet frames in datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vxlan {
    pub vni: u32,
    pub port: u16,
    /// From where datagrams are sent; also says of which family they are.
    pub local: IpAddr,
    /// Where hardware addresses are is learned from what comes; else by forwarding entries alone.
    pub is_learning: bool,
}

/// What a link that is neither a pair nor a bridge is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunnelKind {
    Vxlan(Vxlan),
    /// IPv4 in IPv4, to whichever machine a route names as the gateway.
    Ipip {
        local: Ipv4Addr,
    },
    /// Configured over `netlink::wireguard`.
    Wireguard,
    /// Leads nowhere; holds addresses.
    Dummy,
}

impl TunnelKind {
    /// As the kernel names it, and mostly the module that has it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Vxlan(_) => "vxlan",
            Self::Ipip { .. } => "ipip",
            Self::Wireguard => "wireguard",
            Self::Dummy => "dummy",
        }
    }
}

/// A link to be made; what is `None` is the kernel's choice.
#[derive(Clone, Copy, Debug)]
pub struct NewTunnel<'a> {
    pub name: &'a str,
    pub group: u32,
    pub mtu: Option<u32>,
    pub address: Option<HardwareAddress>,
    pub kind: TunnelKind,
}

impl RouteSocket {
    /// Makes it, not up yet. Refused (`EEXIST`) if a link of the name is there, or for VXLAN one
    /// with the same VNI and port; `EOPNOTSUPP` if the kernel has no such kind.
    pub fn create_tunnel(&mut self, tunnel: &NewTunnel<'_>) -> Result<(), Error> {
        let doing = format!("add {} link {}", tunnel.kind.name(), tunnel.name);
        let kind = flags::CREATE | flags::EXCL;
        let down = fixed(0, 0, IFF_UP);
        let message = Message::new(doing, RTM_NEWLINK, kind, &down).with(|it| {
            it.string(IFLA_IFNAME, tunnel.name).u32(IFLA_GROUP, tunnel.group);
            if let Some(mtu) = tunnel.mtu {
                it.u32(IFLA_MTU, mtu);
            }
            if let Some(address) = tunnel.address {
                it.bytes(IFLA_ADDRESS, &address.0);
            }
            it.nest(IFLA_LINKINFO, |it| {
                it.string(IFLA_INFO_KIND, tunnel.kind.name());
                it.nest(IFLA_INFO_DATA, |it| write(it, tunnel.kind));
            });
        });
        self.socket.request(&message)
    }
}

fn write(attributes: &mut Attributes, kind: TunnelKind) {
    match kind {
        TunnelKind::Vxlan(Vxlan { vni, port, local, is_learning }) => {
            let of_family = if local.is_ipv4() { IFLA_VXLAN_LOCAL } else { IFLA_VXLAN_LOCAL6 };
            attributes
                .u32(IFLA_VXLAN_ID, vni)
                .bytes(of_family, &octets(local))
                .u8(IFLA_VXLAN_LEARNING, is_learning.into())
                .u16_be(IFLA_VXLAN_PORT, port);
        }
        TunnelKind::Ipip { local } => {
            attributes.bytes(IFLA_IPTUN_LOCAL, &local.octets());
        }
        TunnelKind::Wireguard | TunnelKind::Dummy => {}
    }
}

/// `None`: of another kind, or of these with what we never say.
pub(super) fn read(reply: &Reply) -> Option<TunnelKind> {
    let link_info = reply.attributes(FIXED).find_kind(IFLA_LINKINFO)?.nested();
    let kind = link_info.find_kind(IFLA_INFO_KIND)?.string()?;
    let details = link_info.find_kind(IFLA_INFO_DATA).map(Attribute::nested);
    match kind {
        "vxlan" => read_vxlan(&details?).map(TunnelKind::Vxlan),
        "ipip" => {
            let local = details?.find_kind(IFLA_IPTUN_LOCAL)?.array::<4>()?;
            Some(TunnelKind::Ipip { local: local.into() })
        }
        "wireguard" => Some(TunnelKind::Wireguard),
        "dummy" => Some(TunnelKind::Dummy),
        _ => None,
    }
}

fn read_vxlan(details: &Reader<'_>) -> Option<Vxlan> {
    let local = details
        .find_kind(IFLA_VXLAN_LOCAL)
        .or_else(|| details.find_kind(IFLA_VXLAN_LOCAL6))
        .and_then(address)?;
    let is_learning = details.find_kind(IFLA_VXLAN_LEARNING).and_then(Attribute::u8) == Some(1);
    Some(Vxlan {
        vni: details.find_kind(IFLA_VXLAN_ID)?.u32()?,
        port: details.find_kind(IFLA_VXLAN_PORT)?.u16_be()?,
        local,
        is_learning,
    })
}
