//! How much history is kept: by time and by bytes. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use super::WallTime;
use crate::Revision;

/// Marks are at least this far apart, in time or in bytes, so that there are few.
const MARK_TIME: i64 = 60_000;
const MARK_BYTES: u64 = 4 << 20;
const MARKS_MAX: usize = 1 << 16;

/// What the store remembers of the past by itself: what is older than `age` is given up, and the
/// oldest of what is more than `bytes`. Explicit compaction gives up more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryBudget {
    pub age: Duration,
    pub bytes: u64,
}

impl Default for HistoryBudget {
    fn default() -> Self {
        Self { age: Duration::from_secs(7 * 24 * 3600), bytes: 512 << 20 }
    }
}

/// Samples of how time, revisions and bytes went along.
#[derive(Default)]
pub(super) struct Marks {
    /// What was superseded up to now, in bytes of the log.
    superseded: u64,
    marks: VecDeque<Mark>,
}

/// At this time this was the revision, and as much had been superseded.
#[derive(Clone, Copy)]
struct Mark {
    time: WallTime,
    revision: Revision,
    superseded: u64,
}

impl Marks {
    pub(super) fn supersede(&mut self, bytes: u64) {
        self.superseded += bytes;
    }

    pub(super) fn note(&mut self, time: WallTime, revision: Revision) {
        let superseded = self.superseded;
        if let Some(last) = self.marks.back() {
            // A clock that was set back must not make history look younger or older out of order.
            let is_near = time.0.saturating_sub(last.time.0) < MARK_TIME;
            if is_near && superseded - last.superseded < MARK_BYTES {
                return;
            }
        }
        let time = self.marks.back().map_or(time, |it| it.time.max(time));
        self.marks.push_back(Mark { time, revision, superseded });
        if self.marks.len() > MARKS_MAX {
            self.thin();
        }
    }

    /// Drops every other mark: the budget is kept a little less exactly then.
    fn thin(&mut self) {
        let mut n = 0;
        self.marks.retain(|_| {
            n += 1;
            n % 2 == 0
        });
    }

    /// What was superseded by then can be given up no more.
    fn superseded_at(&self, oldest: Revision) -> u64 {
        self.marks.front().filter(|it| it.revision <= oldest).map_or(0, |it| it.superseded)
    }

    pub(super) fn over_budget(
        &self,
        budget: &HistoryBudget,
        now: WallTime,
        oldest: Revision,
    ) -> Option<Revision> {
        let gone = self.superseded_at(oldest);
        let horizon = WallTime(now.0.saturating_sub(millis(budget.age)));
        let too_old = self.marks.iter().take_while(|it| it.time <= horizon).last();
        let too_many = (self.superseded - gone > budget.bytes).then(|| {
            // Somewhat below the budget, so that it is not reached again at once.
            let goal = budget.bytes - budget.bytes / 8;
            let is_enough = |it: &&Mark| self.superseded - it.superseded <= goal;
            self.marks.iter().find(is_enough).or_else(|| self.marks.back())
        });
        // Giving up what nothing was superseded in would gain nothing.
        let gains = |it: &&Mark| it.revision > oldest && it.superseded > gone;
        [too_old, too_many.flatten()]
            .into_iter()
            .flatten()
            .filter(gains)
            .map(|it| it.revision)
            .max()
    }

    pub(super) fn next_too_old(
        &self,
        budget: &HistoryBudget,
        oldest: Revision,
    ) -> Option<WallTime> {
        let gone = self.superseded_at(oldest);
        let next = self.marks.iter().find(|it| it.revision > oldest && it.superseded > gone)?;
        Some(WallTime(next.time.0.saturating_add(millis(budget.age))))
    }

    /// The mark at the oldest revision stays: it says what was superseded before it.
    pub(super) fn forget(&mut self, oldest: Revision) {
        while self.marks.get(1).is_some_and(|it| it.revision <= oldest) {
            self.marks.pop_front();
        }
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{HistoryBudget, MARK_BYTES, Marks};
    use crate::Revision;
    use crate::embedded::record::WallTime;
    use std::time::Duration;

    #[test]
    fn what_is_too_old_or_too_much_is_given_up() {
        let mut marks = Marks::default();
        for n in 1..=10 {
            marks.supersede(MARK_BYTES);
            marks.note(WallTime(n * 60_000), Revision(n as u64 * 10));
        }
        let check = |minutes: u64, bytes: u64, now: i64, expected: Option<u64>| {
            let budget =
                HistoryBudget { age: Duration::from_secs(minutes * 60), bytes: bytes * MARK_BYTES };
            let found = marks.over_budget(&budget, WallTime(now * 60_000), Revision(1));
            assert_eq!(found, expected.map(Revision), "{budget:?} at {now}");
        };
        check(10, 100, 10, None);
        check(5, 100, 10, Some(50));
        check(5, 100, 9, Some(40));
        check(100, 8, 10, Some(30));
        check(100, 10, 10, None);
        check(5, 8, 10, Some(50));
        check(100, 0, 10, Some(100));
    }
}
