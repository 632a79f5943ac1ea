//! Pods' packets in datagrams, carried by a process: where the kernel has no tunnel of its own. See
//! README.md.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddrV4};

use packets::{PORT, Tunnel};
use stdx::{Cidr, Family};

use super::devices::{self, Names};
use super::{Backend, By, Refusal, UDP, Way, end_of, flannel};
use crate::kernel_state::{KernelState, Link, LinkKind, Next, Route};
use crate::node::{Peer, ThisNode};
use crate::probes::Tunnel;
use crate::{node_itself, table};

/// There is none of IPv6.
const NAMES: Names = Names { v4: "flannel0", v6: "flannel0", derived: "ud" };
/// The headers of IPv4 and of UDP.
const OVERHEAD: u32 = 28;
const PROTOCOL: u8 = 17;

#[derive(Debug)]
pub(crate) struct Udp;

impl Backend for Udp {
    fn name(&self) -> &'static str {
        UDP
    }

    fn overhead(&self, _node: &ThisNode) -> u32 {
        OVERHEAD
    }

    fn needs_worker(&self) -> bool {
        true
    }

    fn published(&self, node: &ThisNode) -> BTreeMap<String, String> {
        flannel::annotations(node, UDP, |_| None)
    }

    fn tunnel(&self, node: &ThisNode, _way: &Way) -> Option<Tunnel> {
        let link = devices::device(node, Family::V4, &NAMES, false).name;
        Some(Tunnel { link, wrapping: "UDP port 8285" })
    }

    fn way(&self, node: &ThisNode, peer: &Peer, range: Cidr) -> Result<Way, Refusal> {
        flannel::speaks(peer, UDP)?;
        let family = range.family();
        if family == Family::V6 {
            return Err("udp carries IPv4 alone".to_owned().into());
        }
        let address = flannel::public(peer, family)?;
        match node.local(family) {
            Some(_) => Ok(Way { range, address, by: By::Udp }),
            None => Err(format!("this node has no {family} address for other nodes").into()),
        }
    }

    fn desired(&self, node: &ThisNode, ways: &[Way]) -> KernelState {
        let mut state = node_itself::desired(node);
        let (Some(range), Some(IpAddr::V4(local))) =
            (node.range(Family::V4), node.local(Family::V4))
        else {
            return state;
        };
        let rule = table::no_tunnels_of_pods(range, node.cluster, PROTOCOL, Some(PORT));
        table::add_guard(&mut state.tables, Family::V4, rule);
        let peers = ways.iter().filter_map(|it| match it.address {
            IpAddr::V4(peer) => Some((it.range, peer)),
            IpAddr::V6(_) => None,
        });
        let ways: BTreeMap<_, _> = peers.collect();
        if ways.is_empty() {
            return state;
        }
        let name = devices::device(node, Family::V4, &NAMES, false).name;
        let local = Some(SocketAddrV4::new(local, PORT));
        let tunnel = Tunnel { local, own: Some(range.node), ways };
        let addresses = [(end_of(range.node), Family::V4.bits())].into();
        let link = node_itself::link(node, LinkKind::Udp(tunnel));
        state.links.insert(name.clone(), Link { addresses, ..link });
        // Who has which range, the worker knows.
        let next = Next::Link { name, source: None };
        state.routes.insert(Route::new(range.cluster, next));
        state
    }
}
