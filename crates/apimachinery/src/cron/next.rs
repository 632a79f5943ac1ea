//! The next time that fits the clock on the wall.
//!
//! Goes from an instant that does not fit to the first one where the field that is wrong can be
//! another: by the calendar for months and days, in real time for hours and minutes, since there a
//! clock may jump. Hence nothing is missed where it is put forward or back. Upstream's controller
//! loses its way on days without a midnight (Cairo, when summer begins); here such a day is like any other.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

use super::Calendar;

const YEARS_MAX: i16 = 5;
const SECOND: SignedDuration = SignedDuration::from_secs(1);

pub(super) fn first_after(
    calendar: &Calendar,
    second: Timestamp,
    zone: &TimeZone,
) -> Option<Timestamp> {
    if calendar.is_never() {
        return None;
    }
    let mut time = second.checked_add(SECOND).ok()?;
    let year_max = zone.to_datetime(time).year().checked_add(YEARS_MAX)?;
    loop {
        let clock = zone.to_datetime(time);
        if clock.year() > year_max {
            return None;
        }
        let later = if !calendar.month.has(clock.month()) {
            midnight(clock.date().last_of_month().tomorrow().ok()?, zone)?
        } else if !calendar.has_day(clock.date()) {
            midnight(clock.date().tomorrow().ok()?, zone)?
        } else if !calendar.hour.has(clock.hour()) {
            in_real_time(time, seconds_to_hour(clock), zone)?
        } else if !calendar.minute.has(clock.minute()) || clock.second() != 0 {
            in_real_time(time, 60 - i64::from(clock.second()), zone)?
        } else {
            return Some(time);
        };
        // A clock that is put back over midnight shows the same midnight again.
        time = later.max(time.checked_add(SECOND).ok()?);
    }
}

impl Calendar {
    /// Some field has no values.
    fn is_never(&self) -> bool {
        [self.minute, self.hour, self.day, self.month, self.weekday].iter().any(|it| it.is_empty())
    }

    /// If both kinds of days are given, one is enough.
    fn has_day(&self, date: Date) -> bool {
        let has_day = self.day.has(date.day());
        let has_weekday = self.weekday.has(date.weekday().to_sunday_zero_offset());
        if self.day.is_any || self.weekday.is_any {
            has_day && has_weekday
        } else {
            has_day || has_weekday
        }
    }
}

/// The first instant of a day, whatever the clock then shows.
fn midnight(date: Date, zone: &TimeZone) -> Option<Timestamp> {
    date.to_zoned(zone.clone()).ok()?.start_of_day().ok().map(|it| it.timestamp())
}

fn seconds_to_hour(clock: DateTime) -> i64 {
    3600 - i64::from(clock.minute()) * 60 - i64::from(clock.second())
}

/// So much later, or when the clock jumps, if that is before.
fn in_real_time(time: Timestamp, seconds: i64, zone: &TimeZone) -> Option<Timestamp> {
    let later = time.checked_add(seconds.seconds()).ok()?;
    let jump = zone.following(time).next().map(|it| it.timestamp());
    Some(jump.map_or(later, |it| it.min(later)))
}
