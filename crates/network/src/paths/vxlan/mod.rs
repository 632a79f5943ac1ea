//! Pods' packets in datagrams from node to node: over any network. See README.md.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;

use linux::netlink::route;
use stdx::{Cidr, Family};

use super::devices::{self, Names};
use super::{Backend, By, Refusal, VXLAN, Way, end_of, families_of, flannel};
use crate::kernel_state::{KernelState, Link, LinkKind, Next, Remote, Route};
use crate::node::{Peer, ThisNode};
use crate::probes::Tunnel;
use crate::{hardware, node_itself, table};

/// Of flannel, and of Linux before the number 4789 was given.
const PORT: u16 = 8472;
const VNI: u32 = 1;
const VNI_LAST: u32 = (1 << 24) - 1;
const NAMES: Names = Names { v4: "flannel.1", v6: "flannel-v6.1", derived: "vx" };
/// Outer headers and the inner Ethernet one, over IPv4 and over IPv6.
const OVERHEAD: u32 = 50;
const OVERHEAD_V6: u32 = 70;
const UDP: u8 = 17;

#[derive(Debug)]
pub(crate) struct Vxlan;

impl Backend for Vxlan {
    fn name(&self) -> &'static str {
        VXLAN
    }

    fn overhead(&self, node: &ThisNode) -> u32 {
        if node.range(Family::V6).is_some() { OVERHEAD_V6 } else { OVERHEAD }
    }

    fn can_be_direct(&self) -> bool {
        true
    }

    fn published(&self, node: &ThisNode) -> BTreeMap<String, String> {
        flannel::annotations(node, VXLAN, |family| {
            let range = node.range(family)?;
            let (_, vni) = device(node, family);
            flannel::vxlan_data(vni, hardware::of_tunnel(range.node))
        })
    }

    fn tunnel(&self, node: &ThisNode, way: &Way) -> Option<Tunnel> {
        let link = || device(node, way.range.family()).0;
        matches!(way.by, By::Vxlan { .. })
            .then(|| Tunnel { link: link(), wrapping: "UDP port 8472" })
    }

    fn way(&self, node: &ThisNode, peer: &Peer, range: Cidr) -> Result<Way, Refusal> {
        flannel::speaks(peer, VXLAN)?;
        let family = range.family();
        let address = flannel::public(peer, family)?;
        if node.has_direct_routes && node.is_connected_to(address) {
            return Ok(Way { range, address, by: By::Gateway });
        }
        if node.local(family).is_none() {
            return Err(format!("this node has no {family} address for other nodes").into());
        }
        match flannel::vtep(peer, family)? {
            Some((vni, hardware)) if hardware != own_hardware(node, family) => {
                Ok(Way { range, address, by: By::Vxlan { vni, hardware } })
            }
            Some((_, hardware)) => {
                Err(format!("its hardware address {hardware} is this node's").into())
            }
            None => Err(Refusal::early("its VtepMAC")),
        }
    }

    fn desired(&self, node: &ThisNode, ways: &[Way]) -> KernelState {
        let mut state = node_itself::desired(node);
        for range in &node.ranges {
            let rule = table::no_tunnels_of_pods(range, node.cluster, UDP, Some(PORT));
            table::add_guard(&mut state.tables, range.node.family(), rule);
        }
        for family in families_of(ways, |it| matches!(it, By::Vxlan { .. })) {
            let (Some(range), Some(local)) = (node.range(family), node.local(family)) else {
                continue;
            };
            let (name, vni) = device(node, family);
            let of_family = ways.iter().filter(|it| it.range.family() == family);
            let mut link = tunnel(node, range.node, vni, local);
            for way in of_family {
                state.routes.extend(add(&mut link, &name, vni, way));
            }
            state.links.insert(name, link);
        }
        let direct = ways.iter().filter(|it| matches!(it.by, By::Gateway));
        state.routes.extend(direct.map(Way::by_gateway));
        state
    }
}

/// Its name and its number.
fn device(node: &ThisNode, family: Family) -> (String, u32) {
    let taken = &node.surroundings.other_vnis;
    let device = devices::device(node, family, &NAMES, taken.contains(&VNI));
    let derived = || devices::number(node, VNI + 1, VNI_LAST, |it| taken.contains(&it));
    (device.name, if device.is_first { VNI } else { derived() })
}

/// Follows from the node's range, so that it is the same after any restart, as is the range.
fn own_hardware(node: &ThisNode, family: Family) -> route::HardwareAddress {
    let range = node.range(family).map(|it| it.node);
    range.map_or(route::HardwareAddress([0; 6]), hardware::of_tunnel)
}

fn tunnel(node: &ThisNode, range: Cidr, vni: u32, local: IpAddr) -> Link {
    let vxlan = route::Vxlan { vni, port: PORT, local, is_learning: false };
    let kind = LinkKind::Vxlan { vxlan, hardware: hardware::of_tunnel(range) };
    let end = end_of(range);
    Link { addresses: [(end, Family::of(end).bits())].into(), ..node_itself::link(node, kind) }
}

/// What the link needs to know of one peer, and the route to its pods.
fn add(link: &mut Link, name: &str, own_vni: u32, way: &Way) -> Option<Route> {
    let By::Vxlan { vni, hardware } = way.by else { return None };
    let gateway = end_of(way.range);
    let vni = (vni != own_vni).then_some(vni);
    link.neighbors.insert(gateway, hardware);
    link.forwards.insert(hardware, Remote { address: way.address, vni });
    let next = Next::Onlink { name: name.to_owned(), gateway };
    Some(Route::new(way.range, next))
}
