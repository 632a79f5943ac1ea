//! Manifest in; problems out.

use serde_json::{Value, json};

use super::Lease;
use crate::testing::check;

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
fn who_is_preferred_is_said_with_how_to_pick() {
    let known = "OldestEmulationVersion";
    check::<Lease>(lease(json!({"strategy": known, "preferredHolder": "a"})), &[]);
    check::<Lease>(lease(json!({"strategy": "example.org/mine"})), &[]);
    check::<Lease>(
        lease(json!({"preferredHolder": "a"})),
        &["spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined"],
    );
    check::<Lease>(
        lease(json!({"strategy": "Loudest"})),
        &[
            "spec.strategy.strategy: Unsupported value: \"Loudest\": supported values: \"OldestEmulationVersion\"",
        ],
    );
}
