//! Numbers from a range, each held by at most one. The first `n_static` are handed out to those who
//! do not care only when the rest is taken.

use std::collections::BTreeSet;

use stdx::Random;

/// Draws before the free number is looked for in order: enough unless the range is nearly full.
const DRAWS_MAX: usize = 32;

pub(super) struct Pool {
    first: u32,
    last: u32,
    n_static: u32,
    taken: BTreeSet<u32>,
}

impl Pool {
    pub(super) fn new(first: u32, last: u32, n_static: u32) -> Self {
        let n_static = n_static.min(last - first);
        Self { first, last, n_static, taken: BTreeSet::new() }
    }

    pub(super) fn bounds(&self) -> (u32, u32) {
        (self.first, self.last)
    }

    pub(super) fn contains(&self, number: u32) -> bool {
        (self.first..=self.last).contains(&number)
    }

    /// Whether it was free.
    pub(super) fn take(&mut self, number: u32) -> bool {
        self.contains(number) && self.taken.insert(number)
    }

    pub(super) fn take_any(&mut self, random: &Random) -> Option<u32> {
        let start = self.first + self.n_static;
        for _ in 0..DRAWS_MAX {
            let offset = random.below(u64::from(self.last - start) + 1);
            let number = start + u32::try_from(offset).unwrap_or(0);
            if self.taken.insert(number) {
                return Some(number);
            }
        }
        let taken = &self.taken;
        let free = (start..=self.last).chain(self.first..start).find(|it| !taken.contains(it))?;
        self.taken.insert(free);
        Some(free)
    }

    pub(super) fn release(&mut self, number: u32) {
        self.taken.remove(&number);
    }

    /// A holder had `old` and now has `new`.
    pub(super) fn follow(&mut self, new: &[u32], old: &[u32]) {
        for number in old.iter().filter(|it| !new.contains(it)) {
            self.taken.remove(number);
        }
        for number in new {
            self.take(*number);
        }
    }
}
