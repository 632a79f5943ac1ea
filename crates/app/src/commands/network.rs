//! Address ranges as flags.

use std::net::Ipv4Addr;

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
    Ok(Cidr { address, prefix_length })
}

#[cfg(test)]
mod tests {
    use super::parse_cidr;

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
    }
}
