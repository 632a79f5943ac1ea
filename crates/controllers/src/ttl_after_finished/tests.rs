//! A Job and the time in, a verdict out.

use api::batch::job::Job;
use jiff::Timestamp;
use serde_json::json;

use super::plan::plan;

/// `ttl condition@second`, `-` for none; `!` at the end when it is being deleted. Looked at in
/// second 100.
fn check(text: &str, expected: &str) {
    let at = |second: i64| Timestamp::from_second(second).unwrap();
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
    let job: Job = serde_json::from_value(job).unwrap();
    assert_eq!(format!("{:?}", plan(&job, at(100))), expected, "{text}");
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
