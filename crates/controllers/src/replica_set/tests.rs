//! A status in, the fields of a ReplicaSet out, and back.

use api::apps::replica_set::ReplicaSet;
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
    let written = ReplicaSet::default().with_status(status, at(0)).status;
    let expected = json!({"replicas": 0, "terminatingReplicas": 0, "observedGeneration": 3});
    assert_eq!(json!(written), expected);
}

#[test]
fn a_failure_is_a_condition_that_goes_with_it_and_foreign_ones_stay() {
    let foreign = json!({"type": "Mine", "status": "True"});
    let stored: ReplicaSet = serde_json::from_value(
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
fn what_is_not_said_has_upstreams_default() {
    let spec =
        json!({"selector": {"matchLabels": {"app": "web"}}, "replicas": 3, "minReadySeconds": 5});
    let set: ReplicaSet = serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
    assert_eq!((set.replicas(), set.min_ready_seconds()), (3, 5));
    assert_eq!(ReplicaSet::default().replicas(), 1);
    let labels = [("app".to_owned(), "web".to_owned())].into();
    assert!(set.pod_selector().unwrap().matches(&labels));
}

proptest! {
    #[test]
    fn what_is_written_is_what_is_read(counts in prop::array::uniform5(0..5i32), generation in 1..5i64, has_failed: bool) {
        let [replicas, fully_labeled, ready, available, terminating] = counts;
        let status = Status {
            replicas, fully_labeled, ready, available, terminating,
            observed_generation: generation,
            failure: has_failed.then(failure),
        };
        prop_assert_eq!(ReplicaSet::default().with_status(status.clone(), at(0)).status(), status);
    }
}
