//! A namespace and its config map in, the write that publishes the authority out.

use api::core::config_map::ConfigMap;
use api::core::namespace::Namespace;
use api::object::key_of;
use proptest::collection::btree_map;
use proptest::option;
use proptest::prelude::*;
use reconcile::testing::converges;
use serde_json::{Value, json};

use super::plan::{Action, plan};

/// `active`, `ending`, or anything else for a namespace that is gone.
fn namespace(state: &str) -> Option<Namespace> {
    let meta = match state {
        "active" => json!({"name": "shop"}),
        "ending" => json!({"name": "shop", "deletionTimestamp": "2026-01-01T00:00:00Z"}),
        _ => return None,
    };
    Some(serde_json::from_value(json!({"metadata": meta})).unwrap())
}

fn config_map(data: Value) -> ConfigMap {
    let meta = json!({"name": "kube-root-ca.crt", "namespace": "shop", "labels": {"a": "b"}});
    serde_json::from_value(json!({"metadata": meta, "data": data})).unwrap()
}

fn render(action: Action) -> String {
    let (verb, written) = match action {
        Action::Create(it) => ("create", it),
        Action::Update(it) => ("update", it),
    };
    format!("{verb} {} {}", key_of(&written.metadata), json!(written.data))
}

fn check(state: &str, stored: Option<ConfigMap>, expected: &str) {
    let planned = plan(namespace(state).as_ref(), stored.as_ref(), "CA");
    assert_eq!(planned.map(render).unwrap_or_default(), expected);
}

#[test]
fn only_an_active_namespace_gets_the_authority() {
    check("active", None, r#"create shop/kube-root-ca.crt {"ca.crt":"CA"}"#);
    check("ending", None, "");
    check("gone", None, "");
}

#[test]
fn what_others_wrote_is_put_right() {
    let updated = r#"update shop/kube-root-ca.crt {"ca.crt":"CA"}"#;
    check("active", Some(config_map(json!({"ca.crt": "old"}))), updated);
    check("active", Some(config_map(json!({"ca.crt": "CA", "more": ""}))), updated);
    check("ending", Some(config_map(json!({"ca.crt": "old"}))), "");
}

proptest! {
    #[test]
    fn one_write_is_enough(
        state in prop_oneof![Just("active"), Just("ending"), Just("gone")],
        data in option::of(btree_map("ca.crt|more", "CA|old", 0..3)),
    ) {
        let (namespace, stored) = (namespace(state), data.map(|it| config_map(json!(it))));
        let rested = converges(
            |stored: &Option<ConfigMap>| {
                plan(namespace.as_ref(), stored.as_ref(), "CA").into_iter().collect()
            },
            |stored, (Action::Create(written) | Action::Update(written))| *stored = Some(written),
            stored.clone(),
            1,
        );
        let rested = rested.unwrap();
        if state == "active" {
            prop_assert_eq!(json!(rested.unwrap().data), json!({"ca.crt": "CA"}));
        } else {
            prop_assert_eq!(rested, stored);
        }
    }
}
