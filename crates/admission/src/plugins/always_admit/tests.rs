//! Requests in, the same objects out.

use api::core::Pod;
use apimachinery::User;
use serde_json::json;

use super::AlwaysAdmit;
use crate::attributes::Operation;
use crate::plugins::fixture::{Case, Objects, decode, pod};

#[test]
fn everything_is_let_in_as_it_is() {
    let user = User::new("nobody", &[]);
    let object: Pod = decode(&pod(&json!({"containers": []})));
    for operation in [Operation::Create, Operation::Update, Operation::Delete] {
        let case = Case::of(operation, "/pods", &user);
        let admitted = case.run(AlwaysAdmit, Objects::default(), (Some(&object), None));
        assert!(admitted.is_ok(), "{operation:?}");
    }
}
