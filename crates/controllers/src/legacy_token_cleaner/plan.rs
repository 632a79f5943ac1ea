//! What becomes of a token that nobody uses. Pure.

use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

pub(super) const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
pub(super) const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// From when on a token counts as new, or as used.
#[derive(Debug)]
pub(super) struct Limits {
    oldest: Timestamp,
    oldest_day: Date,
    today: Date,
}

pub(super) struct Candidate<'a> {
    pub created: Option<Timestamp>,
    /// Made for an account that refers to it: others are their maker's.
    pub is_automatic: bool,
    pub is_deleting: bool,
    pub last_used: Option<&'a str>,
    pub invalid_since: Option<&'a str>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    /// Since this day.
    Invalidate(String),
    Delete,
}

fn day_of(time: Timestamp) -> Date {
    time.to_zoned(TimeZone::UTC).date()
}

/// `2026-01-31`, and no other form.
fn parse_day(text: &str) -> Option<Date> {
    let date: Date = text.parse().ok()?;
    (date.to_string() == text).then_some(date)
}

impl Limits {
    /// `None` while uses are not tracked for a whole period: `since` is the day on which that
    /// began, of which a part may be missing.
    pub(super) fn new(since: &str, period: Duration, now: Timestamp) -> Option<Self> {
        let tracked = parse_day(since)?.tomorrow().ok()?;
        let tracked = tracked.to_zoned(TimeZone::UTC).ok()?.timestamp();
        let period = SignedDuration::try_from(period).ok()?;
        let oldest = now.checked_sub(period).ok()?;
        (oldest >= tracked).then(|| Self { oldest, oldest_day: day_of(oldest), today: day_of(now) })
    }
}

pub(super) fn plan(candidate: &Candidate<'_>, limits: &Limits) -> Action {
    let is_old = candidate.created.is_some_and(|it| it < limits.oldest);
    if !candidate.is_automatic || candidate.is_deleting || !is_old {
        return Action::Nothing;
    }
    // One without a day was not used since uses are tracked; one with another text tells nothing.
    if let Some(text) = candidate.last_used
        && parse_day(text).is_none_or(|it| it >= limits.oldest_day)
    {
        return Action::Nothing;
    }
    match candidate.invalid_since.and_then(parse_day) {
        None => Action::Invalidate(limits.today.to_string()),
        Some(day) if day >= limits.oldest_day => Action::Nothing,
        Some(_) => Action::Delete,
    }
}
