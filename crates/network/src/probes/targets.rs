//! Which ways are tried: those to peers that are up and say that they answer. Pure.

use super::Target;
use crate::addresses;
use crate::node::{Peer, ThisNode};
use crate::paths::{self, Backend, Way};

pub(crate) fn targets(
    backend: &dyn Backend,
    node: &ThisNode,
    ways: &[Way],
    peers: &[Peer],
) -> Vec<Target> {
    let owner = |way: &Way| peers.iter().find(|it| it.pod_cidrs.contains(&way.range));
    let target = |way: &Way| {
        let peer = owner(way).filter(|it| it.is_ready && paths::answers(it))?;
        let family = way.range.family();
        let local = node.local(stdx::Family::of(way.address));
        Some(Target {
            node: peer.node.clone(),
            range: way.range,
            from: node.range(family)?.gateway(),
            to: addresses::gateway(way.range),
            machines: local.map(|local| (local, way.address)),
            mtu: node.mtu,
            tunnel: backend.tunnel(node, way),
            uplinks: node.surroundings.uplinks.clone(),
        })
    };
    ways.iter().filter_map(target).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::tests::{node, peer};
    use crate::paths::{admit, find};

    #[test]
    fn only_who_is_up_and_answers_is_tried() {
        let check = |backend: &str, is_ready: bool, says_so: bool, expected: &[&str]| {
            let backend = find(backend).unwrap();
            let ranges = ["10.244.2.0/24", "fd00:10:244:2::/64"];
            let mut peer = peer("b", &ranges, &["192.0.2.2", "fd00:2::2"]);
            let mut there = node();
            there.ranges.iter_mut().zip(ranges).for_each(|(it, range)| {
                it.node = range.parse().unwrap();
            });
            there.public = peer.addresses.clone();
            peer.annotations = backend.published(&there);
            if !says_so {
                peer.annotations.retain(|name, _| name.starts_with("flannel"));
            }
            let peers = [Peer { is_ready, ..peer }];
            let (ways, _) = admit(backend, &node(), &peers);
            let shown = |it: &Target| {
                let tunnel = it.tunnel.as_ref().map_or("", |it| it.link.as_str());
                format!("{} from {} {tunnel}", it.to, it.from).trim_end().to_owned()
            };
            let found = targets(backend, &node(), &ways, &peers);
            assert_eq!(found.iter().map(shown).collect::<Vec<_>>(), expected);
        };
        let both = [
            "10.244.2.1 from 10.244.1.1 flannel.1",
            "fd00:10:244:2::1 from fd00:10:244:1::1 flannel-v6.1",
        ];
        check(paths::VXLAN, true, true, &both);
        check(paths::VXLAN, false, true, &[]);
        check(paths::VXLAN, true, false, &[]);
        let both = ["10.244.2.1 from 10.244.1.1", "fd00:10:244:2::1 from fd00:10:244:1::1"];
        check(paths::HOST_GW, true, true, &both);
    }
}
