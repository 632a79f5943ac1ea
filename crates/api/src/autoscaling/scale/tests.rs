//! Manifest in; problems out.

use serde_json::json;

use super::Scale;
use crate::testing::check;

#[test]
fn replicas_are_not_negative() {
    check::<Scale>(
        json!({"spec": {"replicas": -1}}),
        &["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
    );
}
