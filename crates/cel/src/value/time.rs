//! Durations in nanoseconds and timestamps from year 1 to 9999, with the texts that Go gives them.

use std::fmt;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::error::Error;

const NANOSECONDS: i64 = 1_000_000_000;
const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
/// 0001-01-01T00:00:00Z, in seconds since 1970.
const SECONDS_MIN: i64 = -62_135_596_800;
/// 9999-12-31T23:59:59Z.
const SECONDS_MAX: i64 = 253_402_300_799;

/// A span of time, up to about 292 years.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration(i64);

impl Duration {
    pub const fn from_nanoseconds(n: i64) -> Self {
        Self(n)
    }

    pub const fn nanoseconds(self) -> i64 {
        self.0
    }

    /// As Go reads it: signed decimal numbers with units, `1h2.5s`.
    pub fn parse(text: &str) -> Option<Self> {
        let (is_negative, mut rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Some(Self(0));
        }
        if rest.is_empty() {
            return None;
        }
        let mut total: i128 = 0;
        while !rest.is_empty() {
            let (part, after) = parse_part(rest)?;
            total = total.checked_add(part)?;
            rest = after;
        }
        i64::try_from(if is_negative { -total } else { total }).ok().map(Self)
    }
}

/// One number with its unit, in nanoseconds, and what follows.
fn parse_part(text: &str) -> Option<(i128, &str)> {
    let n_whole = text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = text.split_at(n_whole);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count()),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let n_unit = rest.find(|it: char| it == '.' || it.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(n_unit);
    let unit: i128 = match unit {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut value = whole.checked_mul(unit)?;
    let mut scale = unit;
    for digit in fraction.bytes() {
        scale /= 10;
        value += i128::from(digit - b'0') * scale;
    }
    Some((value, rest))
}

impl fmt::Display for Duration {
    /// In seconds, as `string(duration)` has it: `5400s`, `0.5s`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let n = self.0.unsigned_abs();
        let (seconds, rest) = (n / NANOSECONDS.unsigned_abs(), n % NANOSECONDS.unsigned_abs());
        if rest == 0 {
            return write!(out, "{sign}{seconds}s");
        }
        let fraction = format!("{rest:09}");
        write!(out, "{sign}{seconds}.{}s", fraction.trim_end_matches('0'))
    }
}

/// A point in time. Not jiff's, which ends two days before the year 9999 does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Since 1970.
    seconds: i64,
    /// Of the second, less than a billion.
    nanoseconds: i64,
}

impl Timestamp {
    /// `None` outside the years 1 to 9999.
    fn new(nanoseconds: i128) -> Option<Self> {
        let unit = i128::from(NANOSECONDS);
        let seconds = i64::try_from(nanoseconds.div_euclid(unit)).ok()?;
        let rest = i64::try_from(nanoseconds.rem_euclid(unit)).ok()?;
        (SECONDS_MIN..=SECONDS_MAX)
            .contains(&seconds)
            .then_some(Self { seconds, nanoseconds: rest })
    }

    pub fn from_jiff(at: jiff::Timestamp) -> Option<Self> {
        Self::new(at.as_nanosecond())
    }

    pub fn from_seconds(seconds: i64) -> Option<Self> {
        Self::new(i128::from(seconds) * i128::from(NANOSECONDS))
    }

    /// RFC 3339, the zone included.
    pub fn parse(text: &str) -> Option<Self> {
        let (local, offset) = match text.strip_suffix('Z') {
            Some(local) => (local, 0),
            None => {
                let at = text.len().checked_sub(6)?;
                let (local, zone) = (text.get(..at)?, text.get(at..)?);
                (local, zone.starts_with(['+', '-']).then(|| offset(zone))??)
            }
        };
        let is_date_and_time = local.len() >= 19 && local.as_bytes().get(10) == Some(&b'T');
        let is_digits = local.bytes().all(|it| it.is_ascii_digit() || b"-:.T".contains(&it));
        if !is_date_and_time || !is_digits || local.ends_with('.') {
            return None;
        }
        let local: DateTime = local.parse().ok()?;
        let since = local.duration_since(EPOCH).as_nanos();
        Self::new(since - i128::from(offset) * i128::from(NANOSECONDS))
    }

