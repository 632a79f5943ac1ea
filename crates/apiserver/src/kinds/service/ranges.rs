//! The ranges that Services get their addresses from: those that the server was started with, and
//! those of ServiceCIDRs.

use std::collections::BTreeMap;
use std::net::IpAddr;

use stdx::{Cidr, Family, Random};

use super::pool::draw;

pub(super) struct Ranges {
    own: Vec<Cidr>,
    /// By the name of the ServiceCIDR.
    more: BTreeMap<String, Vec<Cidr>>,
}

impl Ranges {
    pub(super) fn new(own: &[Cidr]) -> Self {
        Self { own: own.to_vec(), more: BTreeMap::new() }
    }

    /// None: the ServiceCIDR is not there, or not ready.
    pub(super) fn set(&mut self, name: &str, ranges: Vec<Cidr>) {
        if ranges.is_empty() {
            self.more.remove(name);
        } else {
            self.more.insert(name.to_owned(), ranges);
        }
    }

    /// Those of the server first, each once.
    pub(super) fn of(&self, family: Family) -> impl Iterator<Item = Cidr> {
        let mut all: Vec<Cidr> = Vec::new();
        for range in self.own.iter().chain(self.more.values().flatten()) {
            if range.family() == family && !all.contains(range) {
                all.push(*range);
            }
        }
        all.into_iter()
    }

    /// Whether a Service can have the address.
    pub(super) fn contain(&self, address: IpAddr) -> bool {
        let is_in = |range: Cidr| {
            let (first, last) = host_positions(range);
            range.position(address).is_some_and(|it| (first..=last).contains(&it))
        };
        self.of(Family::of(address)).any(is_in)
    }

    /// One that is free, of the first range that has any.
    pub(super) fn draw(
        &self,
        family: Family,
        random: &Random,
        is_taken: impl Fn(IpAddr) -> bool,
    ) -> Option<IpAddr> {
        self.of(family).find_map(|range| {
            let (first, last) = host_positions(range);
            // The first part of each range is for those who ask for a certain one (KEP-3070).
            let n_static = ((last - first).saturating_add(1) / 16).clamp(16, 256);
            let n_static = n_static.min(last - first);
            let is_taken = |it: u128| range.nth(it).is_none_or(&is_taken);
            draw((first, last), n_static, random, is_taken).and_then(|it| range.nth(it))
        })
    }
}

/// The first and last that Services can have: not the network's own, and of IPv4 not the one for
/// broadcasts. A range that has no others is for whoever asks.
fn host_positions(cidr: Cidr) -> (u128, u128) {
    let last = cidr.position(cidr.last()).unwrap_or_default();
    match cidr.family() {
        _ if last < 2 => (0, last),
        Family::V4 => (1, last - 1),
        Family::V6 => (1, last),
    }
}
