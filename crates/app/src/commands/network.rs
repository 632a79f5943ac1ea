//! Ranges of addresses and of ports as flags.

use std::net::{IpAddr, Ipv4Addr};

use serde::{Deserialize, Serialize};

/// An IPv4 range such as `10.96.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cidr {
    pub(crate) address: Ipv4Addr,
    pub(crate) prefix_length: u8,
}

impl Cidr {
    /// The first address after the network's own: the `kubernetes` Service's.
    pub(crate) fn first_address(self) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.address) + 1)
    }

    /// Of two ranges that meet, one is inside the other.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        let length = self.prefix_length.min(other.prefix_length);
        let start = |it: Self| u32::from(it.address).checked_shr(32 - u32::from(length));
        start(self) == start(other)
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

impl std::fmt::Display for PortRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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

impl std::fmt::Display for Cidr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_length)
    }
}

/// Between /8 and /28, written with its network address.
pub(crate) fn parse_cidr(text: &str) -> Result<Cidr, String> {
    let (address, length) =
        text.split_once('/').ok_or("expected an address and a length, such as 10.96.0.0/16")?;
    let address: Ipv4Addr =
        address.parse().map_err(|_| format!("{address:?} is not an IPv4 address"))?;
    let prefix_length: u8 =
        length.parse().map_err(|_| format!("{length:?} is not a prefix length"))?;
    if !(8..=28).contains(&prefix_length) {
        return Err(format!("the prefix length must be between 8 and 28, not {prefix_length}"));
    }
    let mask = u32::MAX << (32 - u32::from(prefix_length));
    let network = Ipv4Addr::from(u32::from(address) & mask);
    if network != address {
        return Err(format!(
            "{address} is not the start of its range; did you mean {network}/{prefix_length}?"
        ));
    }
    let is_for_hosts = !address.is_loopback()
        && !address.is_multicast()
        && !address.is_link_local()
        && !address.is_unspecified();
    if !is_for_hosts {
        return Err(format!(
            "{text} is not for hosts: choose a private range, such as 10.96.0.0/16"
        ));
    }
    Ok(Cidr { address, prefix_length })
}

/// What of an address a range of IPv4 can meet.
pub(crate) fn host_range(address: IpAddr) -> Option<Cidr> {
    match address {
        IpAddr::V4(address) => Some(Cidr { address, prefix_length: 32 }),
        IpAddr::V6(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{parse_cidr, parse_port_range};

    fn check(text: &str, expected: &str) {
        let actual = parse_cidr(text).map_or_else(|err| err, |it| it.to_string());
        assert_eq!(actual, expected);
    }

    #[test]
    fn ranges_are_read_and_wrong_ones_say_what_would_be_right() {
        check("10.96.0.0/16", "10.96.0.0/16");
        check(
            "10.96.0.5/16",
            "10.96.0.5 is not the start of its range; did you mean 10.96.0.0/16?",
        );
        check("10.96.0.0/4", "the prefix length must be between 8 and 28, not 4");
        check("10.96.0.0", "expected an address and a length, such as 10.96.0.0/16");
        check("web/16", "\"web\" is not an IPv4 address");
        check(
            "127.0.0.0/8",
            "127.0.0.0/8 is not for hosts: choose a private range, such as 10.96.0.0/16",
        );
    }

    #[test]
    fn ranges_overlap_when_one_is_inside_the_other() {
        let check = |a, b, expected| {
            let (a, b) = (parse_cidr(a).unwrap(), parse_cidr(b).unwrap());
            assert_eq!((a.overlaps(b), b.overlaps(a)), (expected, expected), "{a} {b}");
        };
        check("10.96.0.0/16", "10.96.0.0/16", true);
        check("10.96.0.0/12", "10.97.0.0/16", true);
        check("10.96.0.0/16", "10.97.0.0/16", false);
        check("10.0.0.0/8", "172.16.0.0/12", false);
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
