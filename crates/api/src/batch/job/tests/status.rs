//! Status before and after in; problems out.

use serde_json::{Value, json};

use super::{Job, indexed, job};
use crate::kind::Part;
use crate::testing::{check_update, created};

const START: &str = "2026-01-01T00:00:00Z";
const END: &str = "2026-01-01T00:05:00Z";

fn check_of(manifest: Value, old: Value, new: Value, expected: &[&str]) {
    let mut stored = created::<Job>(manifest.clone());
    stored.status = Some(serde_json::from_value(old).unwrap());
    let mut written = manifest;
    written["status"] = new;
    check_update(&stored, written, Part::Status, expected);
}

fn check(old: Value, new: Value, expected: &[&str]) {
    check_of(job(json!({})), old, new, expected);
}

/// Conditions that are true.
fn are(types: &[&str]) -> Value {
    types.iter().map(|it| json!({"type": it, "status": "True"})).collect()
}

fn complete(extra: Value) -> Value {
    let mut status = json!({
        "conditions": are(&["SuccessCriteriaMet", "Complete"]),
        "startTime": START, "completionTime": END, "succeeded": 1,
    });
    status.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    status
}

#[test]
fn counts_are_not_negative_and_ready_pods_are_active() {
    let refused = |field: &str| {
        format!("status.{field}: Invalid value: -1: must be greater than or equal to 0")
    };
    check(
        json!({}),
        json!({"active": -1, "succeeded": -1, "failed": -1, "ready": -1, "terminating": -1}),
        &[
            &refused("active"),
            &refused("succeeded"),
            &refused("failed"),
            &refused("ready"),
            &refused("terminating"),
            "status.failed: Invalid value: -1: cannot decrease the failed counter",
            "status.succeeded: Invalid value: -1: cannot decrease the succeeded counter",
        ],
    );
    let more = "status.ready: Invalid value: 2: cannot set more ready pods than active";
    check(json!({}), json!({"active": 1, "ready": 2}), &[more]);
    // What was so before does not stand in the way.
    check(json!({"active": 1, "ready": 2}), json!({"active": 1, "ready": 2, "failed": 1}), &[]);
}

#[test]
fn a_pod_waits_to_be_counted_once() {
    check(
        json!({}),
        json!({"uncountedTerminatedPods": {"succeeded": ["a", "", "a"], "failed": ["b", "a"]}}),
        &[
            "status.uncountedTerminatedPods.succeeded[1]: Invalid value: \"\": must not be empty",
            "status.uncountedTerminatedPods.succeeded[2]: Duplicate value: \"a\"",
            "status.uncountedTerminatedPods.failed[1]: Duplicate value: \"a\"",
        ],
    );
}

#[test]
fn a_job_ends_in_one_way() {
    check(json!({}), complete(json!({})), &[]);
    check(
        json!({}),
        json!({"conditions": are(&["FailureTarget", "Failed"]), "startTime": START}),
        &[],
    );
    let both = are(&["SuccessCriteriaMet", "Complete", "FailureTarget", "Failed"]);
    check(
        json!({}),
        complete(json!({"conditions": both})),
        &[
            "status.conditions: Invalid value: cannot set Complete=True and Failed=true conditions",
            "status.conditions: Invalid value: cannot set Complete=True and FailureTarget=true conditions",
            "status.conditions: Invalid value: cannot set SuccessCriteriaMet=True and Failed=true conditions",
            "status.conditions: Invalid value: cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
        ],
    );
}

#[test]
fn an_end_is_announced() {
    check(
        json!({}),
        json!({"conditions": are(&["Failed"]), "startTime": START}),
        &[
            "status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition",
        ],
    );
    check(
        json!({}),
        complete(json!({"conditions": are(&["Complete"])})),
        &[
            "status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
        ],
    );
    let policy = json!({"successPolicy": {"rules": [{"succeededCount": 1}]}});
    let old = complete(json!({"conditions": are(&["Complete"])}));
    check_of(
        indexed(policy),
        old.clone(),
        old,
        &[
            "status.conditions: Invalid value: cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True",
        ],
    );
}

#[test]
fn an_end_is_for_good() {
    let target = are(&["FailureTarget"]);
    check(
        complete(json!({})),
        json!({"startTime": START, "succeeded": 1}),
        &[
            "status.conditions: Invalid value: cannot disable the terminal Complete=True condition",
            "status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition",
        ],
    );
    check(
        json!({"conditions": target}),
        json!({}),
        &[
            "status.conditions: Invalid value: cannot disable the terminal FailureTarget=True condition",
        ],
    );
    let old = complete(json!({"conditions": are(&["Complete"])}));
    check(
        old,
        complete(json!({})),
        &[
            "status.conditions: Invalid value: cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions",
        ],
    );
}

