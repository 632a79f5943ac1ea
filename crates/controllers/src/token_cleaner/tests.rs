//! A Secret and the time in, a verdict out.

use std::sync::Arc;

use api::Meta;
use api::core::secret::{BootstrapTokenView, SecretView};
use apimachinery::ObjectKey;
use jiff::Timestamp;
use proptest::prelude::*;

use super::plan::{Verdict, plan};

fn secret(namespace: &str, expiration: &str) -> SecretView {
    let key = ObjectKey::new(namespace, "bootstrap-token-abcdef");
    let token = BootstrapTokenView { expiration: expiration.to_owned(), ..Default::default() };
    let meta = Arc::new(Meta { key, ..Meta::default() });
    SecretView { meta, bootstrap: Some(Box::new(token)), ..SecretView::default() }
}

/// Looked at in 2026-01-01T00:00:00Z.
fn check(namespace: &str, expiration: &str, expected: &str) {
    let (secret, now) = (secret(namespace, expiration), Timestamp::from_second(1_767_225_600));
    let verdict = plan(&secret, now.unwrap());
    assert_eq!(format!("{verdict:?}"), expected, "{namespace} {expiration}");
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

proptest! {
    #[test]
    fn a_token_goes_when_its_wait_is_over_and_not_before(end in 0..5000_i64, now in 0..5000_i64) {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let token = secret("kube-system", &at(end).to_string());
        let verdict = plan(&token, at(now));
        prop_assert_eq!(&verdict, &plan(&token, at(now)));
        if let Verdict::Wait(left) = verdict {
            prop_assert_eq!(now + i64::try_from(left.as_secs()).unwrap(), end);
            prop_assert_eq!(plan(&token, at(end)), Verdict::Delete);
        } else {
            prop_assert_eq!((verdict, end <= now), (Verdict::Delete, true));
        }
    }
}
