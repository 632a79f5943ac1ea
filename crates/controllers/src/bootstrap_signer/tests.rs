//! Tokens and what there is in, what there should be out.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Meta;
use api::core::secret::{BootstrapTokenView, SecretView};
use apimachinery::ObjectKey;
use jiff::Timestamp;
use proptest::prelude::*;
use reconcile::testing::converges;

use super::plan::{plan, signature, tokens};

#[test]
fn a_signature_is_as_others_make_it() {
    // Made with another program.
    let expected =
        "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9..3ZR7IfHD4V0NLYjj9trDyCFIZSwMzkyMpnxx9vCiSPI";
    assert_eq!(signature("kind: Config\n", "abcdef", "0123456789abcdef"), expected);
}

fn secret(name: &str, id: &str, signs: &str, expiration: &str) -> Arc<SecretView> {
    let token = BootstrapTokenView {
        id: id.to_owned(),
        secret: "0123456789abcdef".to_owned(),
        expiration: expiration.to_owned(),
        usage_signing: signs.to_owned(),
    };
    let meta = Arc::new(Meta { key: ObjectKey::new("kube-system", name), ..Meta::default() });
    Arc::new(SecretView { meta, bootstrap: Some(Box::new(token)), ..SecretView::default() })
}

#[test]
fn only_tokens_that_say_so_and_are_good_sign() {
    let secrets = [
        secret("bootstrap-token-aaaaaa", "aaaaaa", "true", ""),
        secret("bootstrap-token-bbbbbb", "bbbbbb", "true", "2026-01-01T00:00:09Z"),
        secret("bootstrap-token-cccccc", "cccccc", "true", "2026-01-01T00:00:00Z"),
        secret("bootstrap-token-dddddd", "dddddd", "yes", ""),
        secret("bootstrap-token-eeeeee", "ffffff", "true", ""),
        secret("bootstrap-token-EEEEEE", "EEEEEE", "true", ""),
        secret("gggggg", "gggggg", "true", ""),
    ];
    let (tokens, next) = tokens(&secrets, Timestamp::from_second(1_767_225_600).unwrap());
    assert_eq!(tokens.keys().copied().collect::<Vec<_>>(), ["aaaaaa", "bbbbbb"]);
    assert_eq!(next.unwrap().as_secs(), 9);
}

/// Keys of the data before, tokens, keys of the data that is written.
fn check(before: &[&str], tokens: &[&str], expected: Option<&[&str]>) {
    let of = |key: &&str| {
        let id = key.strip_prefix("jws-kubeconfig-");
        let value = id.map_or_else(|| "x".to_owned(), |id| signature("x", id, "s"));
        ((*key).to_owned(), value)
    };
    let before: BTreeMap<String, String> = before.iter().map(of).collect();
    let tokens: BTreeMap<&str, &str> = tokens.iter().map(|it| (*it, "s")).collect();
    let planned = plan(Some(&before), &tokens);
    let keys = planned.as_ref().map(|it| it.keys().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(keys.as_deref(), expected, "{before:?}");
    if let Some(planned) = planned {
        assert_eq!(plan(Some(&planned), &tokens), None, "it comes to rest");
    }
}

#[test]
fn signatures_come_and_go_with_their_tokens() {
    check(&["kubeconfig"], &[], None);
    check(&["kubeconfig", "more"], &["a"], Some(&["jws-kubeconfig-a", "kubeconfig", "more"]));
    check(&["kubeconfig", "jws-kubeconfig-a"], &["a"], None);
    check(&["kubeconfig", "jws-kubeconfig-a"], &[], Some(&["kubeconfig"]));
    check(&["more"], &["a"], None);
    assert_eq!(plan(None, &BTreeMap::new()), None);
}

proptest! {
    #[test]
    fn one_write_is_enough_and_leaves_the_rest_alone(
        before in prop::collection::btree_map("kubeconfig|more|jws-kubeconfig-[ab]", "[xy]", 0..5),
        tokens in prop::collection::btree_map("[abc]", "[st]", 0..4),
    ) {
        let tokens: BTreeMap<&str, &str> =
            tokens.iter().map(|(id, secret)| (id.as_str(), secret.as_str())).collect();
        let rested = converges(
            |data: &BTreeMap<String, String>| plan(Some(data), &tokens).into_iter().collect(),
            |data, written| *data = written,
            before.clone(),
            1,
        );
        let rested = rested.unwrap();
        let others = |data: &BTreeMap<String, String>| {
            let mut data = data.clone();
            data.retain(|key, _| !key.starts_with("jws-kubeconfig-"));
            data
        };
        prop_assert_eq!(others(&rested), others(&before));
        if let Some(kubeconfig) = before.get("kubeconfig") {
            for (id, secret) in tokens {
                let signed = &rested[&format!("jws-kubeconfig-{id}")];
                prop_assert_eq!(signed, &signature(kubeconfig, id, secret));
            }
        }
    }
}
