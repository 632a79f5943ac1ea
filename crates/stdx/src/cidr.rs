//! Ranges of addresses of either family, as `10.244.0.0/16` or `fd00:10:244::/56`. Pure.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    V4,
    V6,
}

impl Family {
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// Bits of an address.
    pub fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }
}

impl fmt::Display for Family {
    /// As Kubernetes names it: `spec.ipFamilies`, `addressType`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// Invariant: the bits after the prefix are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Cidr {
    network: IpAddr,
    prefix_length: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseCidrError {
    #[error("expected an address and a length, such as 10.96.0.0/16")]
    Form,
    #[error("{0:?} is not an IP address")]
    Address(String),
    #[error("{0:?} is not a prefix length")]
    Length(String),
    #[error("{address} is not the start of its range; did you mean {range}?")]
    NotStart { address: IpAddr, range: Cidr },
}

impl Cidr {
    /// The range that the address is in. `None` if addresses have fewer bits.
    pub fn containing(address: IpAddr, prefix_length: u8) -> Option<Self> {
        let family = Family::of(address);
        let host_bits = family.bits().checked_sub(prefix_length)?;
        let network = from_number(family, number(address) & !low_bits(host_bits));
        Some(Self { network, prefix_length })
    }

    /// Of one address.
    pub fn host(address: IpAddr) -> Self {
        Self { network: address, prefix_length: Family::of(address).bits() }
    }

    pub fn network(self) -> IpAddr {
        self.network
    }

    pub fn prefix_length(self) -> u8 {
        self.prefix_length
    }

    pub fn family(self) -> Family {
        Family::of(self.network)
    }

    /// How many bits tell its addresses apart.
    pub fn host_bits(self) -> u8 {
        self.family().bits() - self.prefix_length
    }

    /// The n-th address, from 0, the network's own. `None` after the last.
    pub fn nth(self, n: u128) -> Option<IpAddr> {
        let is_inside = n <= low_bits(self.host_bits());
        is_inside.then(|| from_number(self.family(), number(self.network) + n))
    }

    /// Which of its addresses it is, from 0.
    pub fn position(self, address: IpAddr) -> Option<u128> {
        self.contains(address).then(|| number(address) - number(self.network))
    }

    pub fn last(self) -> IpAddr {
        from_number(self.family(), number(self.network) | low_bits(self.host_bits()))
    }

    pub fn contains(self, address: IpAddr) -> bool {
        Self::containing(address, self.prefix_length) == Some(self)
    }

    /// Of two ranges that meet, one is inside the other.
    pub fn overlaps(self, other: Self) -> bool {
        self.contains(other.network) || other.contains(self.network)
    }

    /// The n-th of the parts with this longer prefix. `None` where there is none.
    pub fn subnet(self, prefix_length: u8, n: u128) -> Option<Self> {
        let host_bits = self.family().bits().checked_sub(prefix_length)?;
        let parts = self.host_bits().checked_sub(host_bits)?;
        // Nothing is shifted by all bits: then there is one part, at the beginning.
        let start = if n == 0 { Some(0) } else { n.checked_shl(host_bits.into()) };
        let network = start.filter(|_| n <= low_bits(parts)).and_then(|it| self.nth(it))?;
        Some(Self { network, prefix_length })
    }
}

fn low_bits(count: u8) -> u128 {
    u128::MAX.checked_shr(128 - u32::from(count)).unwrap_or(0)
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(it) => u32::from(it).into(),
        IpAddr::V6(it) => it.into(),
    }
}

fn from_number(family: Family, number: u128) -> IpAddr {
    match family {
        Family::V4 => IpAddr::V4(Ipv4Addr::from(number as u32)),
        Family::V6 => IpAddr::V6(Ipv6Addr::from(number)),
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix_length)
    }
}

impl From<Cidr> for String {
    fn from(cidr: Cidr) -> Self {
        cidr.to_string()
    }
}

impl TryFrom<String> for Cidr {
    type Error = ParseCidrError;

    fn try_from(text: String) -> Result<Self, ParseCidrError> {
        text.parse()
    }
}

impl FromStr for Cidr {
    type Err = ParseCidrError;

