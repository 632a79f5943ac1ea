//! Manifest in; problems and defaults out.

use crate::kind::Resource as _;
use rcgen::{CertificateParams, KeyPair};
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
    check_update(
        &stored,
        json!({"immutable": true, "data": {"a": "eA==", "b": ""}}),
        Part::Main,
        &["data: Forbidden: field is immutable when `immutable` is set"],
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

#[test]
fn halves_of_a_key_pair_that_do_not_fit_are_told_of() {
    let warnings = |certificate: &str, key: &str| {
        let data = json!({"tls.crt": certificate, "tls.key": key});
        let manifest =
            json!({"metadata": {"name": "a"}, "type": "kubernetes.io/tls", "stringData": data});
        created::<Secret>(manifest).warnings()
    };
    let pair = || {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(Vec::new()).unwrap().self_signed(&key).unwrap();
        (certificate.pem(), key.serialize_pem())
    };
    let ((certificate, key), (_, other)) = (pair(), pair());
    let ed25519 = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap().serialize_pem();
    let block = |label: &str| format!("-----BEGIN {label}-----\nAAAA\n-----END {label}-----\n");
    assert_eq!(warnings(&certificate, &key), Vec::<String>::new());
    for (certificate, key, expected) in [
        ("", "", "tls: failed to find any PEM data in certificate input"),
        (
            &*key,
            &*certificate,
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched",
        ),
        (
            &block("X"),
            "",
            "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: [X]",
        ),
        (&certificate, "", "tls: failed to find any PEM data in key input"),
        (
            &certificate,
            &certificate,
            "tls: found a certificate rather than a key in the PEM for the private key",
        ),
        (
            &certificate,
            &block("X"),
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the following types: [X]",
        ),
        (&block("CERTIFICATE"), &key, "x509: malformed certificate"),
        (&certificate, &block("PRIVATE KEY"), "tls: failed to parse private key"),
        (&certificate, &ed25519, "tls: private key type does not match public key type"),
        (&certificate, &other, "tls: private key does not match public key"),
    ] {
        assert_eq!(warnings(certificate, key), [expected]);
    }
    let opaque =
        created::<Secret>(json!({"metadata": {"name": "a"}, "stringData": {"tls.crt": "x"}}));
    assert_eq!(opaque.warnings(), Vec::<String>::new());
}
