//! Requests in, refusals out.

use api::core::Pod;
use apimachinery::User;
use serde_json::json;

use super::AlwaysDeny;
use crate::attributes::Operation;
use crate::plugins::fixture::{Case, Objects, decode, pod};

#[test]
fn nothing_is_let_in() {
    let user = User::new("alice", &["system:masters"]);
    let object: Pod = decode(&pod(&json!({"containers": []})));
    for operation in [Operation::Create, Operation::Update, Operation::Delete] {
        let case = Case::of(operation, "/pods", &user);
        let refusal = case.run(AlwaysDeny, Objects::default(), (Some(&object), None)).unwrap_err();
        assert_eq!(
            refusal.message(),
            "pods \"web\" is forbidden: admission control is denying all modifications"
        );
    }
}
