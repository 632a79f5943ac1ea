//! What of the pod network is in the kernel: links by kind, addresses, neighbors, forwarding
//! entries, routes, rules and settings, of both families. Pure.
//!
//! A back end says with it what should be, the kernel is described with it as it is, and
//! [`changes`] says how to come from one to the other. (Rules are compared by
//! `linux::netlink::nftables`.)

mod changes;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use linux::netlink::nftables::Table;
use linux::netlink::route::{HardwareAddress, Vxlan};
use linux::netlink::wireguard;
use packets::Tunnel;
use stdx::{Cidr, Family};

pub(crate) use changes::{Change, changes};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KernelState {
    /// By name.
    pub(crate) links: BTreeMap<String, Link>,
    pub(crate) routes: BTreeSet<Route>,
    /// The rules of each family. Empty in what is observed: they are compared where they are.
    pub(crate) tables: BTreeMap<Family, Table>,
    /// Names and values of kernel settings. Those that are not here may be what they are.
    pub(crate) settings: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) kind: LinkKind,
    pub(crate) is_up: bool,
    pub(crate) mtu: u32,
    /// With the lengths of their prefixes.
    pub(crate) addresses: BTreeSet<(IpAddr, u8)>,
    /// Whom it knows for good, so that it need not ask.
    pub(crate) neighbors: BTreeMap<IpAddr, HardwareAddress>,
    /// To which machine it sends what is for a hardware address.
    pub(crate) forwards: BTreeMap<HardwareAddress, Remote>,
}

/// Another machine, as a VXLAN link knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remote {
    pub(crate) address: IpAddr,
    /// `None`: the link's own.
    pub(crate) vni: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LinkKind {
    /// Without ports: where the gateways' addresses live, whether there are pods or not.
    Bridge,
    /// The host's end of a pair.
    Pod {
        /// `None` in what is observed: the pod's namespace is the pod's to change, and nobody looks
        /// there.
        end: Option<PodEnd>,
    },
    Vxlan {
        vxlan: Vxlan,
        hardware: HardwareAddress,
    },
    Ipip {
        local: Ipv4Addr,
    },
    Wireguard(wireguard::Device),
    /// A worker has its other end. In what is observed without what is carried, if nobody has.
    Udp(Tunnel),
}

impl LinkKind {
    /// Whether one that is there can be made this one, whatever is on it.
    fn becomes(&self, desired: &Self) -> bool {
        match (self, desired) {
            (Self::Bridge, Self::Bridge)
            | (Self::Pod { .. }, Self::Pod { .. })
            | (Self::Wireguard(_), Self::Wireguard(_))
            | (Self::Udp(_), Self::Udp(_)) => true,
            (Self::Vxlan { .. }, Self::Vxlan { .. }) | (Self::Ipip { .. }, Self::Ipip { .. }) => {
                self == desired
            }
            _ => false,
        }
    }
}

/// The other end of a pod's link, in the pod. Everything else is behind the gateways, whose
/// hardware address it knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodEnd {
    pub(crate) hardware: HardwareAddress,
    pub(crate) host_hardware: HardwareAddress,
    /// Each with the gateway of its family.
    pub(crate) addresses: Vec<(IpAddr, IpAddr)>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Route {
    pub(crate) destination: Cidr,
    pub(crate) next: Next,
    /// The largest packet that goes there, if that is less than the link takes.
    pub(crate) mtu: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Next {
    /// On one of our links; the node sends there with this source.
    Link { name: String, source: Option<IpAddr> },
    /// Another node, on whatever link it is.
    Gateway(IpAddr),
    /// Somebody who is behind one of our links, though no address of it says so.
    Onlink { name: String, gateway: IpAddr },
    /// Who sends there, and has no better route, is told at once that nobody is there.
    Nowhere,
    /// The same, and nobody is told, as where Calico is.
    Blackhole,
}

impl Route {
    pub(crate) fn new(destination: Cidr, next: Next) -> Self {
        Self { destination, next, mtu: None }
    }

    pub(crate) fn nowhere(destination: Cidr) -> Self {
        Self::new(destination, Next::Nowhere)
    }

    pub(crate) fn link(&self) -> Option<&str> {
        match &self.next {
            Next::Link { name, .. } | Next::Onlink { name, .. } => Some(name),
            Next::Gateway(_) | Next::Nowhere | Next::Blackhole => None,
        }
    }

    /// To another node, perhaps.
    pub(crate) fn leads_away(&self) -> bool {
        !matches!(self.next, Next::Nowhere | Next::Blackhole)
    }

    /// The kernel has one route to a destination per metric, and ours have two metrics: that of
    /// routes over our links, and that which says whose the others are.
    fn replaces(&self, other: &Self) -> bool {
        let is_same_metric = self.link().is_some() == other.link().is_some();
        self.destination == other.destination && is_same_metric
    }
}

impl KernelState {
    /// With the ways to other nodes that are there, whoever they lead to.
    pub(crate) fn with_ways_of(mut self, actual: &Self) -> Self {
        let is_tunnel = |it: &Link| match it.kind {
            LinkKind::Vxlan { .. }
            | LinkKind::Ipip { .. }
            | LinkKind::Wireguard(_)
            | LinkKind::Udp(_) => true,
            LinkKind::Bridge | LinkKind::Pod { .. } => false,
        };
        for (name, link) in actual.links.iter().filter(|it| is_tunnel(it.1)) {
            self.links.entry(name.clone()).or_insert_with(|| link.clone());
        }
        let leads_away = |it: &&Route| match &it.next {
            Next::Gateway(_) | Next::Onlink { .. } => true,
            Next::Link { name, .. } => actual.links.get(name).is_some_and(is_tunnel),
            Next::Nowhere | Next::Blackhole => false,
        };
        self.routes.extend(actual.routes.iter().filter(leads_away).cloned());
        self
    }

    /// The part that is of one link: what changes when its pod comes.
    pub(crate) fn of_link(mut self, name: &str) -> Self {
        self.links.retain(|it, _| it == name);
        self.routes.retain(|it| it.link() == Some(name));
        Self { tables: BTreeMap::new(), settings: BTreeMap::new(), ..self }
    }
}
