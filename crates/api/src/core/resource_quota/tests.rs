//! Manifest in; problems, warnings or cells out.

use serde_json::{Value, json};

use super::ResourceQuota;
use crate::kind::{Part, Resource};
use crate::testing::{check, check_created, check_row, check_update, created};

fn quota(spec: Value) -> Value {
    json!({"metadata": {"name": "team"}, "spec": spec})
}

#[test]
fn amounts_are_of_what_a_quota_counts() {
    check::<ResourceQuota>(
        quota(json!({"hard": {
            "pods": "1", "count/jobs.batch": "2", "requests.example.com/gpu": "1", "cpu": "1500m",
            "requests.hugepages-2Mi": "2Mi", "fast.storageclass.storage.k8s.io/requests.storage": "1Gi",
        }})),
        &[],
    );
    check::<ResourceQuota>(
        quota(json!({"hard": {"bananas": "1", "cpu": "-1", "pods": "500m", "storage": "1"}})),
        &[
            "spec.hard[bananas]: Invalid value: \"bananas\": must be a standard resource type or fully qualified",
            "spec.hard[bananas]: Invalid value: \"bananas\": must be a standard resource for quota",
            "spec.hard[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
            "spec.hard[pods]: Invalid value: \"500m\": must be an integer",
            "spec.hard[storage]: Invalid value: \"storage\": must be a standard resource for quota",
        ],
    );
}

#[test]
fn scopes_fit_the_resources_and_each_other() {
    check::<ResourceQuota>(quota(json!({"hard": {"pods": "1"}, "scopes": ["BestEffort"]})), &[]);
    check::<ResourceQuota>(
        quota(json!({"hard": {"cpu": "1"}, "scopes": ["BestEffort"]})),
        &["spec.scopes: Invalid value: [\"BestEffort\"]: unsupported scope applied to resource"],
    );
    let scopes = "[\"BestEffort\",\"NotBestEffort\",\"Sometimes\"]";
    check::<ResourceQuota>(
        quota(
            json!({"hard": {"pods": "1"}, "scopes": ["BestEffort", "NotBestEffort", "Sometimes"]}),
        ),
        &[
            &format!("spec.scopes: Invalid value: {scopes}: unsupported scope"),
            &format!("spec.scopes: Invalid value: {scopes}: conflicting scopes"),
        ],
    );
}

#[test]
fn a_selector_has_values_where_it_needs_them() {
    let selector = |expressions: Value| {
        quota(json!({"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": expressions}}))
    };
    check::<ResourceQuota>(
        selector(json!([{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}])),
        &[],
    );
    check::<ResourceQuota>(
        selector(json!([
            {"scopeName": "Terminating", "operator": "In"},
            {"scopeName": "PriorityClass", "operator": "Exists", "values": ["a"]},
            {"scopeName": "PriorityClass", "operator": "Near"},
            {"scopeName": "Other", "operator": "Exists"},
        ])),
        &[
            "spec.scopeSelector.matchExpressions.operator: Invalid value: \"In\": must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity",
            "spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            "spec.scopeSelector.matchExpressions.values: Invalid value: [\"a\"]: must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            "spec.scopeSelector.matchExpressions.operator: Invalid value: \"Near\": not a valid selector operator",
            "spec.scopeSelector.matchExpressions.scopeName: Invalid value: \"Other\": unsupported scope",
        ],
    );
}

#[test]
fn amounts_may_change_and_scopes_may_not() {
    let stored =
        created::<ResourceQuota>(quota(json!({"hard": {"pods": "1"}, "scopes": ["Terminating"]})));
    check_update(
        &stored,
        quota(json!({"hard": {"pods": "2"}, "scopes": ["Terminating"]})),
        Part::Main,
        &[],
    );
    check_update(
        &stored,
        quota(json!({"hard": {"pods": "2"}})),
        Part::Main,
        &["spec.scopes: Invalid value: null: field is immutable"],
    );
}

#[test]
fn the_status_is_the_controllers() {
    let mut manifest = quota(json!({"hard": {"pods": "1"}}));
    manifest["status"] = json!({"hard": {"pods": "1"}, "used": {"pods": "-1"}});
    check_created::<ResourceQuota>(manifest.clone(), "/status", json!({}));
    let stored = created::<ResourceQuota>(quota(json!({"hard": {"pods": "1"}})));
    check_update(
        &stored,
        manifest,
        Part::Status,
        &["status.used[pods]: Invalid value: \"-1\": must be greater than or equal to 0"],
    );
}

#[test]
fn more_requests_than_limits_are_worth_a_warning() {
    let warnings = |hard: Value| created::<ResourceQuota>(quota(json!({"hard": hard}))).warnings();
    assert!(warnings(json!({"cpu": "1", "limits.cpu": "1"})).is_empty());
    assert_eq!(
        warnings(
            json!({"memory": "2Gi", "limits.memory": "1Gi", "requests.cpu": "2", "limits.cpu": "1"})
        ),
        [
            "ResourceQuota requests.cpu (2) should be less than limits.cpu (1)",
            "ResourceQuota memory (2Gi) should be less than limits.memory (1Gi)",
        ]
    );
}

#[test]
fn columns_show_what_is_used_of_what_there_is() {
    check_row::<ResourceQuota>(
        json!({
            "metadata": {"name": "team", "creationTimestamp": "2024-01-02T03:04:05Z"},
            "status": {
                "hard": {"pods": "10", "requests.cpu": "4", "limits.cpu": "8"},
                "used": {"requests.cpu": "1500m", "limits.cpu": "2"},
            },
        }),
        "2024-01-02T03:05:05Z",
        json!(["team", "pods: 0/10, requests.cpu: 1500m/4", "limits.cpu: 2/8", "60s"]),
    );
}
