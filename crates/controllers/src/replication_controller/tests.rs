//! A status in, the fields of a ReplicationController out, and back.

use api::core::replication_controller::ReplicationController;
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;

use crate::replicas::{Failure, ReplicaOwner as _, Status};
use crate::workload::Workload as _;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + seconds).unwrap()
}

fn failure() -> Failure {
    Failure { reason: "FailedCreate".to_owned(), message: "exceeded quota".to_owned() }
}

#[test]
fn zero_is_left_out_where_upstream_leaves_it_out() {
    let status = Status { replicas: 0, observed_generation: 3, ..Status::default() };
    let written = ReplicationController::default().with_status(status, at(0)).status;
    let expected = json!({"replicas": 0, "observedGeneration": 3});
    assert_eq!(json!(written), expected);
}

#[test]
fn a_failure_is_a_condition_that_goes_with_it_and_foreign_ones_stay() {
    let foreign = json!({"type": "Mine", "status": "True"});
    let stored: ReplicationController = serde_json::from_value(
        json!({"metadata": {}, "status": {"replicas": 1, "conditions": [foreign]}}),
    )
    .unwrap();
    let failed =
        stored.with_status(Status { failure: Some(failure()), ..Status::default() }, at(0));
    let conditions = json!(failed.status.as_ref().unwrap().conditions);
    assert_eq!(conditions[0], foreign);
    assert_eq!(conditions[1]["type"], "ReplicaFailure");
    assert_eq!(conditions[1]["reason"], "FailedCreate");
    let well = failed.with_status(Status::default(), at(1));
    assert_eq!(json!(well.status.unwrap().conditions), json!([foreign]));
}

#[test]
fn an_empty_selector_takes_nothing() {
    let selecting = |selector: serde_json::Value| -> ReplicationController {
        serde_json::from_value(json!({"metadata": {}, "spec": {"selector": selector}})).unwrap()
    };
    let labels = [("app".to_owned(), "web".to_owned())].into();
    let matches = |it: &ReplicationController| it.pod_selector().unwrap().matches(&labels);
    assert!(matches(&selecting(json!({"app": "web"}))));
    assert!(!matches(&selecting(json!({}))));
    assert!(!matches(&ReplicationController::default()));
}

proptest! {
    #[test]
    fn what_is_written_is_what_is_read(counts in prop::array::uniform4(0..5i32), generation in 1..5i64, has_failed: bool) {
        let [replicas, fully_labeled, ready, available] = counts;
        let status = Status {
            replicas, fully_labeled, ready, available,
            // This kind has no such field.
            terminating: 0,
            observed_generation: generation,
            failure: has_failed.then(failure),
        };
        prop_assert_eq!(ReplicationController::default().with_status(status.clone(), at(0)).status(), status);
    }
}
