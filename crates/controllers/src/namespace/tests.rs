//! What was found in a namespace in, conditions out.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::plan::{Found, conditions};

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
fn planning_twice_on_the_same_state_changes_nothing() {
    let found = Found { discovery_failure: Some("no".to_owned()), ..Found::default() };
    let once = conditions(&[], &found, at(0));
    assert_eq!(conditions(&once, &found, at(60)), once);
    let cleared = conditions(&once, &Found::default(), at(60));
    assert_ne!(cleared, once);
}
