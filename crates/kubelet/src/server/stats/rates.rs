//! CPU per second, from two readings of one counter. Bounded by what runs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// Between the two readings of whoever is asked for the first time.
pub(super) const FIRST_WINDOW: Duration = Duration::from_secs(1);
/// A reading is the start of the next window once it is so old: who asks often does not make the
/// windows shorter.
const WINDOW_MIN: SignedDuration = SignedDuration::from_secs(10);
/// Before that, what was used says nothing of now.
const WINDOW_MAX: SignedDuration = SignedDuration::from_secs(2 * 60);
/// Shorter ones are more noise than usage.
const WINDOW_LEAST: SignedDuration = SignedDuration::from_millis(500);

/// Whose counter it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Of {
    Node,
    Pod(String),
    Container(String),
}

/// Per second, and over how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    pub(super) nano_cores: u64,
    pub(super) window: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Point {
    at: Timestamp,
    cpu: Duration,
}

#[derive(Default)]
pub(super) struct Rates(BTreeMap<Of, Points>);

/// `before` is older than `last`, if it is there.
struct Points {
    last: Point,
    before: Option<Point>,
}

impl Rates {
    /// Notes a reading, and says what the ones before make of it.
    pub(super) fn read(&mut self, of: Of, at: Timestamp, cpu: Duration) -> Option<Rate> {
        let point = Point { at, cpu };
        let Some(points) = self.0.get_mut(&of) else {
            self.0.insert(of, Points { last: point, before: None });
            return None;
        };
        // A counter that went back is another's, and so is a clock.
        if cpu < points.last.cpu || at < points.last.at {
            *points = Points { last: point, before: None };
            return None;
        }
        let rate = |from: &Point| rate(from, &point);
        let found = points.before.as_ref().and_then(rate);
        let found = rate(&points.last).filter(is_long).or(found);
        let found = found.or_else(|| rate(&points.last));
        if at.duration_since(points.last.at) >= WINDOW_MIN {
            *points = Points { last: point, before: Some(points.last) };
        }
        found
    }

    pub(super) fn keep(&mut self, running: &BTreeSet<Of>) {
        self.0.retain(|of, _| running.contains(of));
    }
}

fn is_long(rate: &Rate) -> bool {
    SignedDuration::try_from(rate.window).is_ok_and(|it| it >= WINDOW_MIN)
}

fn rate(from: &Point, to: &Point) -> Option<Rate> {
    let window = to.at.duration_since(from.at);
    if window < WINDOW_LEAST || window > WINDOW_MAX {
        return None;
    }
    let window = Duration::try_from(window).ok()?;
    let used = to.cpu.checked_sub(from.cpu)?;
    let nano_cores = used.as_nanos().saturating_mul(1_000_000_000) / window.as_nanos().max(1);
    Some(Rate { nano_cores: u64::try_from(nano_cores).unwrap_or(u64::MAX), window })
}
