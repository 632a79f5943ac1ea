//! Manifest in; object and problems out.

use serde_json::{Value, json};

use super::SelfSubjectReview;
use crate::testing::{check, check_created};

#[test]
fn nobody_says_themselves_who_they_are() {
    let manifest = json!({
        "metadata": {"name": "ignored"},
        "status": {"userInfo": {"username": "system:admin", "groups": ["system:masters"]}},
    });
    check::<SelfSubjectReview>(json!({}), &[]);
    check::<SelfSubjectReview>(manifest.clone(), &[]);
    for pointer in ["/status/userInfo/username", "/status/userInfo/groups"] {
        check_created::<SelfSubjectReview>(manifest.clone(), pointer, Value::Null);
    }
}
