//! IPv4 in IPv4 from node to node: over any network that passes protocol 4. See README.md.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;

use stdx::{Cidr, Family};

use super::devices::{self, Names};
use super::{Backend, By, IPIP, Refusal, Way, end_of, flannel};
use crate::kernel_state::{KernelState, Link, LinkKind, Next, Route};
use crate::node::{Peer, ThisNode};
use crate::probes::Tunnel;
use crate::{node_itself, table};

/// There is none of IPv6.
const NAMES: Names = Names { v4: "flannel.ipip", v6: "flannel.ipip", derived: "ip" };
const OVERHEAD: u32 = 20;
/// IPv4 in IPv4.
const PROTOCOL: u8 = 4;

#[derive(Debug)]
pub(crate) struct Ipip;

impl Backend for Ipip {
    fn name(&self) -> &'static str {
        IPIP
    }

    fn overhead(&self, _node: &ThisNode) -> u32 {
        OVERHEAD
    }

    fn can_be_direct(&self) -> bool {
        true
    }

    fn published(&self, node: &ThisNode) -> BTreeMap<String, String> {
        flannel::annotations(node, IPIP, |_| None)
    }

    fn tunnel(&self, node: &ThisNode, way: &Way) -> Option<Tunnel> {
        let link = || devices::device(node, Family::V4, &NAMES, false).name;
        matches!(way.by, By::Ipip).then(|| Tunnel { link: link(), wrapping: "IP protocol 4" })
    }

    fn way(&self, node: &ThisNode, peer: &Peer, range: Cidr) -> Result<Way, Refusal> {
        flannel::speaks(peer, IPIP)?;
        let family = range.family();
        if family == Family::V6 {
            return Err("IPIP carries IPv4 alone".to_owned().into());
        }
        let address = flannel::public(peer, family)?;
        if node.has_direct_routes && node.is_connected_to(address) {
            return Ok(Way { range, address, by: By::Gateway });
        }
        match node.local(family) {
            Some(_) => Ok(Way { range, address, by: By::Ipip }),
            None => Err(format!("this node has no {family} address for other nodes").into()),
        }
    }

    fn desired(&self, node: &ThisNode, ways: &[Way]) -> KernelState {
        let mut state = node_itself::desired(node);
        if let Some(range) = node.range(Family::V4) {
            let rule = table::no_tunnels_of_pods(range, node.cluster, PROTOCOL, None);
            table::add_guard(&mut state.tables, Family::V4, rule);
        }
        let direct = ways.iter().filter(|it| matches!(it.by, By::Gateway));
        state.routes.extend(direct.map(Way::by_gateway));
        let (Some(range), Some(IpAddr::V4(local))) =
            (node.range(Family::V4), node.local(Family::V4))
        else {
            return state;
        };
        let name = devices::device(node, Family::V4, &NAMES, false).name;
        let through = ways.iter().filter(|it| matches!(it.by, By::Ipip));
        let route = |way: &Way| {
            let next = Next::Onlink { name: name.clone(), gateway: way.address };
            Route::new(way.range, next)
        };
        let routes: Vec<_> = through.map(route).collect();
        if !routes.is_empty() {
            let addresses = [(end_of(range.node), Family::V4.bits())].into();
            let link = node_itself::link(node, LinkKind::Ipip { local });
            state.links.insert(name.clone(), Link { addresses, ..link });
        }
        state.routes.extend(routes);
        state
    }
}
