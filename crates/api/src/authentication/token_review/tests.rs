//! Manifest in; object and problems out.

use serde_json::{Value, json};

use super::TokenReview;
use crate::testing::{check, check_created};

#[test]
fn any_question_is_taken_without_the_answer_that_came_with_it() {
    for spec in [json!({}), json!({"token": "t"}), json!({"token": "t", "audiences": ["a", "b"]})] {
        let manifest = json!({
            "spec": spec,
            "status": {"authenticated": true, "user": {"username": "system:admin"}},
        });
        check::<TokenReview>(manifest.clone(), &[]);
        check_created::<TokenReview>(manifest.clone(), "/status/authenticated", Value::Null);
        check_created::<TokenReview>(manifest, "/status/user/username", Value::Null);
    }
}

#[test]
fn what_it_asks_stays_as_it_was() {
    let manifest = json!({"spec": {"token": " t ", "audiences": ["b", "a", "b"]}});
    check_created::<TokenReview>(manifest.clone(), "/spec/token", json!(" t "));
    check_created::<TokenReview>(manifest, "/spec/audiences", json!(["b", "a", "b"]));
}
