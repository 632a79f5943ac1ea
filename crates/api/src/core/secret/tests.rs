//! Manifest in; problems and defaults out.

use crate::kind::Resource as _;
use serde_json::{Value, json};

use super::{Secret, SecretView};
use crate::kind::Part;
use crate::object::Stored;
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
fn of_a_token_is_kept_what_tells_whether_it_is_complete() {
    let view = |manifest: Value| {
        let secret = Secret::decode(manifest.to_string().as_bytes()).unwrap();
        let meta = crate::object::meta_of(&secret.metadata, Vec::new());
        Stored::new(meta, manifest.to_string().into()).view::<SecretView>().unwrap()
    };
    let opaque =
        view(json!({"metadata": {"name": "a"}, "type": "Opaque", "data": {"token": "eA=="}}));
    assert_eq!(opaque.token, None);
    let annotations = json!({
        "kubernetes.io/service-account.name": "robot", "kubernetes.io/service-account.uid": "u",
    });
    let token = view(json!({
        "metadata": {"name": "a", "annotations": annotations},
        "type": "kubernetes.io/service-account-token",
        "data": {"token": "eA==", "namespace": ""},
    }));
    let token = token.token.as_ref().expect("it is for a token");
    assert_eq!((token.account.as_str(), token.account_uid.as_str()), ("robot", "u"));
    assert_eq!((token.has_token, token.has_namespace, &token.ca), (true, false, &None));
}
