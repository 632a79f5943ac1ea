//! Ranges of addresses and of ports as flags.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Deserializer, Serialize};
use stdx::{Cidr, Family};

/// One range, or two of different families: the first one's comes first everywhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Cidrs(Vec<Cidr>);

impl Cidrs {
    /// `None` if there are none, too many or two of one family.
    pub(crate) fn new(cidrs: Vec<Cidr>) -> Option<Self> {
        match cidrs[..] {
            [_] => Some(Self(cidrs)),
            [one, other] if one.family() != other.family() => Some(Self(cidrs)),
            _ => None,
        }
    }

    pub(crate) fn all(&self) -> &[Cidr] {
        &self.0
    }

    pub(crate) fn families(&self) -> Vec<Family> {
        self.0.iter().map(|it| it.family()).collect()
    }

    pub(crate) fn of(&self, family: Family) -> Option<Cidr> {
        self.0.iter().copied().find(|it| it.family() == family)
    }

    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.0.iter().any(|one| other.0.iter().any(|it| it.overlaps(*one)))
    }

    /// The n-th address of each.
    pub(crate) fn nth(&self, n: u128) -> Vec<IpAddr> {
        self.0.iter().filter_map(|it| it.nth(n)).collect()
    }
}

impl fmt::Display for Cidrs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&texts.join(","))
    }
}

impl<'de> Deserialize<'de> for Cidrs {
    /// Also the one range of IPv4 that was written before there were two families.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Many(Vec<Cidr>),
            One { address: IpAddr, prefix_length: u8 },
        }
        let cidrs = match Written::deserialize(deserializer)? {
            Written::Many(cidrs) => cidrs,
            Written::One { address, prefix_length } => {
                Cidr::containing(address, prefix_length).into_iter().collect()
            }
        };
        let wrong = || serde::de::Error::custom("expected one range, or two of different families");
        Self::new(cidrs).ok_or_else(wrong)
    }
}

/// Ports from the first to the last, such as `30000-32767`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PortRange {
    pub(crate) first: u16,
    pub(crate) last: u16,
}

