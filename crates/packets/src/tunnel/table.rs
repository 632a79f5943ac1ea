//! Which peer has which range, and what becomes of a packet by that. Pure.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use stdx::Cidr;

use super::packet::{self, Unreachable};

/// As many as a cluster has nodes.
const WAYS_MAX: usize = 5000;

/// Ranges do not meet: whoever tells them sees to that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    /// This node's pods.
    pub(crate) own: Option<Cidr>,
    ways: BTreeMap<Ipv4Addr, (Cidr, Ipv4Addr)>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// To this peer, or to this node itself.
    Pass(Option<Ipv4Addr>),
    /// Whoever sent it is told.
    Answer(Unreachable),
    Drop,
}

impl Table {
    /// Nobody else is known yet.
    pub(crate) fn of(own: Cidr) -> Self {
        Self { own: Some(own), ways: BTreeMap::new() }
    }

    /// False: there are too many, and this one is left out.
    pub(crate) fn add(&mut self, range: Cidr, peer: Ipv4Addr) -> bool {
        let IpAddr::V4(start) = range.network() else { return false };
        let is_known = self.ways.contains_key(&start);
        let has_room = is_known || self.ways.len() < WAYS_MAX;
        if has_room {
            self.ways.insert(start, (range, peer));
        }
        has_room
    }

    pub(crate) fn ways(&self) -> impl Iterator<Item = (Cidr, Ipv4Addr)> {
        self.ways.values().copied()
    }

    fn peer_of(&self, address: Ipv4Addr) -> Option<Ipv4Addr> {
        let (range, peer) = self.ways.range(..=address).next_back()?.1;
        range.contains(address.into()).then_some(*peer)
    }

    /// Of a packet that this node sends. Its time to live becomes less.
    pub(crate) fn outward(&self, packet: &mut [u8]) -> Verdict {
        let Some(header) = packet::header(packet) else { return Verdict::Drop };
        match self.peer_of(header.destination) {
            None => Verdict::Answer(Unreachable::Network),
            Some(_) if !packet::age(packet) => Verdict::Answer(Unreachable::TooOld),
            peer => Verdict::Pass(peer),
        }
    }

    /// Of a packet that came from this machine. It must be from pods of that, which is a peer, to
    /// pods of this node.
    pub(crate) fn inward(&self, packet: &mut [u8], sender: Ipv4Addr) -> Verdict {
        let Some(header) = packet::header(packet) else { return Verdict::Drop };
        let is_its_own = self.peer_of(header.source) == Some(sender);
        let is_for_us = self.own.is_some_and(|it| it.contains(header.destination.into()));
        if !(is_its_own && is_for_us) {
            return Verdict::Drop;
        }
        match packet::age(packet) {
            true => Verdict::Pass(None),
            false => Verdict::Answer(Unreachable::TooOld),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tunnel::packet::tests::packet;

    fn table() -> Table {
        let mut table = Table::of("10.244.1.0/24".parse().unwrap());
        for (range, peer) in [("10.244.2.0/24", "192.0.2.2"), ("10.244.3.0/24", "198.51.100.3")] {
            assert!(table.add(range.parse().unwrap(), peer.parse().unwrap()));
        }
        table
    }

    #[test]
    fn a_packet_goes_to_whoever_has_its_destination() {
        let check = |destination: &str, ttl: u8, expected: Verdict| {
            let mut packet = packet("10.244.1.7", destination, ttl);
            assert_eq!(table().outward(&mut packet), expected, "{destination}");
        };
        let to = |peer: &str| Verdict::Pass(Some(peer.parse().unwrap()));
        check("10.244.2.9", 64, to("192.0.2.2"));
        check("10.244.2.255", 64, to("192.0.2.2"));
        check("10.244.3.0", 2, to("198.51.100.3"));
        check("10.244.4.0", 64, Verdict::Answer(Unreachable::Network));
        check("10.243.255.255", 64, Verdict::Answer(Unreachable::Network));
        check("10.244.3.1", 1, Verdict::Answer(Unreachable::TooOld));
        check("10.244.3.1", 0, Verdict::Answer(Unreachable::TooOld));
    }

    #[test]
    fn only_pods_of_the_peer_that_sent_it_are_heard_and_only_by_pods_of_this_node() {
        let check = |sender: &str, source: &str, destination: &str, expected: Verdict| {
            let mut packet = packet(source, destination, 64);
            let found = table().inward(&mut packet, sender.parse().unwrap());
            assert_eq!(found, expected, "{sender} {source} {destination}");
        };
        check("192.0.2.2", "10.244.2.9", "10.244.1.7", Verdict::Pass(None));
        check("192.0.2.9", "10.244.2.9", "10.244.1.7", Verdict::Drop);
        check("192.0.2.2", "10.244.3.9", "10.244.1.7", Verdict::Drop);
        check("192.0.2.2", "10.244.1.7", "10.244.1.7", Verdict::Drop);
        check("192.0.2.2", "10.244.2.9", "203.0.113.7", Verdict::Drop);
        check("192.0.2.2", "10.244.2.9", "10.244.3.7", Verdict::Drop);
    }

    #[test]
    fn there_are_only_so_many_ways() {
        let mut table = Table::default();
        let range = |n: usize| {
            let n = u32::try_from(n).unwrap();
            Cidr::containing(Ipv4Addr::from(0x0a00_0000 + n * 256).into(), 24).unwrap()
        };
        assert!((0..WAYS_MAX).all(|it| table.add(range(it), Ipv4Addr::LOCALHOST)));
        assert!(!table.add(range(WAYS_MAX), Ipv4Addr::LOCALHOST));
        assert!(table.add(range(7), Ipv4Addr::BROADCAST), "another peer for what is there");
    }
}
