//! How pods reach pods of other nodes: one folder per way.
//!
//! A back end says what should be in the kernel, from what it is told of this node and of the
//! others. It asks and changes nothing itself: observing, comparing and applying are the same for
//! all, so a restart is the same as a change, and to leave is to want nothing.

mod admission;
mod devices;
mod flannel;
mod host_gw;
mod ipip;
mod none;
mod routed;
#[cfg(test)]
mod shown;
mod udp;
mod vxlan;
mod wireguard;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use linux::netlink::route::HardwareAddress;
use linux::netlink::wireguard::Key;
use stdx::{Cidr, Family};

use crate::kernel_state::{KernelState, Next, Route};
use crate::links::Kind;
use crate::node::{Peer, ThisNode};
use crate::probes::Tunnel;

pub use admission::LeftOut;
pub(crate) use admission::admit;
pub use flannel::{ANNOTATIONS, concerns};
pub(crate) use flannel::{answers, node_public, public_wanted};

pub(crate) trait Backend: fmt::Debug + Send + Sync {
    fn name(&self) -> &'static str;

    /// How pods are joined to the node that come from now on.
    fn links(&self) -> Kind {
        Kind::Gateway
    }

    /// By how much packets between nodes become longer.
    fn overhead(&self, node: &ThisNode) -> u32;

    /// Whether it has a tunnel that nodes without a router between can do without.
    fn can_be_direct(&self) -> bool {
        false
    }

    /// Whether its ways are told by BGP.
    fn speaks_bgp(&self) -> bool {
        false
    }

    /// Whether nodes are told apart by keys.
    fn needs_keys(&self) -> bool {
        false
    }

    /// Whether a process carries the packets.
    fn needs_worker(&self) -> bool {
        false
    }

    /// What other nodes need to know of this one.
    fn published(&self, node: &ThisNode) -> BTreeMap<String, String>;

    /// What packets are wrapped in on this way.
    fn tunnel(&self, _node: &ThisNode, _way: &Way) -> Option<Tunnel> {
        None
    }

    /// How pods of this range of the peer can be reached; if not, why not.
    fn way(&self, node: &ThisNode, peer: &Peer, range: Cidr) -> Result<Way, Refusal>;

    /// All that should be in the kernel. What it wants of a pod does not depend on other pods or on
    /// peers: a pod that comes changes its own link alone.
    fn desired(&self, node: &ThisNode, ways: &[Way]) -> KernelState;
}

/// To the pods of one range of one peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) range: Cidr,
    /// The peer's, in the network of the nodes.
    pub(crate) address: IpAddr,
    pub(crate) by: By,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// It is on a network of this node, and routes.
    Gateway,
    Vxlan {
        vni: u32,
        hardware: HardwareAddress,
    },
    Ipip,
    Udp,
    Wireguard {
        key: Key,
        port: u16,
    },
}

/// Why a peer's range is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) why: String,
    /// It only has not said all that is needed yet.
    pub(crate) is_early: bool,
}

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self { why, is_early: false }
    }
}

impl Refusal {
    fn early(what: &str) -> Self {
        Self { why: format!("it has not said {what} yet"), is_early: true }
    }
}

/// The families in which this node has pods that are reached so.
fn families_of(ways: &[Way], is_it: impl Fn(&By) -> bool) -> Vec<Family> {
    let of = |family| ways.iter().any(|it| it.range.family() == family && is_it(&it.by));
    [Family::V4, Family::V6].into_iter().filter(|it| of(*it)).collect()
}

/// The first address of a range: where a tunnel of its node is.
fn end_of(range: Cidr) -> IpAddr {
    range.network()
}

impl Way {
    fn by_gateway(&self) -> Route {
        Route::new(self.range, Next::Gateway(self.address))
    }
}

/// Alphabetical.
pub(crate) const ALL: &[&dyn Backend] = &[
    &host_gw::HostGw,
    &ipip::Ipip,
    &none::NoPath,
    &routed::Routed,
    &udp::Udp,
    &vxlan::Vxlan,
    &wireguard::Wireguard,
];

pub const HOST_GW: &str = "host-gw";
pub const IPIP: &str = "ipip";
pub const NONE: &str = "none";
pub const ROUTED: &str = "routed";
pub const UDP: &str = "udp";
pub const VXLAN: &str = "vxlan";
pub const WIREGUARD: &str = "wireguard";

pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|it| it.name())
}

/// For flags: the name, if it is one.
pub fn named(name: &str) -> Result<&'static str, String> {
    find(name).map(Backend::name)
}

/// Refuses direct routes where there is no tunnel to do without.
pub fn validate_direct_routes(name: &str) -> Result<(), String> {
    match find(name)? {
        backend if backend.can_be_direct() => Ok(()),
        _ => Err(format!("pod network {name} has no tunnel to do without: vxlan and ipip have")),
    }
}

pub(crate) fn find(name: &str) -> Result<&'static dyn Backend, String> {
    ALL.iter().copied().find(|it| it.name() == name).ok_or_else(|| {
        let known: Vec<_> = names().collect();
        format!("there is no pod network {name:?}: it is one of {}", known.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn back_ends_are_found_by_name_and_others_are_refused() {
        for name in names() {
            assert_eq!(find(name).unwrap().name(), name);
        }
        let expected = "there is no pod network \"pigeons\": it is one of host-gw, ipip, none, routed, udp, vxlan, wireguard";
        assert_eq!(find("pigeons").unwrap_err(), expected);
    }

    #[test]
    fn only_a_tunnel_can_be_done_without() {
        let can: Vec<_> = names().filter(|it| validate_direct_routes(it).is_ok()).collect();
        assert_eq!(can, [IPIP, VXLAN]);
    }
}
