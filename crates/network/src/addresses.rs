//! Which of a node's range of addresses is the gateway's, and which a pod gets next. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;

use stdx::{Cidr, Family};

/// The first address after the network's own.
pub(crate) fn gateway(range: Cidr) -> IpAddr {
    range.nth(1).unwrap_or_else(|| range.network())
}

/// Refuses what has no room for a gateway and a pod, and what nobody meant.
pub(crate) fn validate(range: Cidr) -> Result<(), String> {
    let (shortest, longest) = match range.family() {
        Family::V4 => (8, 30),
        Family::V6 => (64, 126),
    };
    match (shortest..=longest).contains(&range.prefix_length()) {
        true => Ok(()),
        false => Err(format!("pod network {range} must be between /{shortest} and /{longest}")),
    }
}

/// The address after the one that was given last, or the next free one after it; from the end it
/// goes on at the beginning. So an address rests as long as possible before another pod gets it:
/// whoever still sends to the old pod does not reach a new one.
///
/// Of the `n` used ones no more than `n` are passed over, so the size of the range does not matter.
pub(crate) fn next_free(
    range: Cidr,
    last: Option<IpAddr>,
    used: &BTreeSet<IpAddr>,
) -> Option<IpAddr> {
    let (lowest, highest) = positions(range);
    let start = match last.and_then(|it| range.position(it)) {
        Some(last) if (lowest..highest).contains(&last) => last + 1,
        _ => lowest,
    };
    let mut candidates = (start..=highest).chain(lowest..start).filter_map(|it| range.nth(it));
    candidates.find(|it| !used.contains(it))
}

/// Of pods: without the network's, the gateway's and, where there is one, the broadcast address.
fn positions(range: Cidr) -> (u128, u128) {
    let last = range.position(range.last()).unwrap_or_default();
    let highest = match range.family() {
        Family::V4 => last.saturating_sub(1),
        Family::V6 => last,
    };
    (2, highest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn a_range_has_room_for_a_gateway_and_a_pod() {
        let check = |text: &str, expected: Result<(), &str>| {
            assert_eq!(validate(range(text)), expected.map_err(str::to_owned));
        };
        check("10.0.0.0/30", Ok(()));
        check("10.0.0.0/31", Err("pod network 10.0.0.0/31 must be between /8 and /30"));
        check("0.0.0.0/0", Err("pod network 0.0.0.0/0 must be between /8 and /30"));
        check("fd00::/64", Ok(()));
        check("fd00::/126", Ok(()));
        check("fd00::/127", Err("pod network fd00::/127 must be between /64 and /126"));
        check("fd00::/56", Err("pod network fd00::/56 must be between /64 and /126"));
        assert_eq!(gateway(range("10.244.3.0/24")).to_string(), "10.244.3.1");
        assert_eq!(gateway(range("fd00:0:0:3::/64")).to_string(), "fd00:0:0:3::1");
    }

    #[test]
    fn the_next_free_address_is_given_round_and_round() {
        let check = |text: &str, last: Option<&str>, used: &[&str], expected: Option<&str>| {
            let parse = |it: &str| it.parse::<IpAddr>().unwrap();
            let used: BTreeSet<_> = used.iter().map(|it| parse(it)).collect();
            let next = next_free(range(text), last.map(parse), &used);
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
        check("fd00::/64", None, &[], Some("fd00::2"));
        check("fd00::/64", Some("fd00::2"), &["fd00::3"], Some("fd00::4"));
        check("fd00::/64", Some("fd00::ffff:ffff:ffff:ffff"), &["fd00::2"], Some("fd00::3"));
        check("fd00::/64", Some("10.0.0.2"), &[], Some("fd00::2"));
        check("fd00::/126", Some("fd00::2"), &[], Some("fd00::3"));
    }

    proptest! {
        #[test]
        fn every_pod_address_is_given_once(prefix_length in 22u8..=30, last in any::<Option<u32>>()) {
            let range = range(&format!("10.4.0.0/{prefix_length}"));
            let mut last = last.map(|it| std::net::Ipv4Addr::from(it).into());
            let mut used = BTreeSet::new();
            while let Some(address) = next_free(range, last, &used) {
                prop_assert!(used.insert(address));
                last = Some(address);
            }
            prop_assert_eq!(used.len(), (1 << (32 - prefix_length)) - 3);
            prop_assert!(!used.contains(&range.network()) && !used.contains(&gateway(range)));
        }
    }
}
