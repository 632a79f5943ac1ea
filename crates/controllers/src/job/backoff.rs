//! How long the next pod waits after pods that failed: 10 seconds, doubled with each failure in a
//! row, at most 10 minutes, from when the last one failed. Pure.

use std::sync::Arc;
use std::time::Duration;

use api::core::pod::PodView;
use jiff::{SignedDuration, Timestamp};

use crate::pods;

const FIRST: Duration = Duration::from_secs(10);
const LAST: Duration = Duration::from_secs(600);

/// Failures since the last success. Kept in memory alone: a restart forgets it, which costs a few
/// pods that are made too soon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    failures: u32,
    last: Option<Timestamp>,
}

impl Record {
    /// With what ended since.
    pub(super) fn with(self, succeeded: &[Arc<PodView>], failed: &[Arc<PodView>]) -> Self {
        let ends =
            |pods: &[Arc<PodView>]| -> Vec<Timestamp> { pods.iter().map(|it| ended(it)).collect() };
        let last_success = ends(succeeded).into_iter().max();
        let mut failures = ends(failed);
        failures.retain(|it| last_success.is_none_or(|success| *it > success));
        let before = if last_success.is_some() { Self::default() } else { self };
        Self {
            failures: before
                .failures
                .saturating_add(u32::try_from(failures.len()).unwrap_or(u32::MAX)),
            last: failures.into_iter().max().or(before.last),
        }
    }

    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// What is left to wait.
    pub(super) fn left(&self, now: Timestamp) -> Duration {
        self.last.map_or(Duration::ZERO, |it| left(self.failures, it, now))
    }
}

/// What is left to wait after so many failures in a row.
pub(super) fn left(failures: u32, last: Timestamp, now: Timestamp) -> Duration {
    if failures == 0 {
        return Duration::ZERO;
    }
    // 10 s * 2^6 is already above the maximum.
    let delay = FIRST.saturating_mul(1 << (failures - 1).min(6)).min(LAST);
    pods::remaining(last, delay, now)
}

/// When a pod ended, as well as can be told.
pub(super) fn ended(pod: &PodView) -> Timestamp {
    let said = pod.job.as_ref().and_then(|it| it.ended);
    let deleted = || {
        let deletion = pod.deletion.as_ref()?;
        Some(deletion.deadline - SignedDuration::from_secs(deletion.grace_seconds))
    };
    said.or_else(deleted).or(pod.created).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::core::pod::{JobPart, PodView};
    use jiff::Timestamp;

    use super::{Record, left};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn ended(seconds: &[i64]) -> Vec<Arc<PodView>> {
        let pod = |second: &i64| {
            let job = Some(Box::new(JobPart { ended: Some(at(*second)), ..JobPart::default() }));
            Arc::new(PodView { job, ..PodView::default() })
        };
        seconds.iter().map(pod).collect()
    }

    #[test]
    fn the_wait_doubles_from_10_seconds_to_10_minutes() {
        let waits = [0, 1, 2, 3, 6, 7, 8, u32::MAX].map(|it| left(it, at(100), at(100)).as_secs());
        assert_eq!(waits, [0, 10, 20, 40, 320, 600, 600, 600]);
        assert_eq!(left(1, at(100), at(104)).as_secs(), 6);
        assert_eq!(left(1, at(100), at(200)).as_secs(), 0);
    }

    #[test]
    fn a_success_ends_the_row_and_failures_after_it_begin_a_new_one() {
        let check = |record: Record, failures, last: Option<i64>| {
            assert_eq!(record, Record { failures, last: last.map(at) });
        };
        let failed = Record::default().with(&[], &ended(&[5, 3]));
        check(failed, 2, Some(5));
        check(failed.with(&[], &[]), 2, Some(5));
        check(failed.with(&[], &ended(&[9])), 3, Some(9));
        check(failed.with(&ended(&[8]), &[]), 0, None);
        check(failed.with(&ended(&[8]), &ended(&[7, 9])), 1, Some(9));
    }
}
