//! Manifest in; problems and defaults out.

use crate::kind::Resource as _;
use serde_json::json;

use super::Secret;
use crate::kind::Part;
use crate::testing::{check, check_created, check_update, created};

#[test]
fn texts_become_bytes_and_win() {
    let manifest = json!({"data": {"a": "eA==", "b": "eQ=="}, "stringData": {"a": "z"}});
    check_created::<Secret>(manifest.clone(), "/data", json!({"a": "eg==", "b": "eQ=="}));
    check_created::<Secret>(manifest.clone(), "/stringData", json!(null));
    check_created::<Secret>(manifest, "/type", json!("Opaque"));
}

#[test]
fn a_type_needs_its_keys() {
    check::<Secret>(
        json!({"type": "kubernetes.io/tls", "data": {"tls.crt": ""}}),
        &["data[tls.key]: Required value"],
    );
    check::<Secret>(
        json!({"type": "kubernetes.io/service-account-token"}),
        &["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
    );
}

#[test]
fn type_and_immutable_secrets_never_change() {
    let stored = created::<Secret>(json!({"immutable": true, "data": {"a": "eA=="}}));
    check_update(
        &stored,
        json!({"type": "x", "data": {"a": "eQ=="}}),
        Part::Main,
        &[
            "type: Invalid value: \"x\": field is immutable",
            "immutable: Forbidden: field is immutable when `immutable` is set",
            "data: Forbidden: field is immutable when `immutable` is set",
        ],
    );
}

#[test]
fn a_legacy_token_that_never_comes_is_warned_of() {
    let of = |kind: &str| created::<Secret>(json!({"type": kind})).warnings();
    assert_eq!(
        of("kubernetes.io/service-account-token"),
        ["type: this server puts no token into such Secrets; use `kubectl create token`"]
    );
    assert_eq!(of("Opaque"), Vec::<String>::new());
}
