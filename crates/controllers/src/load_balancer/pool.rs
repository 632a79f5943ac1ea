//! Ranges of addresses as a flag names them: `192.0.2.0/28`, `192.0.2.10-192.0.2.20`, `fd00::7`.

use std::net::IpAddr;

use stdx::{Cidr, Family};

/// How many addresses of one range are tried: a range may be larger than what could be walked.
const TRIED_MAX: u128 = 1 << 16;

/// The first and the last, of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    first: IpAddr,
    last: IpAddr,
}

#[derive(Debug, thiserror::Error)]
#[error("must be a range such as 192.0.2.0/28, 192.0.2.10-192.0.2.20 or fd00::7")]
pub(crate) struct Error;

pub(crate) fn parse_ranges(text: &str) -> Result<Range, Error> {
    let text = text.trim();
    if let Some((first, last)) = text.split_once('-') {
        let range = Range {
            first: first.trim().parse().map_err(|_| Error)?,
            last: last.trim().parse().map_err(|_| Error)?,
        };
        let is_range =
            Family::of(range.first) == Family::of(range.last) && range.first <= range.last;
        return is_range.then_some(range).ok_or(Error);
    }
    if let Ok(only) = text.parse() {
        return Ok(Range { first: only, last: only });
    }
    let cidr: Cidr = text.parse().map_err(|_| Error)?;
    let last = cidr.position(cidr.last()).unwrap_or_default();
    // Not the network's own, and of IPv4 not the one for broadcasts, where there are others.
    let (from, to) = match cidr.family() {
        _ if last < 2 => (0, last),
        Family::V4 => (1, last - 1),
        Family::V6 => (1, last),
    };
    let at = |n| cidr.nth(n).ok_or(Error);
    Ok(Range { first: at(from)?, last: at(to)? })
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(it) => u128::from(it.to_bits()),
        IpAddr::V6(it) => it.to_bits(),
    }
}

impl Range {
    pub(crate) fn family(self) -> Family {
        Family::of(self.first)
    }

    pub(crate) fn contains(self, address: IpAddr) -> bool {
        Family::of(address) == self.family() && self.first <= address && address <= self.last
    }

    /// From the first on, as far as it is sensible to look.
    pub(crate) fn addresses(self) -> impl Iterator<Item = IpAddr> {
        let (first, last) = (number(self.first), number(self.last));
        let is_v4 = self.first.is_ipv4();
        (first..=last.min(first.saturating_add(TRIED_MAX))).map(move |it| {
            if is_v4 {
                IpAddr::V4(u32::try_from(it).unwrap_or(u32::MAX).into())
            } else {
                IpAddr::V6(it.into())
            }
        })
    }
}
