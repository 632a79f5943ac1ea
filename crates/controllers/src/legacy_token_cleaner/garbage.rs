//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use std::time::Duration;

use super::plan::{Candidate, Limits, plan};
use crate::garbage::{Draw, now};

const DAYS: &[&str] =
    &["2025-01-01", "2026-01-01", "9999-12-31", "-000001-01-01", "2026-13-01", ""];

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    let period = Duration::from_secs(u64::from(draw.byte()) * 86_400);
    let Some(limits) = Limits::new(draw.of(DAYS), period, now()) else { return 0 };
    let day = |draw: &mut Draw<'_>| draw.flag().then(|| draw.of(DAYS));
    let candidate = Candidate {
        created: draw.flag().then(|| draw.time()),
        is_automatic: draw.flag(),
        is_deleting: draw.flag(),
        last_used: day(draw),
        invalid_since: day(draw),
    };
    plan(&candidate, &limits);
    1
}
