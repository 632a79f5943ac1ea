//! Secrets and accounts in, what they lack out.

use api::Resource as _;
use api::core::secret::TokenView;
use api::core::{Secret, ServiceAccount};
use proptest::prelude::*;
use reconcile::testing::converges;
use serde_json::{Value, json};

use super::plan::{Account, Action, Missing, missing, plan, refers, without};

/// "CA" in base64.
const CA: &str = "Q0E=";

fn token(has_token: bool, has_namespace: bool, ca: Option<&str>) -> TokenView {
    let ca = ca.map(Into::into);
    TokenView { has_token, has_namespace, ca, account: "robot".to_owned(), ..TokenView::default() }
}

fn robot() -> Account {
    Account { name: "robot".to_owned(), uid: "u".to_owned() }
}

#[test]
fn a_secret_goes_with_its_account() {
    assert_eq!(plan(&token(true, true, Some(CA)), None, "CA"), Action::Delete);
    assert_eq!(plan(&token(false, false, None), None, ""), Action::Delete);
}

#[test]
fn what_is_missing_or_was_taken_out_is_put_in() {
    let check = |token: TokenView, ca: &str, is_filled: bool| {
        let expected = if is_filled { Action::Fill(robot()) } else { Action::Nothing };
        assert_eq!(plan(&token, Some(&robot()), ca), expected, "{token:?}");
    };
    check(token(true, true, Some(CA)), "CA", false);
    check(token(false, true, Some(CA)), "CA", true);
    check(token(true, false, Some(CA)), "CA", true);
    check(token(true, true, None), "CA", true);
    check(token(true, true, Some("b3RoZXI=")), "CA", true);
    // Nobody said which authority.
    check(token(true, true, None), "", false);
}

fn secret(data: Value) -> Secret {
    Secret::decode(json!({"data": data}).to_string().as_bytes()).unwrap()
}

#[test]
fn a_token_that_is_there_stays() {
    let check = |data: Value, expected: (bool, bool, bool)| {
        let Missing { ca, namespace, token } = missing(&secret(data), "CA");
        assert_eq!((ca, namespace, token), expected);
    };
    check(json!({"token": "eA==", "namespace": "bnM=", "ca.crt": CA}), (false, false, false));
    check(json!({"token": "eA=="}), (true, true, false));
    check(json!({"token": "", "namespace": "", "ca.crt": ""}), (true, true, true));
}

#[test]
fn an_account_forgets_a_secret_that_is_gone_and_no_other() {
    let account = json!({"secrets": [{"name": "a"}, {"name": "b"}]});
    let account = ServiceAccount::decode(account.to_string().as_bytes()).unwrap();
    let left = without(&account, "a");
    assert!(!refers(&left, "a") && refers(&left, "b"));
}

proptest! {
    #[test]
    fn one_filling_is_enough(
        has_token: bool,
        has_namespace: bool,
        ca in prop::option::of("[A-Za-z]{0,4}"),
        root_ca in "(CA)?",
    ) {
        let view = token(has_token, has_namespace, ca.as_deref());
        let rested = converges(
            |it: &TokenView| match plan(it, Some(&robot()), &root_ca) {
                Action::Fill(account) => vec![account],
                Action::Nothing | Action::Delete => Vec::new(),
            },
            |it, _| {
                (it.has_token, it.has_namespace) = (true, true);
                if !root_ca.is_empty() {
                    it.ca = Some(CA.into());
                }
            },
            view,
            1,
        );
        prop_assert!(rested.is_ok());
    }
}
