//! Which time of a schedule is due, and when to look again. Pure.
//!
//! Only the last of the times that were missed counts. Where it is looked for is an estimate by the
//! first interval, as upstream's: a schedule whose intervals differ much may lose a start after a
//! long rest.

use std::time::Duration;

use apimachinery::cron::Schedule;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// Clocks of machines differ a little: looked at so much later.
const SLACK: SignedDuration = SignedDuration::from_millis(100);
/// More missed starts than this are told of.
const MANY: i64 = 100;
/// Times that are tried between the estimate and now. Two intervals of a schedule have fewer.
const STEPS_MAX: usize = 200_000;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("time difference between two schedules is less than 1 second")]
pub(super) struct NoTime;

pub(super) struct Rhythm<'a> {
    pub schedule: &'a Schedule,
    pub zone: &'a TimeZone,
    /// The last time that was started; before the first, when the CronJob was made.
    pub since: Timestamp,
    pub now: Timestamp,
}

/// The last time that is due.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub time: Option<Timestamp>,
    pub n_missed: i64,
}

impl Due {
    pub(super) fn has_missed_many(&self) -> bool {
        self.n_missed > MANY
    }
}

impl Rhythm<'_> {
    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.schedule.next_after(after, self.zone)
    }

    /// The last time after `since` that is not in the future.
    fn due_since(&self, since: Timestamp) -> Result<Due, NoTime> {
        let first = self.next(since).ok_or(NoTime)?;
        if self.now < first {
            return Ok(Due { time: None, n_missed: 0 });
        }
        let second = self.next(first).ok_or(NoTime)?;
        if self.now < second {
            return Ok(Due { time: Some(first), n_missed: 0 });
        }
        let interval = second.duration_since(first).as_secs();
        if interval < 1 {
            return Err(NoTime);
        }
        let n_missed = self.now.duration_since(first).as_secs() / interval + 1;
        let ahead = SignedDuration::from_secs((n_missed - 2).saturating_mul(interval));
        let from = first.saturating_add(ahead).unwrap_or(first);
        let times = std::iter::successors(self.next(from), |it| self.next(*it));
        let time = times.take_while(|it| *it <= self.now).take(STEPS_MAX).last();
        Ok(Due { time, n_missed })
    }

    /// What is older than the deadline is not looked for.
    pub(super) fn due(&self, deadline: Option<i64>) -> Result<Due, NoTime> {
        let earliest =
            deadline.and_then(|it| self.now.saturating_sub(SignedDuration::from_secs(it)).ok());
        self.due_since(earliest.map_or(self.since, |it| it.max(self.since)))
    }

    /// What is due, and older than the deadline.
    pub(super) fn missed(&self, deadline: Option<i64>) -> Option<Timestamp> {
        let in_time = self.due(Some(deadline?)).ok()?.time;
        self.due_since(self.since).ok()?.time.filter(|_| in_time.is_none())
    }

    /// The next time that is not due yet.
    pub(super) fn coming(&self) -> Option<Timestamp> {
        let last = match self.due_since(self.since) {
            Ok(Due { time: Some(time), .. }) => time,
            Ok(Due { time: None, n_missed: 0 }) => self.since,
            Ok(Due { time: None, .. }) | Err(NoTime) => self.now,
        };
        self.next(last)
    }

    /// How long until the next time.
    pub(super) fn wait(&self) -> Option<Duration> {
        let next = self.coming()?.saturating_add(SLACK).ok()?;
        Some(Duration::try_from(next.duration_since(self.now)).unwrap_or(Duration::ZERO))
    }
}
