//! A Secret and the time in, a verdict out.

use std::sync::Arc;

use api::Meta;
use api::core::secret::{BootstrapTokenView, SecretView};
use apimachinery::ObjectKey;
use jiff::Timestamp;

use super::plan::plan;

/// Looked at in 2026-01-01T00:00:00Z.
fn check(namespace: &str, expiration: &str, expected: &str) {
    let key = ObjectKey::new(namespace, "bootstrap-token-abcdef");
    let token = BootstrapTokenView { expiration: expiration.to_owned(), ..Default::default() };
    let meta = Arc::new(Meta { key, ..Meta::default() });
    let secret = SecretView { meta, bootstrap: Some(Box::new(token)), ..SecretView::default() };
    let now = Timestamp::from_second(1_767_225_600).unwrap();
    assert_eq!(format!("{:?}", plan(&secret, now)), expected, "{namespace} {expiration}");
}

#[test]
fn a_token_goes_when_it_has_ended() {
    check("kube-system", "", "Keep");
    check("kube-system", "2026-01-01T00:00:01Z", "Wait(1s)");
    check("kube-system", "2026-01-01T02:00:30+02:00", "Wait(30s)");
    check("kube-system", "2026-01-01T00:00:00Z", "Delete");
    check("kube-system", "1999-01-01T00:00:00Z", "Delete");
    // Nobody knows when it ends: it has.
    check("kube-system", "soon", "Delete");
}

#[test]
fn secrets_elsewhere_are_no_tokens() {
    check("default", "1999-01-01T00:00:00Z", "Keep");
}
