//! Manifest in; problems, defaults or cells out.

use serde_json::{Value, json};

use super::ResourcePoolStatusRequest;
use crate::kind::Part;
use crate::testing::{check, check_created, check_row, check_update, created, defaulted};

fn request(spec: Value) -> Value {
    json!({"metadata": {"name": "r"}, "spec": spec})
}

fn answered(status: Value) -> Value {
    let mut manifest = request(json!({"driver": "d"}));
    manifest["status"] = status;
    manifest
}

#[test]
fn it_asks_for_pools_of_a_driver_up_to_a_limit() {
    let manifest = request(json!({"driver": "d"}));
    check_created::<ResourcePoolStatusRequest>(manifest, "/spec/limit", json!(100));
    check::<ResourcePoolStatusRequest>(request(json!({"driver": "GPU.example.com"})), &[]);
    check::<ResourcePoolStatusRequest>(
        request(json!({"driver": "", "poolName": "a//b", "limit": 0})),
        &[
            "spec.driver: Required value",
            "spec.poolName: Invalid value: \"a//b\": segment 1: must not be empty",
            "spec.limit: Invalid value: 0: must be greater than or equal to 1",
        ],
    );
    check::<ResourcePoolStatusRequest>(
        request(json!({"driver": "d", "limit": 1001})),
        &["spec.limit: Invalid value: 1001: must be less than or equal to 1000"],
    );
}

#[test]
fn neither_question_nor_answer_changes() {
    let stored = created::<ResourcePoolStatusRequest>(request(json!({"driver": "d"})));
    assert_eq!(stored.status, None);
    check_update(
        &stored,
        request(json!({"driver": "e"})),
        Part::Main,
        &["spec: Invalid value: null: field is immutable"],
    );
    check_update(&stored, answered(json!({"poolCount": 0})), Part::Status, &[]);
    let stored = defaulted::<ResourcePoolStatusRequest>(answered(json!({"poolCount": 0})));
    check_update(
        &stored,
        answered(json!({"poolCount": 1})),
        Part::Status,
        &["status: Invalid value: {\"poolCount\":1}: field is immutable"],
    );
}

#[test]
fn counts_of_an_answer_are_not_negative() {
    let stored = created::<ResourcePoolStatusRequest>(request(json!({"driver": "d"})));
    check_update(
        &stored,
        answered(json!({"poolCount": -1, "pools": [{
            "driver": "d", "poolName": "", "generation": 0, "resourceSliceCount": 0,
            "totalDevices": -1, "validationError": "x".repeat(257),
        }]})),
        Part::Status,
        &[
            "status.poolCount: Invalid value: -1: must be greater than or equal to 0",
            "status.pools[0].poolName: Required value",
            "status.pools[0].resourceSliceCount: Invalid value: 0: must be greater than or equal to 1",
            "status.pools[0].totalDevices: Invalid value: -1: must be greater than or equal to 0",
            "status.pools[0].generation: Required value",
            "status.pools[0].validationError: Too long: may not be more than 256 bytes",
        ],
    );
}

#[test]
fn columns_sum_up_the_pools() {
    let now = "2024-01-02T03:05:05Z";
    check_row::<ResourcePoolStatusRequest>(
        request(json!({"driver": "d"})),
        now,
        json!(["r", "d", "-", "-", "-", "-", "-", 0, "Pending", "<none>"]),
    );
    let condition = |kind: &str| {
        json!([{
            "type": kind, "status": "True", "reason": "R", "message": "",
            "lastTransitionTime": "2024-01-02T03:04:05Z",
        }])
    };
    let pools = json!([
        {"driver": "d", "poolName": "a", "generation": 1, "totalDevices": 2, "availableDevices": 1},
        {"driver": "d", "poolName": "b", "generation": 1, "totalDevices": 3, "validationError": "x"},
    ]);
    check_row::<ResourcePoolStatusRequest>(
        answered(json!({"poolCount": 5, "pools": pools, "conditions": condition("Complete")})),
        now,
        json!(["r", "d", "5", "1", "0", "0", "1", 5, "Complete (2/5 pools)", "60s"]),
    );
    check_row::<ResourcePoolStatusRequest>(
        answered(json!({"poolCount": 2, "pools": pools, "conditions": condition("Failed")})),
        now,
        json!(["r", "d", "-", "-", "-", "-", "-", 2, "Failed", "<none>"]),
    );
}
