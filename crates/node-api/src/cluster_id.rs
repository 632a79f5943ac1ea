//! Which cluster something on the machine belongs to.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// Carried by whatever a cluster makes in the kernel, so that nobody touches what is not its own.
/// Eight hexadecimal digits as text. Never zero: that is the group of links that nobody gave one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(NonZeroU32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a cluster's id has eight hexadecimal digits, not all of them 0")]
pub struct ParseError;

impl ClusterId {
    pub fn new(number: NonZeroU32) -> Self {
        Self(number)
    }

    /// The group of the cluster's links.
    pub fn link_group(self) -> u32 {
        self.0.get()
    }

    /// The name of one of the cluster's nftables tables.
    pub fn table(self, of: &str) -> String {
        format!("xebec-{self}-{of}")
    }

    /// The cgroup below which all of the cluster's are.
    pub fn cgroup(self) -> String {
        format!("xebec-{self}")
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl FromStr for ClusterId {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let is_plain = text.len() == 8 && text.bytes().all(|it| it.is_ascii_hexdigit());
        let number = u32::from_str_radix(text, 16).ok().filter(|_| is_plain);
        number.and_then(NonZeroU32::new).map(Self).ok_or(ParseError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_number_are_the_same_id() {
        let id: ClusterId = "00c0ffee".parse().unwrap();
        assert_eq!((id.link_group(), id.to_string()), (0x00c0_ffee, "00c0ffee".to_owned()));
        assert_eq!(id.table("network"), "xebec-00c0ffee-network");
        for wrong in ["", "00000000", "c0ffee", "+0c0ffee", "0c0ffee0c", "xxxxxxxx"] {
            assert_eq!(wrong.parse::<ClusterId>(), Err(ParseError), "{wrong}");
        }
    }
}
