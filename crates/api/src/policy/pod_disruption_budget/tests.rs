//! Manifest in; problems or cells out.

use serde_json::json;

use super::PodDisruptionBudget;
use crate::kind::{Part, Resource};
use crate::testing::{check, check_created, check_row, check_update, created};

#[test]
fn a_budget_says_how_many_stay_or_how_many_go() {
    check::<PodDisruptionBudget>(json!({"spec": {"minAvailable": 1}}), &[]);
    check::<PodDisruptionBudget>(json!({"spec": {"maxUnavailable": "50%"}}), &[]);
    check::<PodDisruptionBudget>(json!({"spec": {}}), &[]);
    check::<PodDisruptionBudget>(
        json!({"spec": {"minAvailable": 1, "maxUnavailable": 1}}),
        &[
            "spec: Invalid value: {\"maxUnavailable\":1,\"minAvailable\":1}: minAvailable and maxUnavailable cannot be both set",
        ],
    );
}

#[test]
fn a_bound_is_a_count_or_up_to_all_of_them() {
    check::<PodDisruptionBudget>(
        json!({"spec": {"minAvailable": -1}}),
        &["spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"],
    );
    check::<PodDisruptionBudget>(json!({"spec": {"minAvailable": "100%"}}), &[]);
    check::<PodDisruptionBudget>(
        json!({"spec": {"maxUnavailable": "101%"}}),
        &["spec.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%"],
    );
    let regex = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
    check::<PodDisruptionBudget>(
        json!({"spec": {"minAvailable": "half"}}),
        &[&format!("spec.minAvailable: Invalid value: \"half\": {regex}")],
    );
}

#[test]
fn selector_and_policy_have_their_forms() {
    check::<PodDisruptionBudget>(
        json!({"spec": {
            "selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]},
            "unhealthyPodEvictionPolicy": "Never",
        }}),
        &[
            "spec.selector.matchExpressions[0].operator: Invalid value: \"Near\": not a valid selector operator",
            "spec.unhealthyPodEvictionPolicy: Unsupported value: \"Never\": supported values: \"AlwaysAllow\", \"IfHealthyBudget\"",
        ],
    );
}

#[test]
fn the_status_is_the_controllers() {
    let status = json!({
        "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2,
    });
    let manifest = json!({"spec": {"minAvailable": 1}, "status": status});
    check_created::<PodDisruptionBudget>(manifest.clone(), "/status/expectedPods", json!(0));

    let stored = created::<PodDisruptionBudget>(json!({"spec": {"minAvailable": 1}}));
    let mut written = PodDisruptionBudget::decode(manifest.to_string().as_bytes()).unwrap();
    written.prepare_update(&stored, Part::Main);
    assert_eq!(written.status, stored.status);
    assert!(!written.is_new_generation(&stored));

    let manifest = json!({"spec": {"minAvailable": 9}, "status": status});
    let mut written = PodDisruptionBudget::decode(manifest.to_string().as_bytes()).unwrap();
    assert!(written.is_new_generation(&stored));
    written.prepare_update(&stored, Part::Status);
    assert_eq!(written.spec, stored.spec);
    assert_eq!(written.status.unwrap().expected_pods, Some(2));
}

#[test]
fn counts_of_the_status_are_not_negative() {
    let stored = created::<PodDisruptionBudget>(json!({"spec": {"minAvailable": 1}}));
    let status = json!({
        "disruptionsAllowed": -1, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": -2,
        "conditions": [{
            "type": "DisruptionAllowed", "status": "Perhaps", "reason": "SufficientPods", "message": "",
            "lastTransitionTime": "2024-01-02T03:04:05Z",
        }],
    });
    check_update(
        &stored,
        json!({"spec": {}, "status": status}),
        Part::Status,
        &[
            "status.conditions[0].status: Unsupported value: \"Perhaps\": supported values: \"False\", \"True\", \"Unknown\"",
            "status.disruptionsAllowed: Invalid value: -1: must be greater than or equal to 0",
            "status.expectedPods: Invalid value: -2: must be greater than or equal to 0",
        ],
    );
}

#[test]
fn a_bound_that_is_not_set_does_not_apply() {
    check_row::<PodDisruptionBudget>(
        json!({
            "metadata": {"name": "web", "creationTimestamp": "2024-01-02T03:04:05Z"},
            "spec": {"minAvailable": 2},
            "status": {"disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3},
        }),
        "2024-01-02T03:05:05Z",
        json!(["web", "2", "N/A", 1, "60s"]),
    );
}
