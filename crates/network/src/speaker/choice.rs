//! Which next hop each range has, of all that neighbors say. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use bgp::{Candidate, Peer, best};
use stdx::Cidr;

/// The same whatever the order of the peers is.
pub(super) fn choose<'a>(
    peers: impl Iterator<Item = (IpAddr, &'a Peer)> + Clone,
) -> BTreeMap<Cidr, IpAddr> {
    let ranges: BTreeSet<Cidr> =
        peers.clone().flat_map(|(_, peer)| peer.learned().keys().copied()).collect();
    let chosen = |range| Some((range, next_hop(range, peers.clone())?));
    ranges.into_iter().filter_map(chosen).collect()
}

/// What somebody says counts before what somebody said who is away.
fn next_hop<'a>(range: Cidr, peers: impl Iterator<Item = (IpAddr, &'a Peer)>) -> Option<IpAddr> {
    let (mut fresh, mut stale) = (Vec::new(), Vec::new());
    for (address, peer) in peers {
        let Some(learned) = peer.learned().get(&range) else { continue };
        let candidate = Candidate {
            path: &learned.path,
            is_external: peer.is_external(),
            identifier: peer.identifier().unwrap_or(Ipv4Addr::BROADCAST),
            address,
        };
        if learned.is_stale { &mut stale } else { &mut fresh }.push(candidate);
    }
    let candidates = if fresh.is_empty() { stale } else { fresh };
    best(&candidates).map(|it| it.path.next_hop)
}
