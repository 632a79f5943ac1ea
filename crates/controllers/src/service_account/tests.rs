//! A namespace and its account in, the account to create out.

use api::core::namespace::Namespace;
use api::core::service_account::ServiceAccount;
use api::object::key_of;
use proptest::prelude::*;
use reconcile::testing::converges;
use serde_json::json;

use super::plan::plan;

/// `active`, `ending`, or anything else for a namespace that is gone.
fn namespace(state: &str) -> Option<Namespace> {
    let meta = match state {
        "active" => json!({"name": "shop"}),
        "ending" => json!({"name": "shop", "deletionTimestamp": "2026-01-01T00:00:00Z"}),
        _ => return None,
    };
    Some(serde_json::from_value(json!({"metadata": meta})).unwrap())
}

fn check(state: &str, has_account: bool, expected: Option<&str>) {
    let stored = has_account.then(ServiceAccount::default);
    let planned = plan(namespace(state).as_ref(), stored.as_ref());
    assert_eq!(planned.map(|it| key_of(&it.metadata).to_string()).as_deref(), expected);
}

#[test]
fn only_an_active_namespace_without_the_account_gets_one() {
    check("active", false, Some("shop/default"));
    check("active", true, None);
    check("ending", false, None);
    check("gone", false, None);
}

proptest! {
    #[test]
    fn one_creation_is_enough(
        state in prop_oneof![Just("active"), Just("ending"), Just("gone")],
        has_account: bool,
    ) {
        let namespace = namespace(state);
        let rested = converges(
            |stored: &Option<ServiceAccount>| {
                plan(namespace.as_ref(), stored.as_ref()).into_iter().collect()
            },
            |stored, created| *stored = Some(created),
            has_account.then(ServiceAccount::default),
            1,
        );
        prop_assert_eq!(rested.unwrap().is_some(), has_account || state == "active");
    }
}
