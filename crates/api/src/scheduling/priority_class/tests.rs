//! Manifest in; problems, defaults or cells out.

use serde_json::json;

use super::{PriorityClass, of_system};
use crate::kind::{Part, Resource};
use crate::testing::{check, check_created, check_row, check_update, created};

#[test]
fn pods_of_a_class_may_preempt_unless_it_says_otherwise() {
    check_created::<PriorityClass>(json!({}), "/value", json!(0));
    check_created::<PriorityClass>(
        json!({"value": 7}),
        "/preemptionPolicy",
        json!("PreemptLowerPriority"),
    );
    check_created::<PriorityClass>(
        json!({"value": 7, "preemptionPolicy": "Never"}),
        "/preemptionPolicy",
        json!("Never"),
    );
}

#[test]
fn users_have_an_upper_bound() {
    check::<PriorityClass>(json!({"metadata": {"name": "high"}, "value": 1_000_000_000}), &[]);
    check::<PriorityClass>(json!({"metadata": {"name": "low"}, "value": -2_000_000_000}), &[]);
    check::<PriorityClass>(
        json!({"metadata": {"name": "high"}, "value": 1_000_000_001}),
        &["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
    );
}

#[test]
fn names_of_the_system_are_for_its_own_classes() {
    let refused = |why: &str| {
        format!(
            "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: {why}"
        )
    };
    let node = "system-node-critical";
    check::<PriorityClass>(json!({"metadata": {"name": node}, "value": 2_000_001_000}), &[]);
    check::<PriorityClass>(
        json!({"metadata": {"name": node}, "value": 1}),
        &[&refused("value of system-node-critical PriorityClass must be 2000001000")],
    );
    check::<PriorityClass>(
        json!({"metadata": {"name": node}, "value": 2_000_001_000, "globalDefault": true}),
        &[&refused("globalDefault of system-node-critical PriorityClass must be false")],
    );
    check::<PriorityClass>(
        json!({"metadata": {"name": "system-mine"}, "value": 1}),
        &[&refused("system-mine is not a known system priority class")],
    );
}

#[test]
fn a_policy_is_one_of_two() {
    check::<PriorityClass>(
        json!({"value": 1, "preemptionPolicy": "Always"}),
        &[
            "preemptionPolicy: Unsupported value: \"Always\": supported values: \"PreemptLowerPriority\", \"Never\"",
        ],
    );
    check::<PriorityClass>(
        json!({"value": 1, "preemptionPolicy": ""}),
        &["preemptionPolicy: Required value"],
    );
}

#[test]
fn what_pods_were_given_by_does_not_change() {
    let stored = created::<PriorityClass>(json!({"metadata": {"name": "a"}, "value": 1}));
    let changed = json!({"metadata": {"name": "a"}, "value": 2, "preemptionPolicy": "Never"});
    check_update(
        &stored,
        changed,
        Part::Main,
        &[
            "value: Forbidden: may not be changed in an update.",
            "preemptionPolicy: Invalid value: \"Never\": field is immutable",
        ],
    );
    let other = json!({"metadata": {"name": "a"}, "value": 1, "globalDefault": true});
    check_update(&stored, other, Part::Main, &[]);
    // It has a generation, and that stays 1.
    const { assert!(PriorityClass::FACTS.has_generation) };
    assert!(!stored.is_new_generation(&PriorityClass { value: Some(2), ..stored.clone() }));
}

#[test]
fn the_classes_of_the_system_are_right() {
    for class in of_system() {
        let mut errors = apimachinery::FieldErrors::new();
        class.validate_create(&mut errors);
        assert_eq!(errors.iter().count(), 0, "{class:?}");
        assert_eq!(class.preemption_policy.as_deref(), Some("PreemptLowerPriority"));
    }
    assert_eq!(of_system().count(), 2);
}

#[test]
fn columns_show_the_value() {
    check_row::<PriorityClass>(
        json!({
            "metadata": {"name": "high", "creationTimestamp": "2024-01-02T03:04:05Z"},
            "value": 1000,
            "globalDefault": true,
        }),
        "2024-01-02T03:05:05Z",
        json!(["high", 1000, true, "60s", "PreemptLowerPriority"]),
    );
}