    pub fn seconds(self) -> i64 {
        self.seconds
    }

    fn total(self) -> i128 {
        i128::from(self.seconds) * i128::from(NANOSECONDS) + i128::from(self.nanoseconds)
    }

    /// Go's zero time.
    pub(crate) fn is_unset(self) -> bool {
        self.seconds == SECONDS_MIN && self.nanoseconds == 0
    }

    pub(crate) fn add(self, span: Duration) -> Result<Self, Error> {
        Self::new(self.total() + i128::from(span.0)).ok_or(Error::TimestampOverflow)
    }

    pub(crate) fn since(self, other: Self) -> Result<Duration, Error> {
        let n = self.total() - other.total();
        i64::try_from(n).map(Duration).map_err(|_| Error::IntOverflow)
    }

    /// Date and time on the clocks of a zone: a name, or an offset such as `-08:00`.
    pub(crate) fn in_zone(self, zone: &str) -> Result<Local, Error> {
        let seconds = match offset(zone) {
            Some(seconds) => seconds,
            None if zone.is_empty() || zone == "UTC" => 0,
            None => {
                let unknown = |_| Error::refused(format!("unknown time zone {zone}"));
                let zone = TimeZone::get(zone).map_err(unknown)?;
                // What jiff cannot hold is so far away that the last known offset will do.
                let at = jiff::Timestamp::from_second(self.seconds).unwrap_or(jiff::Timestamp::MAX);
                zone.to_offset(at).seconds()
            }
        };
        self.local(seconds)
    }

    pub(crate) fn in_utc(self) -> Result<Local, Error> {
        self.local(0)
    }

    fn local(self, offset: i32) -> Result<Local, Error> {
        let seconds = self.seconds + i64::from(offset);
        let is_beyond = seconds > SECONDS_MAX;
        let seconds = if is_beyond { seconds - CYCLE_SECONDS } else { seconds };
        let nanoseconds = i32::try_from(self.nanoseconds).unwrap_or(0);
        let since = jiff::SignedDuration::new(seconds, nanoseconds);
        let at = EPOCH.checked_add(since).map_err(|_| Error::TimestampOverflow)?;
        let year = i64::from(at.year()) + if is_beyond { CYCLE_YEARS } else { 0 };
        Ok(Local { at, year })
    }
}

/// `[+-]hh:mm` in seconds.
fn offset(text: &str) -> Option<i32> {
    let (hours, minutes) = text.split_once(':')?;
    let sign = if hours.starts_with('-') { -1 } else { 1 };
    let hours: i32 = hours.trim_start_matches(['+', '-']).parse().ok()?;
    let minutes: i32 = minutes.parse().ok()?;
    (hours < 24 && (0..60).contains(&minutes)).then_some(sign * (hours * 3600 + minutes * 60))
}

/// After so long the calendar repeats, weekdays included.
const CYCLE_YEARS: i64 = 400;
const CYCLE_SECONDS: i64 = 146_097 * 86_400;

/// What the clocks of a zone show. East of Greenwich the last moments of the year 9999 are of
/// another year, which `DateTime` cannot hold: then all but its year is right.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Local {
    pub(crate) at: DateTime,
    pub(crate) year: i64,
}

impl fmt::Display for Timestamp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.in_utc().map_err(|_| fmt::Error)?.at;
        write!(out, "{:04}-{:02}-{:02}T", at.year(), at.month(), at.day())?;
        write!(out, "{:02}:{:02}:{:02}", at.hour(), at.minute(), at.second())?;
        if self.nanoseconds > 0 {
            let fraction = format!("{:09}", self.nanoseconds);
            write!(out, ".{}", fraction.trim_end_matches('0'))?;
        }
        out.write_str("Z")
    }
}
