//! Which part of the pod network is free. Pure.

use std::collections::BTreeSet;

use stdx::{Cidr, Family};

/// A range is cut into so many parts at most, as powers of two: as upstream.
const BITS_MAX: u8 = 16;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("--cluster-cidr names no range")]
    Nothing,
    #[error("--cluster-cidr names more than one range of {0}")]
    Twice(Family),
    #[error("{whole}: a node's part cannot have the prefix length {length}")]
    Mask { whole: Cidr, length: u8 },
}

/// What the flags say of prefix lengths.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Masks {
    pub one: Option<u8>,
    pub v4: Option<u8>,
    pub v6: Option<u8>,
}

/// A range, and how long the prefixes of its parts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whole {
    pub cidr: Cidr,
    pub prefix_length: u8,
}

impl Whole {
    pub(crate) fn n_parts(self) -> u128 {
        1 << self.prefix_length.saturating_sub(self.cidr.prefix_length()).min(BITS_MAX)
    }
}

pub(crate) fn parse_cidr(text: &str) -> Result<Cidr, stdx::ParseCidrError> {
    text.trim().parse()
}

pub(crate) fn wholes(cidrs: &[Cidr], masks: Masks) -> Result<Vec<Whole>, Error> {
    let mut wholes: Vec<Whole> = Vec::new();
    if cidrs.is_empty() {
        return Err(Error::Nothing);
    }
    for cidr in cidrs {
        let family = cidr.family();
        if wholes.iter().any(|it| it.cidr.family() == family) {
            return Err(Error::Twice(family));
        }
        let (own, usual) = match family {
            Family::V4 => (masks.v4, 24),
            Family::V6 => (masks.v6, 64),
        };
        let one = masks.one.filter(|_| cidrs.len() == 1);
        let length = own.or(one).unwrap_or(usual);
        let is_part = length >= cidr.prefix_length()
            && length <= family.bits()
            && length - cidr.prefix_length() <= BITS_MAX;
        if !is_part {
            return Err(Error::Mask { whole: *cidr, length });
        }
        wholes.push(Whole { cidr: *cidr, prefix_length: length });
    }
    Ok(wholes)
}

/// What a look for a free part found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub part: Option<Cidr>,
    /// Where the next look begins.
    pub next: u128,
    pub n_tried: u64,
    pub n_taken: usize,
}

/// What a node says of the ranges that it would have; what is no range is no wish.
pub(crate) fn wished(text: &str) -> Vec<Cidr> {
    text.split(',').filter_map(|it| parse_cidr(it).ok()).collect()
}

/// The part that was wished for, if it is one and nobody has any of it.
pub(crate) fn grant(whole: Whole, taken: &[Cidr], wished: &[Cidr]) -> Option<Cidr> {
    let is_part = |it: &Cidr| {
        it.prefix_length() == whole.prefix_length
            && whole.cidr.position(it.network()).is_some()
            && taken.iter().all(|taken| !taken.overlaps(*it))
    };
    wished.iter().copied().find(is_part)
}

/// The first part from `start` on that meets nothing that is taken.
pub(crate) fn choose(whole: Whole, taken: &[Cidr], start: u128) -> Found {
    let n_parts = whole.n_parts();
    let occupied = occupied(whole, taken);
    let mut n_tried = 0;
    for step in 0..n_parts {
        let index = (start % n_parts + step) % n_parts;
        n_tried += 1;
        if !occupied.contains(&index) {
            let part = whole.cidr.subnet(whole.prefix_length, index);
            let next = (index + 1) % n_parts;
            return Found { part, next, n_tried, n_taken: occupied.len() };
        }
    }
    Found { part: None, next: start, n_tried, n_taken: occupied.len() }
}

/// The parts that meet what is taken.
fn occupied(whole: Whole, taken: &[Cidr]) -> BTreeSet<u128> {
    let host_bits = u32::from(whole.cidr.family().bits() - whole.prefix_length);
    let index = |it: u128| it.checked_shr(host_bits).unwrap_or(0);
    let mut occupied = BTreeSet::new();
    for cidr in taken.iter().filter(|it| it.overlaps(whole.cidr)) {
        if cidr.prefix_length() <= whole.cidr.prefix_length() {
            occupied.extend(0..whole.n_parts());
            continue;
        }
        let first = whole.cidr.position(cidr.network()).map(index);
        let last = whole.cidr.position(cidr.last()).map(index);
        if let (Some(first), Some(last)) = (first, last) {
            occupied.extend(first..=last);
        }
    }
    occupied
}
