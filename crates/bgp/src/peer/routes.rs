//! What was said to a peer, and what it said. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use stdx::{Cidr, Family};

use crate::message::{AsPath, Attributes, Update, encode_all};

/// What is said of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    pub next_hop: IpAddr,
    pub communities: Vec<u32>,
    /// Heard in our own AS alone.
    pub local_preference: Option<u32>,
}

/// How a range can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    pub next_hop: IpAddr,
    pub attributes: Attributes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Learned {
    pub path: Path,
    /// The peer is away, or has come back and not said it again yet.
    pub is_stale: bool,
}

#[derive(Debug, Default)]
pub(super) struct Announced(BTreeMap<Cidr, Announcement>);

/// What there is to say.
#[derive(Debug, Default)]
pub(super) struct Change {
    withdrawn: Vec<Cidr>,
    announced: Vec<(Cidr, Announcement)>,
}

impl Announced {
    pub(super) fn set(&mut self, mut all: BTreeMap<Cidr, Announcement>) -> Change {
        all.retain(|range, it| range.family() == Family::of(it.next_hop));
        let withdrawn = self.0.keys().filter(|it| !all.contains_key(it)).copied().collect();
        let is_new = |(range, it): &(&Cidr, &Announcement)| self.0.get(range) != Some(it);
        let announced = all.iter().filter(is_new).map(|(range, it)| (*range, it.clone())).collect();
        self.0 = all;
        Change { withdrawn, announced }
    }

    pub(super) fn all(&self) -> Change {
        let announced = self.0.iter().map(|(range, it)| (*range, it.clone())).collect();
        Change { withdrawn: Vec::new(), announced }
    }
}

impl Change {
    /// `own_as` begins the path where the peer is of another one.
    pub(super) fn messages(&self, families: &[Family], own_as: Option<u32>) -> Vec<Vec<u8>> {
        let is_spoken = |it: &Cidr| families.contains(&it.family());
        let withdrawn: Vec<Cidr> = self.withdrawn.iter().copied().filter(is_spoken).collect();
        let mut reach: BTreeMap<_, Vec<Cidr>> = BTreeMap::new();
        for (range, said) in self.announced.iter().filter(|it| is_spoken(&it.0)) {
            let attributes = said.attributes(own_as);
            reach.entry((attributes, said.next_hop)).or_default().push(*range);
        }
        encode_all(&withdrawn, &reach)
    }
}

impl Announcement {
    fn attributes(&self, own_as: Option<u32>) -> Attributes {
        // Within an AS it has to be there (RFC 4271, 5.1.5), and between ASes it must not.
        let inside = self.local_preference.or(Some(100));
        Attributes {
            as_path: AsPath::from_here(own_as),
            local_preference: inside.filter(|_| own_as.is_none()),
            communities: self.communities.clone(),
            ..Attributes::default()
        }
    }
}

/// More routes than a peer may send.
#[derive(Debug)]
pub(super) struct TooMany;

#[derive(Debug)]
pub(super) struct LearnedRoutes {
    all: BTreeMap<Cidr, Learned>,
    max: usize,
}

impl LearnedRoutes {
    pub(super) fn new(max: usize) -> Self {
        Self { all: BTreeMap::new(), max }
    }

    pub(super) fn all(&self) -> &BTreeMap<Cidr, Learned> {
        &self.all
    }

    /// Whether anything is other than before. What came in a loop cannot be used, and takes the place
    /// of what could.
    pub(super) fn take(
        &mut self,
        update: Update,
        families: &[Family],
        is_loop: bool,
    ) -> Result<bool, TooMany> {
        let mut has_changed = false;
        for range in update.withdrawn {
            has_changed |= self.all.remove(&range).is_some();
        }
        for reach in update.reach {
            for range in reach.ranges {
                if !families.contains(&range.family()) {
                    continue;
                }
                if is_loop || !is_usable(reach.next_hop) {
                    has_changed |= self.all.remove(&range).is_some();
                    continue;
                }
                let attributes = update.attributes.clone();
                let path = Path { next_hop: reach.next_hop, attributes };
                let learned = Learned { path, is_stale: false };
                has_changed |= self.all.insert(range, learned.clone()) != Some(learned);
                if self.all.len() > self.max {
                    return Err(TooMany);
                }
            }
        }
        Ok(has_changed)
    }

    /// Whether anything is other than before. Routes of families that are not kept go.
    pub(super) fn mark_stale(&mut self, is_kept: &impl Fn(Family) -> bool) -> bool {
        let before = self.all.len();
        self.all.retain(|range, _| is_kept(range.family()));
        self.all.values_mut().for_each(|it| it.is_stale = true);
        before != self.all.len()
    }

    pub(super) fn forget_stale(&mut self, family: Option<Family>) -> bool {
        let before = self.all.len();
        self.all.retain(|range, it| {
            !it.is_stale || family.is_some_and(|family| family != range.family())
        });
        before != self.all.len()
    }
}

/// Packets cannot be sent to nobody or to many.
fn is_usable(next_hop: IpAddr) -> bool {
    let is_broadcast = matches!(next_hop, IpAddr::V4(it) if it.is_broadcast());
    !next_hop.is_unspecified()
        && !next_hop.is_multicast()
        && !next_hop.is_loopback()
        && !is_broadcast
}
