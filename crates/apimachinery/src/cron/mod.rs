//! Schedules of CronJobs: what a text such as `*/5 9-17 * * mon-fri` means, and when it is next.
//! Accepts and refuses what the parser of upstream's controller does (robfig/cron v3), with its
//! texts. Pure: the present and the time zone are parameters.

mod duration;
mod field;
mod next;
mod parse;
#[cfg(test)]
mod tests;
mod zone;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use field::Field;

pub use parse::Error;
pub use zone::{Error as ZoneError, find as find_zone};

#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    rhythm: Rhythm,
    /// From `TZ=` or `CRON_TZ=` in front of the fields; it wins over the zone of the caller.
    zone: Option<TimeZone>,
}

#[derive(Clone, Debug, PartialEq)]
enum Rhythm {
    /// At the times of the clock on the wall that fit.
    Calendar(Calendar),
    /// So long after the last time. Whole seconds, at least one.
    Every(SignedDuration),
}

/// One set of values per field; seconds are always zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Calendar {
    minute: Field,
    hour: Field,
    day: Field,
    month: Field,
    weekday: Field,
}

impl Schedule {
    pub fn parse(text: &str) -> Result<Self, Error> {
        parse::parse(text)
    }

    /// The first time after `time`, by the clocks of `zone` unless the schedule names its own.
    ///
    /// What the clock skips (02:30 when summer begins) does not happen that day; what it shows twice
    /// happens twice. `None` if no time fits until the end of the fifth year from now.
    pub fn next_after(&self, time: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let second = Timestamp::from_second(time.as_second()).ok()?;
        match &self.rhythm {
            Rhythm::Every(interval) => second.checked_add(*interval).ok(),
            Rhythm::Calendar(calendar) => {
                next::first_after(calendar, second, self.zone.as_ref().unwrap_or(zone))
            }
        }
    }
}
