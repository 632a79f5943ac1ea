//! Nodes that share a link: a peer's pods are behind the peer's own address. See README.md.

#[cfg(test)]
mod tests;

use stdx::Cidr;

use super::{Backend, HOST_GW};
use crate::kernel_state::{KernelState, Next, Route};
use crate::node::{Peer, ThisNode};
use crate::node_itself;

#[derive(Debug)]
pub(crate) struct HostGw;

impl Backend for HostGw {
    fn name(&self) -> &'static str {
        HOST_GW
    }

    fn validate(&self, node: &ThisNode, peer: &Peer) -> Result<(), String> {
        let mut cidrs = peer.pod_cidrs.iter();
        cidrs.try_for_each(|it| route(node, peer, *it).map(drop))
    }

    fn desired(&self, node: &ThisNode, peers: &[Peer]) -> KernelState {
        let mut state = node_itself::desired(node);
        for peer in peers {
            let routes = peer.pod_cidrs.iter().map(|it| route(node, peer, *it));
            state.routes.extend(routes.filter_map(Result::ok));
        }
        state
    }
}

/// A range that is not the cluster's could take packets away from anybody.
fn route(node: &ThisNode, peer: &Peer, destination: Cidr) -> Result<Route, String> {
    let (name, family) = (&peer.node, destination.family());
    let is_part = |whole: Cidr| {
        whole.contains(destination.network())
            && whole.prefix_length() <= destination.prefix_length()
    };
    let Some(range) = node.range(family).filter(|it| is_part(it.cluster)) else {
        return Err(format!(
            "node {name} has pods in {destination}, outside the cluster's network"
        ));
    };
    if range.node.overlaps(destination) {
        return Err(format!("node {name} has pods in {destination}, as this node has"));
    }
    match peer.address(family) {
        Some(address) => Ok(Route { destination, next: Next::Gateway(address) }),
        None => Err(format!("node {name} has pods in {destination} and no {family} address")),
    }
}
