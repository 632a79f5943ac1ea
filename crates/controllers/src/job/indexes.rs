//! Sets of completion indexes as growing intervals, which a status has as text (`0,2-4,7`). Pure;
//! the work grows with the number of intervals and never with that of the indexes, of which there
//! may be a thousand million.

use std::fmt;

/// Neither empty, nor overlapping, nor touching; growing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Indexes(Vec<Interval>);

/// First and last, both included.
type Interval = (i32, i32);

impl Indexes {
    /// What cannot be read is left out, and so is what is not below `completions`, which may have
    /// been lowered.
    pub(super) fn parse(text: &str, completions: i32) -> Self {
        let intervals = text.split(',').filter_map(|it| {
            let (first, last) = it.split_once('-').unwrap_or((it, it));
            let (first, last): (i32, i32) = (first.parse().ok()?, last.parse().ok()?);
            let last = last.min(completions.saturating_sub(1));
            (0 <= first && first <= last).then_some((first, last))
        });
        Self::of(intervals.collect())
    }

    fn of(mut intervals: Vec<Interval>) -> Self {
        intervals.sort_unstable();
        let mut joined: Vec<Interval> = Vec::with_capacity(intervals.len());
        for (first, last) in intervals {
            match joined.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => {
                    before.1 = before.1.max(last)
                }
                _ => joined.push((first, last)),
            }
        }
        Self(joined)
    }

    pub(super) fn union(&self, other: &Self) -> Self {
        Self::of([&*self.0, &*other.0].concat())
    }

    pub(super) fn has(&self, index: i32) -> bool {
        let at = self.0.partition_point(|it| it.1 < index);
        self.0.get(at).is_some_and(|it| it.0 <= index)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> i64 {
        self.0.iter().map(|it| i64::from(it.1) - i64::from(it.0) + 1).sum()
    }

    /// How many are in both.
    pub(super) fn overlap(&self, other: &Self) -> i64 {
        self.len() + other.len() - self.union(other).len()
    }

    /// The first of `0..completions` that are not in it, at most `count`.
    pub(super) fn first_missing(&self, count: usize, completions: i32) -> Vec<i32> {
        let mut missing = Vec::new();
        let mut candidate = 0;
        let end = (completions, completions);
        for (first, last) in self.0.iter().chain([&end]) {
            let room = count - missing.len();
            missing.extend((candidate..(*first).min(completions)).take(room));
            candidate = candidate.max(last.saturating_add(1));
        }
        missing
    }
}

impl FromIterator<i32> for Indexes {
    fn from_iter<I: IntoIterator<Item = i32>>(indexes: I) -> Self {
        Self::of(indexes.into_iter().map(|it| (it, it)).collect())
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (first, last)) in self.0.iter().enumerate() {
            let comma = if position > 0 { "," } else { "" };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::Indexes;

    fn check(text: &str, completions: i32, expected: &str) {
        assert_eq!(Indexes::parse(text, completions).to_string(), expected);
    }

    #[test]
    fn ranges_are_compressed_and_what_is_out_of_range_is_left_out() {
        check("", 10, "");
        check("0,1,2,4,6,7", 10, "0-2,4,6,7");
        check("0-2,3-5", 10, "0-5");
        check("0-9,12-20", 5, "0-4");
        check("3,x,5-,-7,2-1", 10, "3");
        check("0-1000000000", 1_000_000_000, "0-999999999");
    }

    #[test]
    fn missing_indexes_are_found_without_looking_at_each() {
        let most = Indexes::parse("0-999999996,999999998", 1_000_000_000);
        assert_eq!(most.first_missing(5, 1_000_000_000), [999_999_997, 999_999_999]);
        assert_eq!(Indexes::default().first_missing(3, i32::MAX), [0, 1, 2]);
        assert_eq!(Indexes::parse("0-4", 5).first_missing(3, 5), [0_i32; 0]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_and_written_again(text in "[0-9,x-]{0,30}|.{0,20}", completions: i32) {
            let indexes = Indexes::parse(&text, completions);
            prop_assert_eq!(&Indexes::parse(&indexes.to_string(), completions), &indexes);
            prop_assert!(indexes.first_missing(5, completions).len() <= 5);
        }

        #[test]
        fn they_behave_as_sets(
            one in prop::collection::btree_set(0..30i32, 0..15),
            two in prop::collection::btree_set(0..30i32, 0..15),
            count in 0..10usize,
        ) {
            let (a, b): (Indexes, Indexes) =
                (one.iter().copied().collect(), two.iter().copied().collect());
            let both: BTreeSet<i32> = one.union(&two).copied().collect();
            let union = a.union(&b);
            prop_assert_eq!(&union, &both.iter().copied().collect::<Indexes>());
            prop_assert_eq!(union.len(), both.len() as i64);
            prop_assert_eq!(a.overlap(&b), one.intersection(&two).count() as i64);
            prop_assert!((0..30).all(|it| union.has(it) == both.contains(&it)));
            prop_assert_eq!(&Indexes::parse(&union.to_string(), 30), &union);
            let missing: Vec<i32> = (0..30).filter(|it| !both.contains(it)).take(count).collect();
            prop_assert_eq!(union.first_missing(count, 30), missing);
        }
    }
}
