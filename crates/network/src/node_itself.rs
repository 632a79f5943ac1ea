//! What every back end wants of the node itself: the bridge with the gateways, the pods' links, the
//! rules, forwarding. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use stdx::{Cidr, Family};

use crate::kernel_state::{KernelState, Link, LinkKind, Next, PodEnd, Route};
use crate::node::{PodRange, ThisNode};
use crate::records::Record;
use crate::{hardware, table};

pub(crate) fn desired(node: &ThisNode) -> KernelState {
    let mut state = KernelState { settings: settings(node), ..KernelState::default() };
    state.links.insert(node.bridge.clone(), bridge(node));
    state.routes.extend(node.ranges.iter().map(|it| Route::nowhere(it.node)));
    for (sandbox, pod) in &node.pods {
        let name = pod.link(sandbox);
        let to_pod = |(address, range): (IpAddr, &PodRange)| {
            let next = Next::Link { name: name.clone(), source: Some(range.gateway()) };
            Route::new(Cidr::host(address), next)
        };
        state.routes.extend(with_ranges(node, pod).map(to_pod));
        state.links.extend(pod_link(node, pod).map(|it| (name, it)));
    }
    for family in [Family::V4, Family::V6] {
        let pods = node.pods.values();
        let group = node.cluster.link_group();
        let table = match node.range(family) {
            Some(range) => table::table(range, group, pods),
            None => table::closed(family, group),
        };
        state.tables.insert(family, table);
    }
    state
}

fn bridge(node: &ThisNode) -> Link {
    let address = |it: IpAddr| (it, Family::of(it).bits());
    let addresses = node.ranges.iter().map(|it| address(it.gateway())).collect();
    Link { addresses, ..link(node, LinkKind::Bridge) }
}

/// Addresses of a family that the node has, each with the node's range of it.
fn with_ranges<'a>(
    node: &'a ThisNode,
    pod: &'a Record,
) -> impl Iterator<Item = (IpAddr, &'a PodRange)> {
    pod.addresses.iter().filter_map(|it| Some((*it, node.range(Family::of(*it))?)))
}

/// `None` for a pod that has no address, which none has.
fn pod_link(node: &ThisNode, pod: &Record) -> Option<Link> {
    let with_gateway = |(address, range): (IpAddr, &PodRange)| (address, pod.kind.gateway(range));
    let addresses: Vec<_> = with_ranges(node, pod).map(with_gateway).collect();
    let (first, _) = *addresses.first()?;
    let (hardware, host_hardware) = (hardware::of_pod(first), pod.kind.host_hardware(first));
    let neighbors = addresses.iter().map(|(address, _)| (*address, hardware)).collect();
    let end = Some(PodEnd { hardware, host_hardware, addresses });
    Some(Link { neighbors, ..link(node, LinkKind::Pod { end }) })
}

/// With nothing on it.
pub(crate) fn link(node: &ThisNode, kind: LinkKind) -> Link {
    let (addresses, neighbors, forwards) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
    Link { kind, is_up: true, mtu: node.mtu, addresses, neighbors, forwards }
}

/// Without forwarding the kernel does not pass packets on between pods, nor between pods and the
/// world. A machine that forwards IPv6 stops listening to routers, and so forgets its own way to the
/// world, unless it is told otherwise.
fn settings(node: &ThisNode) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    for range in &node.ranges {
        settings.insert(forwarding(range.family()).to_owned(), "1".to_owned());
    }
    if node.range(Family::V6).is_some() {
        let accept = node
            .surroundings
            .advertised
            .iter()
            .map(|it| (accept_advertisements(it), "2".to_owned()));
        settings.extend(accept);
    }
    settings
}

pub(crate) fn forwarding(family: Family) -> &'static str {
    match family {
        Family::V4 => "net/ipv4/ip_forward",
        Family::V6 => "net/ipv6/conf/all/forwarding",
    }
}

/// How the names of these settings end.
pub(crate) const ACCEPT_ADVERTISEMENTS: &str = "/accept_ra";

fn accept_advertisements(link: &str) -> String {
    format!("net/ipv6/conf/{link}{ACCEPT_ADVERTISEMENTS}")
}
