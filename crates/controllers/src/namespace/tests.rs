//! What was found in a namespace in, conditions out.

use std::collections::BTreeMap;

use api::core::namespace::Namespace;
use apimachinery::{GroupVersionResource, Scope};
use client::Discovered;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::NamespaceCondition;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use reconcile::testing::converges;
use serde_json::json;

use super::plan::{Found, Verdict, conditions, finalized, is_ending, other_holders, plan, steps};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + seconds).unwrap()
}

fn check(found: &Found, kind: &str, expected: &str) {
    let conditions = conditions(&[], found, at(0));
    assert_eq!(conditions.len(), 5);
    let it = conditions.iter().find(|it| it.type_ == kind).unwrap();
    let (reason, message) = (it.reason.as_deref().unwrap(), it.message.as_deref().unwrap());
    assert_eq!(format!("{} {reason}: {message}", it.status), expected);
}

#[test]
fn what_remains_is_said_by_resource_and_finalizer() {
    let found = Found {
        remaining: BTreeMap::from([("pods.".to_owned(), 2)]),
        finalizers: BTreeMap::from([("example.com/hold".to_owned(), 1)]),
        ..Found::default()
    };
    assert!(!found.is_empty());
    check(
        &found,
        "NamespaceContentRemaining",
        "True SomeResourcesRemain: Some resources are remaining: pods. has 2 resource instances",
    );
    check(
        &found,
        "NamespaceFinalizersRemaining",
        "True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances",
    );
    check(
        &found,
        "NamespaceDeletionDiscoveryFailure",
        "False ResourcesDiscovered: All resources successfully discovered",
    );
}

#[test]
fn who_else_holds_a_namespace_sees_that_it_is_empty() {
    assert_eq!(plan(&[], &Found::default(), &[], at(0)), None);
    let told = plan(&[], &Found::default(), &["example.com/hold".to_owned()], at(0)).unwrap();
    let types: Vec<String> = told.iter().map(|it| format!("{}={}", it.type_, it.status)).collect();
    assert_eq!(
        types,
        [
            "NamespaceDeletionDiscoveryFailure=False",
            "NamespaceDeletionGroupVersionParsingFailure=False",
            "NamespaceDeletionContentFailure=False",
            "NamespaceContentRemaining=False",
            "NamespaceFinalizersRemaining=False",
            "Waiting=True",
        ]
    );
    assert_eq!(
        told[5].message.as_deref().unwrap(),
        "all content is removed; waiting for the finalizers of the namespace itself: \
         example.com/hold"
    );
    assert_eq!(plan(&told, &Found::default(), &["example.com/hold".to_owned()], at(60)), None);
}

#[test]
fn planning_twice_on_the_same_state_changes_nothing() {
    let found = Found { discovery_failure: Some("no".to_owned()), ..Found::default() };
    let once = conditions(&[], &found, at(0));
    assert_eq!(conditions(&once, &found, at(60)), once);
    let cleared = conditions(&once, &Found::default(), at(60));
    assert_ne!(cleared, once);
}

#[test]
fn a_namespace_goes_when_nothing_is_left_and_failures_are_tried_again() {
    let check = |found: Found, expected: Verdict| assert_eq!(found.verdict(), expected);
    check(Found::default(), Verdict::LetGo);
    let remaining = BTreeMap::from([("pods.".to_owned(), 1)]);
    check(Found { remaining: remaining.clone(), ..Found::default() }, Verdict::Wait);
    let failures = vec!["a: no".to_owned(), "b: no".to_owned()];
    let failed = Found { remaining, content_failures: failures, ..Found::default() };
    check(failed, Verdict::Retry("a: no; b: no".to_owned()));
    let unknown = Found { discovery_failure: Some("down".to_owned()), ..Found::default() };
    check(unknown, Verdict::Retry("down".to_owned()));
}

#[test]
fn pods_come_first_and_only_what_can_be_deleted_in_a_namespace_comes_at_all() {
    let resource = |name: &str, scope, verbs: &[&str]| Discovered {
        resource: GroupVersionResource::new("", "v1", name),
        kind: name.to_owned(),
        scope,
        verbs: verbs.iter().map(|it| (*it).to_owned()).collect(),
    };
    let all = ["list", "delete"];
    let [first, then] = steps(vec![
        resource("secrets", Scope::Namespaced, &all),
        resource("bindings", Scope::Namespaced, &["create"]),
        resource("nodes", Scope::Cluster, &all),
        resource("pods", Scope::Namespaced, &all),
        resource("configmaps", Scope::Namespaced, &all),
    ]);
    let names = |it: Vec<Discovered>| -> Vec<String> {
        it.into_iter().map(|it| it.resource.resource).collect()
    };
    assert_eq!(
        (names(first), names(then)),
        (vec!["pods".to_owned()], vec!["configmaps".to_owned(), "secrets".to_owned()])
    );
}

#[test]
fn only_a_deleted_namespace_that_we_still_hold_is_worked_on() {
    let namespace = |meta: serde_json::Value, finalizers: &[&str]| -> Namespace {
        serde_json::from_value(json!({"metadata": meta, "spec": {"finalizers": finalizers}}))
            .unwrap()
    };
    let ending = json!({"name": "shop", "deletionTimestamp": "2026-01-01T00:00:00Z"});
    assert!(!is_ending(&namespace(json!({"name": "shop"}), &["kubernetes"])));
    assert!(!is_ending(&namespace(ending.clone(), &["example.com/hold"])));
    let held = namespace(ending, &["kubernetes", "example.com/hold"]);
    assert!(is_ending(&held));
    assert_eq!(other_holders(&held), ["example.com/hold"]);
    let own = namespace(json!({"finalizers": ["example.com/hold"]}), &[]);
    assert_eq!(other_holders(&own), ["example.com/hold"]);
    assert!(other_holders(&namespace(json!({"name": "shop"}), &["kubernetes"])).is_empty());
    assert_eq!(finalized(&held).spec.unwrap().finalizers.unwrap(), ["example.com/hold"]);
}

fn any_found() -> impl Strategy<Value = Found> {
    let counts = || btree_map("[a-c]", 1..4usize, 0..3);
    let failures = (proptest::option::of("[a-c]"), vec("[a-c]", 0..3));
    (failures, counts(), counts()).prop_map(|(failures, remaining, finalizers)| {
        let (discovery_failure, content_failures) = failures;
        Found { discovery_failure, content_failures, remaining, finalizers }
    })
}

/// One write says what was found; the minute that passes with it changes nothing more.
fn settle(stored: Vec<NamespaceCondition>, found: &Found) -> Vec<NamespaceCondition> {
    let rested = converges(
        |(stored, minutes): &(Vec<_>, i64)| {
            plan(stored, found, &[], at(60 * minutes)).into_iter().collect()
        },
        |(stored, minutes), written| (*stored, *minutes) = (written, *minutes + 1),
        (stored, 0),
        1,
    );
    rested.unwrap().0
}

proptest! {
    #[test]
    fn one_write_is_enough_for_whatever_is_found(found in vec(any_found(), 1..4)) {
        let told = found.iter().fold(Vec::new(), settle);
        let emptied = settle(told.clone(), &Found::default());
        prop_assert_eq!(told.is_empty(), emptied.is_empty());
        prop_assert!(emptied.iter().all(|it| it.status == "False"));
    }
}
