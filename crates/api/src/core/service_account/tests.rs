//! Manifest in; objects out.

use serde_json::json;

use super::ServiceAccount;
use crate::testing::check_created;

#[test]
fn of_secrets_only_the_names_are_kept() {
    let secrets = json!([{"name": "a", "namespace": "b"}, {"namespace": "c"}]);
    let manifest = json!({"metadata": {"name": "a"}, "secrets": secrets});
    check_created::<ServiceAccount>(manifest, "/secrets", json!([{"name": "a"}, {}]));
}
