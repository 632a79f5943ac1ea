//! Manifest in; problems out.

use serde_json::{Value, json};

use super::Lease;
use crate::kind::Part;
use crate::testing::{check, check_created, check_update, created, defaulted};

fn lease(spec: Value) -> Value {
    json!({"metadata": {"name": "a"}, "spec": spec})
}

#[test]
fn durations_and_counts_are_positive() {
    check::<Lease>(lease(json!({"leaseDurationSeconds": 1, "leaseTransitions": 0})), &[]);
    check::<Lease>(
        lease(json!({"leaseDurationSeconds": 0, "leaseTransitions": -1})),
        &[
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
            "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
        ],
    );
}

#[test]
fn what_an_election_by_the_server_needs_is_dropped_unless_it_is_there() {
    let coordinated = lease(json!({"strategy": "Loudest", "preferredHolder": "a"}));
    check_created::<Lease>(coordinated.clone(), "/spec", json!({}));
    check_update(&created::<Lease>(lease(json!({}))), coordinated, Part::Main, &[]);
}

#[test]
fn who_is_preferred_is_said_with_how_to_pick() {
    let known = "OldestEmulationVersion";
    let stored = defaulted::<Lease>(lease(json!({"strategy": known, "preferredHolder": "a"})));
    let check = |spec: Value, expected: &[&str]| {
        check_update(&stored, lease(spec), Part::Main, expected);
    };
    check(json!({"strategy": known, "preferredHolder": "a"}), &[]);
    check(json!({"strategy": "example.org/mine"}), &[]);
    check(
        json!({"preferredHolder": "a"}),
        &["spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined"],
    );
    check(
        json!({"strategy": "Loudest"}),
        &[
            "spec.strategy.strategy: Unsupported value: \"Loudest\": supported values: \"OldestEmulationVersion\"",
        ],
    );
}
