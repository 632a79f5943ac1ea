//! Numbers from a range, each held by at most one. The first `n_static` are handed out to those who
//! do not care only when the rest is taken. A range may be as large as one of IPv6: nothing here walks
//! over more than what is taken.

use std::collections::BTreeSet;

use stdx::Random;

/// Draws before the free number is looked for in order: enough unless the range is nearly full.
const DRAWS_MAX: usize = 32;

pub(super) struct Pool {
    first: u128,
    last: u128,
    n_static: u128,
    taken: BTreeSet<u128>,
    /// What another server over the same store has given out, or is about to.
    elsewhere: BTreeSet<u128>,
}

impl Pool {
    pub(super) fn new(first: u128, last: u128, n_static: u128) -> Self {
        let n_static = n_static.min(last - first);
        Self { first, last, n_static, taken: BTreeSet::new(), elsewhere: BTreeSet::new() }
    }

    pub(super) fn bounds(&self) -> (u128, u128) {
        (self.first, self.last)
    }

    pub(super) fn contains(&self, number: u128) -> bool {
        (self.first..=self.last).contains(&number)
    }

    /// Whether it was free.
    pub(super) fn take(&mut self, number: u128) -> bool {
        let is_free = self.contains(number) && !self.elsewhere.contains(&number);
        is_free && self.taken.insert(number)
    }

    pub(super) fn set_elsewhere(&mut self, numbers: BTreeSet<u128>) {
        self.elsewhere = numbers;
    }

    pub(super) fn take_any(&mut self, random: &Random) -> Option<u128> {
        let bounds = (self.first, self.last);
        let is_taken = |it| self.taken.contains(&it) || self.elsewhere.contains(&it);
        let free = draw(bounds, self.n_static, random, is_taken)?;
        self.taken.insert(free);
        Some(free)
    }

    pub(super) fn release(&mut self, number: u128) {
        self.taken.remove(&number);
    }

    /// A holder had `old` and now has `new`.
    pub(super) fn follow(&mut self, new: &[u128], old: &[u128]) {
        for number in old.iter().filter(|it| !new.contains(it)) {
            self.taken.remove(number);
        }
        let new = new.iter().filter(|it| self.contains(**it)).copied().collect::<Vec<_>>();
        self.taken.extend(new);
    }
}

/// A number within the bounds that is free. The first `n_static` come last.
pub(super) fn draw(
    (first, last): (u128, u128),
    n_static: u128,
    random: &Random,
    is_taken: impl Fn(u128) -> bool,
) -> Option<u128> {
    let start = first + n_static;
    for _ in 0..DRAWS_MAX {
        // Of a larger range the first 2^64 - 1 are drawn from.
        let bound = u64::try_from(last - start).unwrap_or(u64::MAX).saturating_add(1);
        let number = start + u128::from(random.below(bound));
        if !is_taken(number) {
            return Some(number);
        }
    }
    (start..=last).chain(first..start).find(|it| !is_taken(*it))
}
