//! Which segments to rewrite. Pure.

use std::collections::BTreeMap;

use crate::embedded::index::Usage;

/// Needless deletions that may pile up before the segment that keeps them needed is rewritten for
/// their sake.
const DELETIONS_MAX: u64 = 16_384;

/// A segment that is not appended to any more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sealed {
    pub(super) id: u32,
    pub(super) bytes: u64,
    /// It cannot be read, and stays as it is.
    pub(super) is_damaged: bool,
}

/// What is to be rewritten to one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Neighbors, by id.
    pub(super) segments: Vec<u32>,
    /// Whether needless deletions go too: no older segment has a put that would come to life
    /// without them.
    pub(super) drops_deletions: bool,
}

/// What rewriting must be worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Worth {
    /// Half of a segment, so that a byte is not copied time and again.
    Half,
    /// Anything: somebody asked for the space and waits for it.
    Anything,
}

/// `sealed` is in the order of the log.
pub(super) fn plan(
    sealed: &[Sealed],
    usage: &BTreeMap<u32, Usage>,
    segment_bytes: u64,
    worth: Worth,
) -> Option<Plan> {
    let used = |it: &Sealed| usage.get(&it.id).copied().unwrap_or_default();
    let n_clean = sealed.iter().take_while(|it| used(it).n_puts_needless == 0).count();
    let gains = |n: usize, it: &Sealed| {
        let used = used(it);
        let removable = used.n_puts_needless > 0 || n <= n_clean && used.n_deletions_needless > 0;
        let is_worth_it = worth == Worth::Anything || used.needed < it.bytes / 2;
        !it.is_damaged && removable && is_worth_it
    };
    let is_small = |it: &Sealed| !it.is_damaged && it.bytes < segment_bytes / 4;
    let n_deletions: u64 =
        sealed.iter().skip(n_clean).map(|it| used(it).n_deletions_needless).sum();
    let first = sealed.iter().enumerate().position(|(n, it)| {
        let is_joinable = is_small(it) && sealed.get(n + 1).is_some_and(is_small);
        gains(n, it) || is_joinable || n == n_clean && !it.is_damaged && n_deletions > DELETIONS_MAX
    })?;
    let mut needed = used(&sealed[first]).needed;
    let mut end = first + 1;
    while let Some(next) = sealed.get(end).filter(|it| is_small(it) || gains(end, it)) {
        needed += used(next).needed;
        if needed > segment_bytes / 2 {
            break;
        }
        end += 1;
    }
    let segments = sealed[first..end].iter().map(|it| it.id).collect();
    Some(Plan { segments, drops_deletions: first <= n_clean })
}

#[cfg(test)]
mod tests {
    use super::{Plan, Sealed, Worth, plan};
    use crate::embedded::index::Usage;

    /// Segments of 100 bytes each, unless told: (bytes, needed, needless puts, needless deletions).
    fn check(segments: &[(u64, u64, u64, u64)], expected: Option<(std::ops::Range<u32>, bool)>) {
        check_worth(Worth::Half, segments, expected);
    }

    fn check_worth(
        worth: Worth,
        segments: &[(u64, u64, u64, u64)],
        expected: Option<(std::ops::Range<u32>, bool)>,
    ) {
        let number = |n: usize| u32::try_from(n + 1).unwrap();
        let sealed: Vec<Sealed> = segments
            .iter()
            .enumerate()
            .map(|(n, it)| Sealed { id: number(n), bytes: it.0, is_damaged: it.2 == 666 })
            .collect();
        let usage = segments.iter().enumerate().map(|(n, it)| {
            let (needed, n_puts_needless, n_deletions_needless) = (it.1, it.2, it.3);
            (number(n), Usage { needed, n_puts_needless, n_deletions_needless })
        });
        let expected = expected.map(|it| Plan { segments: it.0.collect(), drops_deletions: it.1 });
        assert_eq!(plan(&sealed, &usage.collect(), 100, worth), expected, "{segments:?}");
    }

    #[test]
    fn what_is_mostly_needless_is_rewritten_and_joined() {
        check(&[], None);
        check(&[(100, 90, 5, 0)], None);
        check(&[(100, 90, 5, 0), (100, 40, 9, 0)], Some((2..3, false)));
        check(&[(100, 90, 0, 0), (100, 40, 9, 0)], Some((2..3, true)));
        check(&[(100, 10, 9, 0), (100, 20, 9, 0), (100, 90, 0, 0)], Some((1..3, true)));
        check(&[(10, 9, 0, 0), (10, 9, 0, 0), (100, 90, 0, 0)], Some((1..3, true)));
        check(&[(10, 9, 0, 0), (100, 90, 0, 0), (10, 9, 0, 0)], None);
        // Damaged: it is passed over.
        check(&[(100, 10, 666, 0), (100, 20, 9, 0)], Some((2..3, false)));
    }

    #[test]
    fn whoever_asks_for_the_space_gets_all_of_it() {
        let check = |segments: &[_], expected| check_worth(Worth::Anything, segments, expected);
        check(&[(100, 90, 0, 0)], None);
        check(&[(100, 90, 5, 0), (100, 90, 0, 0)], Some((1..2, true)));
        check(&[(100, 90, 0, 0), (100, 99, 0, 1)], Some((2..3, true)));
        check(&[(100, 90, 666, 0)], None);
    }

    #[test]
    fn deletions_stay_while_something_older_would_come_to_life() {
        check(&[(100, 90, 1, 0), (100, 10, 0, 9)], None);
        check(&[(100, 90, 0, 0), (100, 10, 0, 9)], Some((2..3, true)));
        check(&[(100, 90, 1, 0), (100, 10, 0, 99_999)], Some((1..2, true)));
    }
}
