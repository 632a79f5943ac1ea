//! The node's range of pod addresses, and which of them is given next. Pure.

use std::fmt;
use std::net::Ipv4Addr;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Range {
    /// With the bits of the hosts zero.
    first: u32,
    prefix_length: u8,
}

impl Range {
    /// `None` if it has no room for a gateway and a pod.
    pub(crate) fn of_pods(network: Ipv4Addr, prefix_length: u8) -> Option<Self> {
        (8..=30).contains(&prefix_length).then(|| Self::new(network, prefix_length))
    }

    pub(crate) fn new(network: Ipv4Addr, prefix_length: u8) -> Self {
        let prefix_length = prefix_length.min(32);
        let mask = u32::MAX.checked_shl(32 - u32::from(prefix_length)).unwrap_or(0);
        Self { first: u32::from(network) & mask, prefix_length }
    }

    pub(crate) fn network(self) -> Ipv4Addr {
        Ipv4Addr::from(self.first)
    }

    pub(crate) fn prefix_length(self) -> u8 {
        self.prefix_length
    }

    /// The first address after the network's own.
    pub(crate) fn gateway(self) -> Ipv4Addr {
        Ipv4Addr::from(self.first + 1)
    }

    /// The address after the one that was given last, or the next free one after it; from the end
    /// it goes on at the beginning. So an address rests as long as possible before another pod gets
    /// it: whoever still sends to the old pod does not reach a new one.
    pub(crate) fn next_free(
        self,
        last: Option<Ipv4Addr>,
        is_used: impl Fn(Ipv4Addr) -> bool,
    ) -> Option<Ipv4Addr> {
        let (lowest, highest) = self.pods();
        let start = match last.map(u32::from) {
            Some(last) if (lowest..highest).contains(&last) => last + 1,
            _ => lowest,
        };
        (start..=highest).chain(lowest..start).map(Ipv4Addr::from).find(|it| !is_used(*it))
    }

    /// Without the network's, the gateway's and the broadcast address.
    fn pods(self) -> (u32, u32) {
        let size = 1u32 << (32 - u32::from(self.prefix_length));
        (self.first + 2, self.first + size - 2)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network(), self.prefix_length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn range(text: &str) -> Option<Range> {
        let (network, prefix_length) = text.split_once('/').unwrap();
        Range::of_pods(network.parse().unwrap(), prefix_length.parse().unwrap())
    }

    #[test]
    fn a_range_has_room_for_a_gateway_and_a_pod() {
        for too_small in ["10.0.0.0/31", "10.0.0.0/32", "10.0.0.0/33"] {
            assert_eq!(range(too_small), None);
        }
        assert_eq!(range("10.244.3.77/24").unwrap().to_string(), "10.244.3.0/24");
        assert_eq!(range("10.244.3.77/24").unwrap().gateway().to_string(), "10.244.3.1");
    }

    #[test]
    fn the_next_free_address_is_given_round_and_round() {
        let check = |text: &str, last: Option<&str>, used: &[&str], expected: Option<&str>| {
            let parse = |it: &str| it.parse::<Ipv4Addr>().unwrap();
            let used: BTreeSet<_> = used.iter().map(|it| parse(it)).collect();
            let next = range(text).unwrap().next_free(last.map(parse), |it| used.contains(&it));
            assert_eq!(next, expected.map(parse), "{text} {last:?} {used:?}");
        };
        check("10.0.0.0/29", None, &[], Some("10.0.0.2"));
        check("10.0.0.0/29", Some("10.0.0.2"), &[], Some("10.0.0.3"));
        check("10.0.0.0/29", Some("10.0.0.2"), &["10.0.0.3"], Some("10.0.0.4"));
        check("10.0.0.0/29", Some("10.0.0.6"), &[], Some("10.0.0.2"));
        check("10.0.0.0/29", Some("10.0.0.5"), &["10.0.0.6"], Some("10.0.0.2"));
        check("10.0.0.0/29", Some("10.0.0.3"), &["10.0.0.4", "10.0.0.5"], Some("10.0.0.6"));
        check("10.0.0.0/30", Some("10.0.0.2"), &[], Some("10.0.0.2"));
        check("10.0.0.0/30", None, &["10.0.0.2"], None);
        // The range was another one before.
        check("10.0.0.0/29", Some("192.168.0.4"), &[], Some("10.0.0.2"));
    }

    proptest! {
        #[test]
        fn every_pod_address_is_given_once(prefix_length in 22u8..=30, last in any::<Option<u32>>()) {
            let range = Range::of_pods(Ipv4Addr::new(10, 1, 0, 0), prefix_length).unwrap();
            let mut last = last.map(Ipv4Addr::from);
            let mut used = BTreeSet::new();
            while let Some(address) = range.next_free(last, |it| used.contains(&it)) {
                prop_assert!(used.insert(address));
                last = Some(address);
            }
            prop_assert_eq!(used.len(), (1 << (32 - prefix_length)) - 3);
            prop_assert!(!used.contains(&range.network()) && !used.contains(&range.gateway()));
        }
    }
}
