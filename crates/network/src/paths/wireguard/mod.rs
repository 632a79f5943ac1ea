//! Pods' packets encrypted from node to node: over networks that nobody trusts. See README.md.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use linux::netlink::wireguard::{Device, Peer as Behind};
use stdx::{Cidr, Family};

use super::devices::{self, Names};
use super::{Backend, By, Refusal, WIREGUARD, Way, end_of, families_of, flannel};
use crate::kernel_state::{KernelState, Link, LinkKind, Next, Route};
use crate::node::{Peer, ThisNode};
use crate::node_itself;
use crate::probes::Tunnel;

/// Of IPv4 and of IPv6.
pub(super) const PORT: u16 = 51820;
const PORT_V6: u16 = 51821;
/// Where another cluster of this machine has these: its own are told to peers.
const PORT_DERIVED: u16 = 51822;
const PORT_LAST: u16 = 53821;
const NAMES: Names = Names { v4: "flannel-wg", v6: "flannel-wg-v6", derived: "wg" };
const OVERHEAD: u32 = 60;
const OVERHEAD_V6: u32 = 80;

#[derive(Debug)]
pub(crate) struct Wireguard;

impl Backend for Wireguard {
    fn name(&self) -> &'static str {
        WIREGUARD
    }

    fn overhead(&self, node: &ThisNode) -> u32 {
        if node.range(Family::V6).is_some() { OVERHEAD_V6 } else { OVERHEAD }
    }

    fn needs_keys(&self) -> bool {
        true
    }

    fn published(&self, node: &ThisNode) -> BTreeMap<String, String> {
        flannel::annotations(node, WIREGUARD, |family| {
            let keys = node.keys.as_ref()?;
            flannel::wireguard_data(keys.public, device(node, family).1)
        })
    }

    fn tunnel(&self, node: &ThisNode, way: &Way) -> Option<Tunnel> {
        let link = device(node, way.range.family()).0;
        Some(Tunnel { link, wrapping: "UDP (port 51820, of IPv6 51821)" })
    }

    fn way(&self, node: &ThisNode, peer: &Peer, range: Cidr) -> Result<Way, Refusal> {
        flannel::speaks(peer, WIREGUARD)?;
        let family = range.family();
        let address = flannel::public(peer, family)?;
        if node.local(family).is_none() {
            return Err(format!("this node has no {family} address for other nodes").into());
        }
        match flannel::wireguard(peer, family)? {
            Some((key, _)) if node.keys.as_ref().is_some_and(|it| it.public == key) => {
                Err("its PublicKey is this node's".to_owned().into())
            }
            Some((key, port)) => Ok(Way { range, address, by: By::Wireguard { key, port } }),
            None => Err(Refusal::early("its PublicKey")),
        }
    }

    fn desired(&self, node: &ThisNode, ways: &[Way]) -> KernelState {
        let mut state = node_itself::desired(node);
        for family in families_of(ways, |it| matches!(it, By::Wireguard { .. })) {
            let (Some(range), Some(keys)) = (node.range(family), &node.keys) else { continue };
            let (name, listen_port) = device(node, family);
            let private_key = Some(keys.private.clone());
            let mut device = Device { private_key, listen_port, peers: BTreeMap::new() };
            for way in ways.iter().filter(|it| it.range.family() == family) {
                let By::Wireguard { key, port } = way.by else { continue };
                let endpoint = Some(flannel::endpoint(way.address, port));
                device.peers.insert(key, Behind { endpoint, allowed: [way.range].into() });
                let next = Next::Link { name: name.clone(), source: None };
                state.routes.insert(Route::new(way.range, next));
            }
            let addresses = [(end_of(range.node), family.bits())].into();
            let link = node_itself::link(node, LinkKind::Wireguard(device));
            state.links.insert(name, Link { addresses, ..link });
        }
        state
    }
}

/// Its name and its port.
fn device(node: &ThisNode, family: Family) -> (String, u16) {
    let device = devices::device(node, family, &NAMES, false);
    let (first, offset) = match family {
        Family::V4 => (PORT, 0),
        Family::V6 => (PORT_V6, 1),
    };
    if device.is_first {
        return (device.name, first);
    }
    // Two of each cluster, one after the other.
    let pairs = u32::from(PORT_LAST - PORT_DERIVED) / 2;
    let pair = devices::number(node, 0, pairs - 1, |_| false);
    let port = u32::from(PORT_DERIVED) + 2 * pair + offset;
    (device.name, u16::try_from(port).unwrap_or(PORT_DERIVED))
}
