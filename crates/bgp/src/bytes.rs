//! Reading numbers, ranges and parts of a message, never beyond its end.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stdx::{Cidr, Family};

/// The message ended before what it says is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Short;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], Short> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Short)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn part(&mut self, length: usize) -> Result<Self, Short> {
        self.take(length).map(Self)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Short> {
        self.take(N)?.try_into().map_err(|_| Short)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Short> {
        self.array().map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Short> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Short> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn address(&mut self, family: Family) -> Result<IpAddr, Short> {
        Ok(match family {
            Family::V4 => Ipv4Addr::from(self.array::<4>()?).into(),
            Family::V6 => Ipv6Addr::from(self.array::<16>()?).into(),
        })
    }

    /// A length in bits, then as many bytes as hold them. What is behind the length does not count.
    fn range(&mut self, family: Family) -> Result<Cidr, Short> {
        let length = self.u8()?;
        let given = self.take(usize::from(length).div_ceil(8))?;
        let mut all = [0; 16];
        all.get_mut(..given.len()).ok_or(Short)?.copy_from_slice(given);
        let address = Reader(&all).address(family)?;
        Cidr::containing(address, length).ok_or(Short)
    }

    /// All that is left.
    pub(crate) fn ranges(mut self, family: Family) -> Result<Vec<Cidr>, Short> {
        let mut ranges = Vec::new();
        while !self.is_empty() {
            ranges.push(self.range(family)?);
        }
        Ok(ranges)
    }
}

pub(crate) fn put_address(address: IpAddr, out: &mut Vec<u8>) {
    match address {
        IpAddr::V4(it) => out.extend(it.octets()),
        IpAddr::V6(it) => out.extend(it.octets()),
    }
}

/// As [`Reader::ranges`] reads it.
pub(crate) fn put_range(range: Cidr, out: &mut Vec<u8>) {
    out.push(range.prefix_length());
    let from = out.len();
    put_address(range.network(), out);
    out.truncate(from + usize::from(range.prefix_length()).div_ceil(8));
}

/// How many bytes a range takes.
pub(crate) fn range_length(range: Cidr) -> usize {
    1 + usize::from(range.prefix_length()).div_ceil(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(family: Family, bytes: &[u8], expected: Result<&[&str], Short>) {
        let read = Reader(bytes).ranges(family);
        let read = read.map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(read, expected.map(|all| all.iter().map(ToString::to_string).collect()));
    }

    #[test]
    fn ranges_have_as_many_bytes_as_their_length_needs() {
        check(Family::V4, &[], Ok(&[]));
        check(Family::V4, &[0], Ok(&["0.0.0.0/0"]));
        check(Family::V4, &[24, 10, 244, 1], Ok(&["10.244.1.0/24"]));
        check(Family::V4, &[16, 10, 244, 32, 1, 2, 3, 4], Ok(&["10.244.0.0/16", "1.2.3.4/32"]));
        check(Family::V6, &[16, 0xfd, 0], Ok(&["fd00::/16"]));
        // What is behind the length is no part of the range.
        check(Family::V4, &[20, 10, 244, 0xff], Ok(&["10.244.240.0/20"]));
    }

    #[test]
    fn ranges_that_are_longer_than_addresses_or_cut_are_none() {
        check(Family::V4, &[33, 1, 2, 3, 4, 5], Err(Short));
        check(Family::V4, &[24, 10, 244], Err(Short));
        check(Family::V6, &[255, 0], Err(Short));
    }

    #[test]
    fn what_is_written_is_read() {
        for text in ["0.0.0.0/0", "10.0.0.0/9", "10.1.2.3/32", "fd00:1::/33", "::/0"] {
            let range: Cidr = text.parse().unwrap();
            let mut out = Vec::new();
            put_range(range, &mut out);
            assert_eq!(out.len(), range_length(range));
            assert_eq!(Reader(&out).ranges(range.family()).unwrap(), [range]);
        }
    }
}
