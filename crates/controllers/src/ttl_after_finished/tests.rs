//! A Job and the time in, a verdict out.

use api::batch::job::Job;
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;

use super::plan::{Verdict, plan};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// `ttl condition@second`, `-` for none; `!` at the end when it is being deleted.
fn job(text: &str) -> Job {
    let (ttl, condition) = text.trim_end_matches('!').split_once(' ').unwrap();
    let conditions = match condition.split_once('@') {
        Some((type_, second)) => {
            let time = at(second.parse().unwrap()).to_string();
            json!([{"type": type_, "status": "True", "lastTransitionTime": time}])
        }
        None => json!([]),
    };
    let mut job = json!({
        "metadata": {"name": "pi"},
        "spec": {"template": {}, "ttlSecondsAfterFinished": ttl.parse::<i32>().ok()},
        "status": {"conditions": conditions},
    });
    if text.ends_with('!') {
        job["metadata"]["deletionTimestamp"] = json!(at(0).to_string());
    }
    serde_json::from_value(job).unwrap()
}

/// Looked at in second 100.
fn check(text: &str, expected: &str) {
    assert_eq!(format!("{:?}", plan(&job(text), at(100))), expected, "{text}");
}

#[test]
fn a_finished_job_goes_when_its_time_is_over() {
    check("10 Complete@95", "Wait(5s)");
    check("10 Failed@95", "Wait(5s)");
    check("10 Complete@90", "Delete(1970-01-01T00:01:40Z)");
    check("0 Complete@100", "Delete(1970-01-01T00:01:40Z)");
    check("2147483647 Complete@100", "Wait(2147483647s)");
}

#[test]
fn others_stay() {
    check("- Complete@0", "Keep");
    check("10 -", "Keep");
    check("10 Suspended@0", "Keep");
    check("10 FailureTarget@0", "Keep");
    check("10 Complete@0!", "Keep");
}

#[test]
fn a_job_that_finished_in_the_future_is_waited_for() {
    check("10 Complete@200", "Wait(110s)");
}

proptest! {
    #[test]
    fn a_job_goes_when_its_wait_is_over_and_not_before(
        ttl in 0..5000_i64, end in 0..5000_i64, now in 0..20_000_i64,
    ) {
        let job = job(&format!("{ttl} Complete@{end}"));
        let verdict = plan(&job, at(now));
        prop_assert_eq!(&verdict, &plan(&job, at(now)));
        match verdict {
            Verdict::Wait(left) => {
                prop_assert_eq!(now + i64::try_from(left.as_secs()).unwrap(), ttl + end);
                prop_assert_eq!(plan(&job, at(ttl + end)), Verdict::Delete(at(ttl + end)));
            }
            other => prop_assert_eq!((other, ttl + end <= now), (Verdict::Delete(at(ttl + end)), true)),
        }
    }
}