    /// Written with the network's own address.
    fn from_str(text: &str) -> Result<Self, ParseCidrError> {
        let (address, length) = text.split_once('/').ok_or(ParseCidrError::Form)?;
        let parsed: IpAddr =
            address.parse().map_err(|_| ParseCidrError::Address(address.to_owned()))?;
        let is_plain = !length.is_empty() && length.bytes().all(|it| it.is_ascii_digit());
        let prefix_length = length.parse().ok().filter(|_| is_plain);
        let range = prefix_length.and_then(|it| Self::containing(parsed, it));
        match range.ok_or_else(|| ParseCidrError::Length(length.to_owned()))? {
            range if range.network == parsed => Ok(range),
            range => Err(ParseCidrError::NotStart { address: parsed, range }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn ranges_are_read_and_wrong_ones_say_what_would_be_right() {
        let check = |text: &str, expected: &str| {
            let actual =
                text.parse::<Cidr>().map_or_else(|err| err.to_string(), |it| it.to_string());
            assert_eq!(actual, expected);
        };
        check("10.96.0.0/16", "10.96.0.0/16");
        check("0.0.0.0/0", "0.0.0.0/0");
        check("::/0", "::/0");
        check("fd00:10:244:0::/56", "fd00:10:244::/56");
        check(
            "10.96.0.5/16",
            "10.96.0.5 is not the start of its range; did you mean 10.96.0.0/16?",
        );
        check("fd00::1/64", "fd00::1 is not the start of its range; did you mean fd00::/64?");
        check("10.96.0.0", "expected an address and a length, such as 10.96.0.0/16");
        check("web/16", "\"web\" is not an IP address");
        check("10.0.0.0/33", "\"33\" is not a prefix length");
        check("fd00::/129", "\"129\" is not a prefix length");
        check("10.0.0.0/+8", "\"+8\" is not a prefix length");
        check("10.0.0.0/", "\"\" is not a prefix length");
    }

    #[test]
    fn a_range_has_what_shares_its_prefix() {
        let check = |range: &str, address: &str, expected: Option<u128>| {
            let address = address.parse().unwrap();
            assert_eq!(cidr(range).position(address), expected, "{range} {address}");
            assert_eq!(expected.and_then(|it| cidr(range).nth(it)), expected.map(|_| address));
        };
        check("10.244.0.0/16", "10.244.1.2", Some(258));
        check("10.244.0.0/16", "10.245.0.0", None);
        check("10.244.0.0/16", "::ffff:10.244.1.2", None);
        check("fd00::/64", "fd00::ff", Some(255));
        check("fd00::/64", "fd00:0:0:1::", None);
        check("::/0", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Some(u128::MAX));
        check("0.0.0.0/0", "255.255.255.255", Some(u32::MAX.into()));
        assert_eq!(cidr("10.0.0.0/30").nth(4), None);
        assert_eq!(cidr("10.0.0.0/30").last(), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 3)));
    }

    #[test]
    fn ranges_overlap_when_one_is_inside_the_other() {
        let check = |one: &str, other: &str, expected: bool| {
            let (one, other) = (cidr(one), cidr(other));
            assert_eq!((one.overlaps(other), other.overlaps(one)), (expected, expected));
        };
        check("10.96.0.0/12", "10.97.0.0/16", true);
        check("10.96.0.0/16", "10.97.0.0/16", false);
        check("fd00::/48", "fd00:0:0:7::/64", true);
        check("0.0.0.0/0", "::/0", false);
    }

    #[test]
    fn a_range_is_cut_into_parts() {
        let check = |range: &str, length: u8, n: u128, expected: Option<&str>| {
            let part = cidr(range).subnet(length, n).map(|it| it.to_string());
            assert_eq!(part.as_deref(), expected, "{range} {length} {n}");
        };
        check("10.244.0.0/16", 24, 0, Some("10.244.0.0/24"));
        check("10.244.0.0/16", 24, 255, Some("10.244.255.0/24"));
        check("10.244.0.0/16", 24, 256, None);
        check("10.244.0.0/16", 12, 0, None);
        check("10.244.0.0/16", 16, 0, Some("10.244.0.0/16"));
        check("fd00:10:244::/56", 64, 3, Some("fd00:10:244:3::/64"));
        check("::/0", 0, 0, Some("::/0"));
        check("::/0", 0, 1, None);
    }

    #[test]
    fn a_range_is_one_text_in_files() {
        let written = serde_json::to_string(&cidr("fd00::/64")).unwrap();
        assert_eq!(written, "\"fd00::/64\"");
        assert_eq!(serde_json::from_str::<Cidr>(&written).unwrap(), cidr("fd00::/64"));
        assert!(serde_json::from_str::<Cidr>("\"fd00::1/64\"").is_err());
    }
}