#[test]
fn nothing_is_left_to_do_at_the_end() {
    let left = json!({
        "active": 1, "terminating": 2, "startTime": null,
        "uncountedTerminatedPods": {"failed": ["a"]},
    });
    let expected = [
        "status.active: Invalid value: 1: active>0 is invalid for finished job",
        "status.startTime: Required value: startTime is required for finished job",
        "status.uncountedTerminatedPods: Invalid value: {\"failed\":[\"a\"]}: must be empty for finished job",
        "status.terminating: Invalid value: 2: terminating>0 is invalid for finished job",
    ];
    check(json!({}), complete(left.clone()), &expected);
    let wrong = complete(left);
    check(wrong.clone(), wrong, &[]);
    // One with nothing to do never starts.
    let idle = job(json!({"suspend": true, "completions": 0}));
    check_of(idle, json!({}), complete(json!({"startTime": null})), &[]);
}

#[test]
fn times_are_set_once_and_in_order() {
    let time = |field: &str, value: &str, detail: &str| {
        format!("status.{field}: Invalid value: \"{value}\": {detail}")
    };
    check(
        json!({}),
        json!({"startTime": START, "completionTime": END}),
        &[&time(
            "completionTime",
            END,
            "cannot set completionTime when there is no Complete=True condition",
        )],
    );
    check(
        json!({}),
        complete(json!({"completionTime": null})),
        &["status.completionTime: Required value: completionTime is required for Complete jobs"],
    );
    check(
        json!({}),
        complete(json!({"startTime": END, "completionTime": START})),
        &[&time("completionTime", START, "must be equal to or after `startTime`")],
    );
    let later = "2026-01-01T00:06:00Z";
    check(
        complete(json!({})),
        complete(json!({"completionTime": later})),
        &[&time("completionTime", later, "field is immutable")],
    );
    check(
        json!({"startTime": START}),
        json!({"startTime": END}),
        &[&time("startTime", END, "field is immutable for unsuspended job once set")],
    );
}

#[test]
fn a_job_that_was_suspended_starts_again() {
    let suspended = job(json!({"suspend": true}));
    check_of(suspended, json!({"startTime": START}), json!({}), &[]);
    let resumed = json!({
        "startTime": END, "conditions": [{"type": "Suspended", "status": "False"}],
    });
    check(json!({"startTime": START, "conditions": are(&["Suspended"])}), resumed, &[]);
}

#[test]
fn counters_do_not_go_back_but_with_the_completions() {
    check(
        json!({"failed": 2, "succeeded": 2}),
        json!({"failed": 1, "succeeded": 1}),
        &[
            "status.failed: Invalid value: 1: cannot decrease the failed counter",
            "status.succeeded: Invalid value: 1: cannot decrease the succeeded counter",
        ],
    );
    let elastic = indexed(json!({"parallelism": 5}));
    check_of(elastic, json!({"succeeded": 2}), json!({"succeeded": 1}), &[]);
}

#[test]
fn indexes_are_those_of_the_job() {
    let limited = || indexed(json!({"backoffLimitPerIndex": 1}));
    check_of(
        limited(),
        json!({}),
        json!({"completedIndexes": "0,2", "failedIndexes": "1,3-4"}),
        &[],
    );
    check_of(
        limited(),
        json!({}),
        json!({"completedIndexes": "0-9", "failedIndexes": "1,1"}),
        &[
            "status.completedIndexes: Invalid value: \"0-9\": error parsing completedIndexes: too large index: \"9\"",
            "status.failedIndexes: Invalid value: \"1,1\": error parsing failedIndexes: non-increasing order, previous: 1, current: 1",
        ],
    );
    check_of(
        limited(),
        json!({}),
        json!({"completedIndexes": "0-2", "failedIndexes": "2-4"}),
        &[
            "status.failedIndexes: Invalid value: \"2-4\": failedIndexes and completedIndexes overlap at index: 2",
        ],
    );
    check(
        json!({}),
        json!({"completedIndexes": "0", "failedIndexes": ""}),
        &[
            "status.completedIndexes: Invalid value: \"0\": cannot set non-empty completedIndexes when non-indexed completion mode",
            "status.failedIndexes: Invalid value: \"\": cannot set non-null failedIndexes when backoffLimitPerIndex is null",
        ],
    );
    // Scaling down leaves indexes behind until the controller has looked.
    let stale = json!({"completedIndexes": "0-9"});
    check_of(limited(), stale.clone(), stale, &[]);
}
