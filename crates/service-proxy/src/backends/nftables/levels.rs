//! How many slots a choice is drawn from: the next power of two. Pure.
//!
//! A frontend with 5 endpoints is in the set `cluster-8`. Of the slots 0..8 that a packet draws from, those
//! from 5 on are empty, and then it draws again: [`DRAWS`] times, and at last from 0..4, which all are there. At
//! worst one endpoint is above the half: it is drawn with 1 - 2^-8 of the others' probability.
//!
//! So one endpoint more or less seldom changes the level, and which chain a frontend leads to is told by plain sets,
//! which the kernel does not walk when they change.

use super::sets::Scope;

/// How often a packet draws before it takes a slot that is surely there.
pub(super) const DRAWS: usize = 8;

/// `1 << 16` is the first that 65,535 endpoints fit in.
const N_LEVELS: usize = 17;

/// The binary logarithm of the number of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Level(u8);

const CLUSTER: [&str; N_LEVELS] = [
    "cluster-1",
    "cluster-2",
    "cluster-4",
    "cluster-8",
    "cluster-16",
    "cluster-32",
    "cluster-64",
    "cluster-128",
    "cluster-256",
    "cluster-512",
    "cluster-1024",
    "cluster-2048",
    "cluster-4096",
    "cluster-8192",
    "cluster-16384",
    "cluster-32768",
    "cluster-65536",
];

const LOCAL: [&str; N_LEVELS] = [
    "local-1",
    "local-2",
    "local-4",
    "local-8",
    "local-16",
    "local-32",
    "local-64",
    "local-128",
    "local-256",
    "local-512",
    "local-1024",
    "local-2048",
    "local-4096",
    "local-8192",
    "local-16384",
    "local-32768",
    "local-65536",
];

impl Level {
    /// `None`: there is nothing to choose from.
    pub(super) fn of(n_endpoints: usize) -> Option<Self> {
        let exponent = n_endpoints.checked_next_power_of_two()?.trailing_zeros();
        let level = u8::try_from(exponent).ok().filter(|it| usize::from(*it) < N_LEVELS)?;
        (n_endpoints > 0).then_some(Self(level))
    }

    pub(super) fn all() -> impl Iterator<Item = Self> {
        (0u8..).take(N_LEVELS).map(Self)
    }

    pub(super) const fn n_slots(self) -> u32 {
        1 << self.0
    }

    /// The slots that each draw is among, the last of them without empty ones.
    pub(super) fn draws(self) -> Vec<u32> {
        let n_slots = self.n_slots();
        match n_slots {
            // All of them are there.
            1 | 2 => vec![n_slots],
            _ => std::iter::repeat_n(n_slots, DRAWS).chain([n_slots / 2]).collect(),
        }
    }

    /// The set of the frontends that choose so.
    pub(super) fn set(self, scope: Scope) -> &'static str {
        match scope {
            Scope::Cluster => CLUSTER[usize::from(self.0)],
            Scope::Local => LOCAL[usize::from(self.0)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_has_a_slot_for_each_endpoint_and_more_than_half_are_taken() {
        assert_eq!(Level::of(0), None);
        for n_endpoints in 1..=0xffff_usize {
            let level = Level::of(n_endpoints).unwrap();
            let n_slots = level.n_slots() as usize;
            assert!(n_endpoints <= n_slots && (n_slots == 1 || n_endpoints > n_slots / 2));
            let last = *level.draws().last().unwrap() as usize;
            assert!(last <= n_endpoints, "the last draw finds something");
        }
    }

    #[test]
    fn sets_are_named_after_what_they_are_for() {
        for level in Level::all() {
            let n_slots = level.n_slots();
            assert_eq!(level.set(Scope::Cluster), format!("cluster-{n_slots}"));
            assert_eq!(level.set(Scope::Local), format!("local-{n_slots}"));
        }
    }
}
