//! Manifest in; problems out.

use serde_json::json;

use super::SubjectAccessReview;
use crate::testing::check;

#[test]
fn a_review_asks_one_thing_about_somebody() {
    check::<SubjectAccessReview>(json!({"spec": {"user": "a", "resourceAttributes": {}}}), &[]);
    check::<SubjectAccessReview>(
        json!({"spec": {}}),
        &[
            "spec: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
            "spec.user: Invalid value: \"\": at least one of user or group must be specified",
        ],
    );
}
