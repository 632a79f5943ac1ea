//! Ranges of addresses with exceptions, as a list of what is left. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stdx::{Cidr, Family};

/// Of either family, sorted; no two of them meet or touch.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ranges(Vec<Range>);

/// Both included, of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    pub first: IpAddr,
    pub last: IpAddr,
}

impl Ranges {
    /// A block without its exceptions.
    pub fn block(block: Cidr, except: &[Cidr]) -> Self {
        let mut holes = Self::union(except.iter().map(|it| Self(vec![whole(*it)]))).0;
        holes.retain(|it| Family::of(it.first) == block.family());
        let mut left = Vec::new();
        let whole = whole(block);
        let mut first = Some(whole.first);
        for hole in holes {
            let Some(from) = first.filter(|it| *it <= whole.last) else { break };
            if let Some(last) = before(hole.first).filter(|it| *it >= from) {
                left.push(Range { first: from, last: last.min(whole.last) });
            }
            first = if hole.last >= from { after(hole.last) } else { first };
        }
        if let Some(first) = first.filter(|it| *it <= whole.last) {
            left.push(Range { first, last: whole.last });
        }
        Self(left)
    }

    pub fn union(all: impl IntoIterator<Item = Self>) -> Self {
        let mut ranges: Vec<Range> = all.into_iter().flat_map(|it| it.0).collect();
        ranges.sort_unstable();
        let mut merged: Vec<Range> = Vec::new();
        for range in ranges {
            match merged.last_mut() {
                Some(last) if touches(*last, range) => last.last = last.last.max(range.last),
                _ => merged.push(range),
            }
        }
        Self(merged)
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        let after = self.0.partition_point(|it| it.first <= address);
        let candidate = after.checked_sub(1).and_then(|it| self.0.get(it));
        candidate
            .is_some_and(|it| address <= it.last && Family::of(it.first) == Family::of(address))
    }

    pub fn of(&self, family: Family) -> impl Iterator<Item = Range> {
        self.0.iter().copied().filter(move |it| Family::of(it.first) == family)
    }

    pub fn iter(&self) -> impl Iterator<Item = Range> {
        self.0.iter().copied()
    }
}

fn whole(block: Cidr) -> Range {
    Range { first: block.network(), last: block.last() }
}

/// `next` does not begin before `range`.
fn touches(range: Range, next: Range) -> bool {
    Family::of(range.first) == Family::of(next.first)
        && (next.first <= range.last || before(next.first) == Some(range.last))
}

/// The next address of its family.
pub(super) fn after(address: IpAddr) -> Option<IpAddr> {
    Some(match address {
        IpAddr::V4(it) => Ipv4Addr::from(u32::from(it).checked_add(1)?).into(),
        IpAddr::V6(it) => Ipv6Addr::from(u128::from(it).checked_add(1)?).into(),
    })
}

fn before(address: IpAddr) -> Option<IpAddr> {
    Some(match address {
        IpAddr::V4(it) => Ipv4Addr::from(u32::from(it).checked_sub(1)?).into(),
        IpAddr::V6(it) => Ipv6Addr::from(u128::from(it).checked_sub(1)?).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    fn block(text: &str, except: &[&str]) -> Ranges {
        Ranges::block(cidr(text), &except.iter().map(|it| cidr(it)).collect::<Vec<_>>())
    }

    fn shown(ranges: &Ranges) -> Vec<String> {
        ranges.iter().map(|it| format!("{}-{}", it.first, it.last)).collect()
    }

    #[test]
    fn exceptions_are_holes() {
        let check = |of: &str, except: &[&str], expected: &[&str]| {
            assert_eq!(shown(&block(of, except)), expected, "{of} {except:?}");
        };
        check("10.0.0.0/24", &[], &["10.0.0.0-10.0.0.255"]);
        check("10.0.0.0/24", &["10.0.0.0/25"], &["10.0.0.128-10.0.0.255"]);
        check("10.0.0.0/24", &["10.0.0.128/25"], &["10.0.0.0-10.0.0.127"]);
        let two = ["10.0.0.4/31", "10.0.0.4/30", "10.0.0.255/32"];
        check("10.0.0.0/24", &two, &["10.0.0.0-10.0.0.3", "10.0.0.8-10.0.0.254"]);
        check("0.0.0.0/0", &["0.0.0.0/0"], &[]);
        check("0.0.0.0/0", &["0.0.0.0/1", "128.0.0.0/1"], &[]);
        check("0.0.0.0/0", &["255.255.255.255/32"], &["0.0.0.0-255.255.255.254"]);
        check("10.0.0.0/24", &["10.0.0.0/8"], &[]);
        check("10.0.0.0/24", &["fd00::/8", "11.0.0.0/8"], &["10.0.0.0-10.0.0.255"]);
        check("fd00::/126", &["fd00::1/128"], &["fd00::-fd00::", "fd00::2-fd00::3"]);
    }

    #[test]
    fn what_touches_is_one() {
        let all = ["10.0.1.0/24", "10.0.0.0/24", "10.0.0.7/32", "10.0.3.0/24", "fd00::/64"];
        let union = Ranges::union(all.map(|it| block(it, &[])));
        let ends = "fd00::-fd00::ffff:ffff:ffff:ffff";
        assert_eq!(shown(&union), ["10.0.0.0-10.0.1.255", "10.0.3.0-10.0.3.255", ends]);
    }

    proptest! {
        #[test]
        fn an_address_is_in_it_if_it_is_in_a_block_and_in_none_of_its_exceptions(
            blocks in prop::collection::vec(
                ((0u32..64, 26u8..=32), prop::collection::vec((0u32..64, 26u8..=32), 0..4)), 0..4),
            base in prop::sample::select(vec![0u32, 0x0a00_0000, 0xffff_ffc0]),
        ) {
            let of = |(number, length): (u32, u8)| {
                Cidr::containing(Ipv4Addr::from(base + number).into(), length).unwrap()
            };
            let parsed: Vec<(Cidr, Vec<Cidr>)> = blocks.into_iter()
                .map(|(block, except)| (of(block), except.into_iter().map(of).collect()))
                .collect();
            let ranges = Ranges::union(parsed.iter().map(|(block, except)| {
                Ranges::block(*block, except)
            }));
            for number in 0..64 {
                let address: IpAddr = Ipv4Addr::from(base + number).into();
                let expected = parsed.iter().any(|(block, except)| {
                    block.contains(address) && !except.iter().any(|it| it.contains(address))
                });
                prop_assert_eq!(ranges.contains(address), expected, "{}", address);
            }
        }
    }
}