impl PortRange {
    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// As upstream's `--service-node-port-range`: `30000-32767`, or `30000+2767`, both with the last
/// port.
pub(crate) fn parse_port_range(text: &str) -> Result<PortRange, String> {
    let bad = || format!("{text:?} is no range of ports: write it like 30000-32767");
    let number = |it: &str| it.trim().parse::<u16>().map_err(|_| bad());
    let (first, last) = if let Some((first, last)) = text.split_once('-') {
        (number(first)?, number(last)?)
    } else if let Some((first, more)) = text.split_once('+') {
        let first = number(first)?;
        (first, first.checked_add(number(more)?).ok_or_else(bad)?)
    } else {
        return Err(bad());
    };
    if first == 0 || first > last {
        return Err(format!("{text:?} must begin above 0 and not end before it begins"));
    }
    Ok(PortRange { first, last })
}

/// As upstream's `--cluster-cidr`: of IPv4 between /8 and /28, of IPv6 between /16 and /120.
pub(crate) fn parse_pod_cidrs(text: &str) -> Result<Cidrs, String> {
    parse_cidrs(text, 16..=120)
}

/// As upstream's `--service-cluster-ip-range`: of IPv6 between /64 and /124.
pub(crate) fn parse_service_cidrs(text: &str) -> Result<Cidrs, String> {
    parse_cidrs(text, 64..=124)
}

/// With a comma between two.
fn parse_cidrs(text: &str, lengths_ipv6: std::ops::RangeInclusive<u8>) -> Result<Cidrs, String> {
    let parse = |it: &str| {
        let cidr: Cidr = it.parse().map_err(|err: stdx::ParseCidrError| err.to_string())?;
        let lengths = match cidr.family() {
            Family::V4 => 8..=28,
            Family::V6 => lengths_ipv6.clone(),
        };
        validate(cidr, lengths)
    };
    let cidrs: Vec<Cidr> = text.split(',').map(parse).collect::<Result<_, _>>()?;
    let wrong = || format!("{text}: one range is meant, or one of IPv4 and one of IPv6");
    Cidrs::new(cidrs).ok_or_else(wrong)
}

fn validate(cidr: Cidr, lengths: std::ops::RangeInclusive<u8>) -> Result<Cidr, String> {
    let length = cidr.prefix_length();
    if !lengths.contains(&length) {
        let (shortest, longest) = (lengths.start(), lengths.end());
        return Err(format!(
            "the prefix length of {} must be between {shortest} and {longest}, not {length}",
            cidr.family()
        ));
    }
    let network = cidr.network();
    let is_link_local = match network {
        IpAddr::V4(it) => it.is_link_local(),
        IpAddr::V6(it) => it.is_unicast_link_local(),
    };
    let is_for_hosts = !network.is_loopback()
        && !network.is_multicast()
        && !network.is_unspecified()
        && !is_link_local;
    if !is_for_hosts {
        return Err(format!(
            "{cidr} is not for hosts: choose a private range, such as 10.96.0.0/16 or fd00:10:96::/112"
        ));
    }
    Ok(cidr)
}

/// One address, or two of different families, with a comma between.
pub(crate) fn parse_addresses(text: &str) -> Result<Addresses, String> {
    let parse = |it: &str| it.parse::<IpAddr>().map_err(|_| format!("{it:?} is not an IP address"));
    let addresses: Vec<IpAddr> = text.split(',').map(parse).collect::<Result<_, _>>()?;
    match addresses[..] {
        [_] => Ok(Addresses(addresses)),
        [one, other] if one.is_ipv4() != other.is_ipv4() => Ok(Addresses(addresses)),
        _ => Err(format!("{text}: one address is meant, or one of IPv4 and one of IPv6")),
    }
}

/// Whether who listens on the one listens on the other: `::` is every address of both families.
pub(crate) fn covers(listened: IpAddr, address: IpAddr) -> bool {
    listened == address || (listened.is_unspecified() && (listened.is_ipv6() || address.is_ipv4()))
}

/// One value of a flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Addresses(pub(crate) Vec<IpAddr>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_and_wrong_ones_say_what_would_be_right() {
        let check = |text: &str, expected: &str| {
            let actual = parse_pod_cidrs(text).map_or_else(|err| err, |it| it.to_string());
            assert_eq!(actual, expected);
        };
        check("10.96.0.0/16", "10.96.0.0/16");
        check("10.244.0.0/16,fd00:10:244::/56", "10.244.0.0/16,fd00:10:244::/56");
        check("fd00:10:244::/56,10.244.0.0/16", "fd00:10:244::/56,10.244.0.0/16");
        check(
            "10.96.0.5/16",
            "10.96.0.5 is not the start of its range; did you mean 10.96.0.0/16?",
        );
        check("10.96.0.0/4", "10.96.0.0 is not the start of its range; did you mean 0.0.0.0/4?");
        check("16.0.0.0/4", "the prefix length of IPv4 must be between 8 and 28, not 4");
        check("fd00::/8", "the prefix length of IPv6 must be between 16 and 120, not 8");
        check("web/16", "\"web\" is not an IP address");
        let private =
            "is not for hosts: choose a private range, such as 10.96.0.0/16 or fd00:10:96::/112";
        check("127.0.0.0/8", &format!("127.0.0.0/8 {private}"));
        check("fe80::/64", &format!("fe80::/64 {private}"));
        let two = "10.0.0.0/16,10.1.0.0/16";
        check(two, &format!("{two}: one range is meant, or one of IPv4 and one of IPv6"));
        let services = parse_service_cidrs("fd00::/56").unwrap_err();
        assert_eq!(services, "the prefix length of IPv6 must be between 64 and 124, not 56");
    }

    #[test]
    fn addresses_of_a_node_are_one_or_one_of_each_family() {
        let check = |text: &str, expected: Result<usize, &str>| {
            let found = parse_addresses(text).map(|it| it.0.len());
            assert_eq!(found, expected.map_err(str::to_owned));
        };
        check("192.0.2.1", Ok(1));
        check("2001:db8::1,192.0.2.1", Ok(2));
        let two = "192.0.2.1,192.0.2.2: one address is meant, or one of IPv4 and one of IPv6";
        check("192.0.2.1,192.0.2.2", Err(two));
        check("web", Err("\"web\" is not an IP address"));
    }

    #[test]
    fn a_range_that_was_written_before_there_were_two_families_is_read() {
        let check = |json: &str, expected: Option<&str>| {
            let read: Option<Cidrs> = serde_json::from_str(json).ok();
            assert_eq!(read.map(|it| it.to_string()).as_deref(), expected, "{json}");
        };
        check(r#"{"address": "10.96.0.0", "prefix_length": 16}"#, Some("10.96.0.0/16"));
        check(r#"["10.96.0.0/16"]"#, Some("10.96.0.0/16"));
        check(r#"["fd00::/64", "10.96.0.0/16"]"#, Some("fd00::/64,10.96.0.0/16"));
        check("[]", None);
        check(r#"["10.96.0.0/16", "10.97.0.0/16"]"#, None);
        let cidrs = parse_pod_cidrs("10.244.0.0/16,fd00::/56").unwrap();
        let json = serde_json::to_string(&cidrs).unwrap();
        assert_eq!(json, r#"["10.244.0.0/16","fd00::/56"]"#);
    }

    #[test]
    fn ranges_of_ports_are_written_as_upstream_writes_them() {
        let check = |text: &str, expected: &str| {
            let actual = parse_port_range(text).map_or_else(|err| err, |it| it.to_string());
            assert_eq!(actual, expected);
        };
        check("30000-32767", "30000-32767");
        check("30000+2767", "30000-32767");
        check("30000", "\"30000\" is no range of ports: write it like 30000-32767");
        check("65000+1000", "\"65000+1000\" is no range of ports: write it like 30000-32767");
        check("2-1", "\"2-1\" must begin above 0 and not end before it begins");
    }
}
