//! How many requests are under way, and the most that were during the last second: a scrape sees
//! one moment of many.

use std::sync::atomic::{AtomicU64, Ordering};

/// Of one kind of requests. Time is given, in whole seconds since any moment.
#[derive(Default)]
pub(super) struct Peak {
    now: AtomicU64,
    /// The second of the last arrival, and the most of that second below it in 32 bits.
    window: AtomicU64,
}

impl Peak {
    pub(super) fn enter(&self, second: u64) {
        let count = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        let next = |window: u64| {
            let is_less = window >> 32 == second && window & u64::from(u32::MAX) >= count;
            (!is_less).then_some(second << 32 | count.min(u64::from(u32::MAX)))
        };
        let _ = self.window.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }

    pub(super) fn leave(&self) {
        self.now.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn at(&self, second: u64) -> u64 {
        let (now, window) = (self.now.load(Ordering::Relaxed), self.window.load(Ordering::Relaxed));
        let is_recent = (window >> 32) + 1 >= second;
        if is_recent { now.max(window & u64::from(u32::MAX)) } else { now }
    }
}

#[cfg(test)]
mod tests {
    use super::Peak;

    #[test]
    fn a_burst_is_seen_for_a_second() {
        let peak = Peak::default();
        assert_eq!(peak.at(0), 0);
        (0..5).for_each(|_| peak.enter(7));
        (0..4).for_each(|_| peak.leave());
        assert_eq!((peak.at(7), peak.at(8), peak.at(9)), (5, 5, 1));
        peak.enter(9);
        assert_eq!(peak.at(9), 2);
        (0..2).for_each(|_| peak.leave());
        assert_eq!((peak.at(10), peak.at(11)), (2, 0));
    }
}
