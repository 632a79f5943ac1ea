//! When a finished Job has lived long enough. Pure.

use std::time::Duration;

use api::batch::job::{Job, conditions};
use jiff::{SignedDuration, Timestamp};

#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// It runs, has no end of its life, or is being deleted already.
    Keep,
    Wait(Duration),
    /// Due since then.
    Delete(Timestamp),
}

pub(super) fn plan(job: &Job, now: Timestamp) -> Verdict {
    let ttl = job.spec.as_ref().and_then(|it| it.ttl_seconds_after_finished);
    let (Some(ttl), Some(finished)) = (ttl, finished(job)) else { return Verdict::Keep };
    if job.metadata.deletion_timestamp.is_some() {
        return Verdict::Keep;
    }
    let due = finished.saturating_add(SignedDuration::from_secs(i64::from(ttl)));
    let due = due.unwrap_or(Timestamp::MAX);
    match Duration::try_from(due.duration_since(now)) {
        Ok(left) if !left.is_zero() => Verdict::Wait(left),
        _ => Verdict::Delete(due),
    }
}

fn finished(job: &Job) -> Option<Timestamp> {
    let all = job.status.as_ref()?.conditions.iter().flatten();
    let is_end = |kind: &str| matches!(kind, conditions::COMPLETE | conditions::FAILED);
    let mut ends = all.filter(|it| is_end(&it.type_) && it.status == "True");
    Some(ends.next()?.last_transition_time.as_ref()?.0)
}
