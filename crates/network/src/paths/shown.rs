//! What a back end wants, as lines, for tests.

use std::collections::BTreeMap;

use stdx::Family;

use crate::kernel_state::{KernelState, Link, LinkKind, Next};
use crate::node::ThisNode;
use crate::node_itself;

/// What it wants beside what the node itself needs.
pub(super) fn beyond_the_node(node: &ThisNode, state: &KernelState) -> Vec<String> {
    let alone = node_itself::desired(node);
    let mut lines = Vec::new();
    for (name, link) in state.links.iter().filter(|(name, _)| !alone.links.contains_key(*name)) {
        lines.push(format!("{name}: {} mtu {}", kind(link), link.mtu));
        lines.extend(link.addresses.iter().map(|(it, length)| format!("{name}: {it}/{length}")));
        lines.extend(link.neighbors.iter().map(|(it, mac)| format!("{name}: {it} is {mac}")));
        let forwards = link.forwards.iter().map(|(mac, to)| match to.vni {
            Some(vni) => format!("{name}: {mac} at {} vni {vni}", to.address),
            None => format!("{name}: {mac} at {}", to.address),
        });
        lines.extend(forwards);
        if let LinkKind::Wireguard(device) = &link.kind {
            let peers = device.peers.iter().map(|(key, peer)| {
                let allowed: Vec<_> = peer.allowed.iter().map(ToString::to_string).collect();
                let endpoint = peer.endpoint.map(|it| it.to_string()).unwrap_or_default();
                format!("{name}: peer {:02x} at {endpoint} for {}", key.0[0], allowed.join(","))
            });
            lines.extend(peers);
        }
        if let LinkKind::Udp(tunnel) = &link.kind {
            let ways = tunnel.ways.iter();
            lines.extend(ways.map(|(range, peer)| format!("{name}: {range} at {peer}")));
        }
    }
    lines.extend(state.routes.difference(&alone.routes).map(|it| match &it.next {
        Next::Gateway(gateway) => format!("{} via {gateway}", it.destination),
        Next::Onlink { name, gateway } => format!("{} via {gateway} dev {name}", it.destination),
        Next::Link { name, .. } => format!("{} dev {name}", it.destination),
        Next::Nowhere => format!("{} nowhere", it.destination),
        Next::Blackhole => format!("{} blackhole", it.destination),
    }));
    lines
}

fn kind(link: &Link) -> String {
    match &link.kind {
        LinkKind::Vxlan { vxlan, hardware } => {
            format!("vxlan {} port {} local {} mac {hardware}", vxlan.vni, vxlan.port, vxlan.local)
        }
        LinkKind::Ipip { local } => format!("ipip local {local}"),
        LinkKind::Wireguard(device) => format!("wireguard port {}", device.listen_port),
        LinkKind::Udp(tunnel) => {
            let (local, own) = (tunnel.local.unwrap(), tunnel.own.unwrap());
            format!("udp {local} for {own}")
        }
        LinkKind::Bridge => "bridge".to_owned(),
        LinkKind::Pod { .. } => "pod".to_owned(),
    }
}

/// The rules that it adds to those of the node itself.
pub(super) fn rules_beyond_the_node(node: &ThisNode, state: &KernelState) -> Vec<String> {
    let comments = |state: &KernelState| -> BTreeMap<Family, Vec<String>> {
        let of = |it: &linux::netlink::nftables::Table| {
            let rules = it.chains.values().flat_map(|it| &it.rules);
            rules.map(|it| it.comment.clone()).collect()
        };
        state.tables.iter().map(|(family, table)| (*family, of(table))).collect()
    };
    let (alone, all) = (comments(&node_itself::desired(node)), comments(state));
    let new = all.iter().flat_map(|(family, rules)| {
        rules
            .iter()
            .filter(|it| !alone[family].contains(it))
            .map(move |it| format!("{family}: {it}"))
    });
    new.collect()
}
