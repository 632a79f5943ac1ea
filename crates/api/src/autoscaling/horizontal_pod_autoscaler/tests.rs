//! Manifest in; problems, defaults and cells out. Conversions there and back.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{HorizontalPodAutoscaler, v1};
use crate::kind::{Part, Resource};
use crate::testing::{check, check_created, check_row, check_update, created, defaulted};
use crate::version::Version;

fn manifest(change: Value) -> Value {
    let mut spec = json!({
        "maxReplicas": 5, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
    });
    for (field, value) in change.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({"metadata": {"name": "web", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": spec})
}

fn cpu(target: Value) -> Value {
    json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}])
}

#[test]
fn what_is_not_said_is_one_replica_at_least_and_cpu_at_80_percent() {
    let check = |pointer: &str, expected: Value| {
        let behavior = json!({"behavior": {"scaleDown": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}}});
        check_created::<HorizontalPodAutoscaler>(manifest(behavior), pointer, expected);
    };
    check("/spec/minReplicas", json!(1));
    check("/spec/metrics", cpu(json!({"type": "Utilization", "averageUtilization": 80})));
    check(
        "/spec/behavior/scaleUp",
        json!({"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [
            {"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15},
        ]}),
    );
    check(
        "/spec/behavior/scaleDown",
        json!({"selectPolicy": "Max", "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}),
    );
    let without = created::<HorizontalPodAutoscaler>(manifest(json!({})));
    assert!(without.spec.behavior.is_none());
}

#[test]
fn replicas_target_metrics_and_behavior_are_checked() {
    let check = |change: Value, expected: &[&str]| {
        check::<HorizontalPodAutoscaler>(manifest(change), expected);
    };
    check(json!({}), &[]);
    check(
        json!({"maxReplicas": 0}),
        &[
            "spec.maxReplicas: Required value: must be set and greater than 0",
            "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
        ],
    );
    check(
        json!({"minReplicas": 0}),
        &[
            "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
            "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas",
        ],
    );
    check(
        json!({"minReplicas": 9}),
        &["spec.maxReplicas: Invalid value: 5: must be greater than or equal to `minReplicas`"],
    );
    check(
        json!({"scaleTargetRef": {"kind": "", "name": "a/b", "apiVersion": "v1"}}),
        &[
            "spec.scaleTargetRef.kind: Required value",
            "spec.scaleTargetRef.name: Invalid value: \"a/b\": may not contain '/'",
            "spec.scaleTargetRef.apiVersion: Invalid value: \"v1\": apiVersion must specify API group",
        ],
    );
    check(
        json!({"scaleTargetRef": {"kind": "ReplicationController", "name": "a", "apiVersion": "v1"}}),
        &[],
    );
    check(
        json!({"metrics": cpu(json!({"type": "Utilization", "averageUtilization": 0, "averageValue": "0"}))}),
        &[
            "spec.metrics[0].resource.target.averageValue: Invalid value: \"0\": must be positive",
            "spec.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0",
            "spec.metrics[0].resource.target.averageValue: Forbidden: may not set both a target raw value and a target utilization",
        ],
    );
    check(
        json!({"metrics": [{"type": "Pods", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 9}}}]}),
        &[
            "spec.metrics[0].pods: Required value: must populate information for the given metric source",
        ],
    );
    check(
        json!({"behavior": {"scaleUp": {"stabilizationWindowSeconds": 3601, "selectPolicy": "Odd", "policies": [
            {"type": "Odd", "value": 0, "periodSeconds": 1801},
        ]}}}),
        &[
            "spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600",
            "spec.behavior.scaleUp.selectPolicy: Unsupported value: \"Odd\": supported values: \"Disabled\", \"Max\", \"Min\"",
            "spec.behavior.scaleUp.policies[0].type: Unsupported value: \"Odd\": supported values: \"Percent\", \"Pods\"",
            "spec.behavior.scaleUp.policies[0].value: Invalid value: 0: must be greater than zero",
            "spec.behavior.scaleUp.policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to 1800",
        ],
    );
}

#[test]
fn each_part_changes_its_own() {
    let target = json!({"scaleTargetRef": {"kind": "Odd", "name": "a", "apiVersion": "v1"}});
    let stored = defaulted::<HorizontalPodAutoscaler>(manifest(target.clone()));
    // What was stored with a wrong version may stay as it is.
    check_update(&stored, manifest(target), Part::Main, &[]);
    let mut status = manifest(json!({"maxReplicas": 0}));
    status["status"] = json!({"currentReplicas": -1, "desiredReplicas": -2});
    check_update(
        &stored,
        status,
        Part::Status,
        &[
            "status.currentReplicas: Invalid value: -1: must be greater than or equal to 0",
            "status.desiredReplicas: Invalid value: -2: must be greater than or equal to 0",
        ],
    );
}

#[test]
fn the_row_shows_what_is_measured_against_what_is_wanted() {
    let mut object = manifest(json!({"metrics": [
        {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}},
        {"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "AverageValue", "averageValue": "30"}}},
        {"type": "Pods", "pods": {"metric": {"name": "p"}, "target": {"type": "AverageValue", "averageValue": "1k"}}},
    ]}));
    object["status"] = json!({"currentReplicas": 2, "desiredReplicas": 2, "currentMetrics": [
        {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 10, "averageValue": "5m"}}},
    ]});
    check_row::<HorizontalPodAutoscaler>(
        object,
        "2026-01-01T00:01:00Z",
        json!([
            "web",
            "Deployment/web",
            "cpu: 10%/80%, <unknown>/30 (avg) + 1 more...",
            "1",
            5,
            2,
            "60s"
        ]),
    );
}

/// What upstream's v1.36 answers for the same autoscaler.
#[test]
fn v1_keeps_what_it_cannot_express_where_upstream_does() {
    let mut object = manifest(json!({
        "metrics": [
            {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
            {"type": "Object", "object": {
                "describedObject": {"kind": "Ingress", "name": "in", "apiVersion": "networking.k8s.io/v1"},
                "metric": {"name": "rps"}, "target": {"type": "Value", "value": "10k"},
            }},
        ],
        "behavior": {"scaleDown": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}},
    }));
    object["status"] =
        json!({"desiredReplicas": 1, "conditions": [{"type": "AbleToScale", "status": "True"}]});
    let hub = defaulted::<HorizontalPodAutoscaler>(object);
    let served = v1::HorizontalPodAutoscaler::from_hub(&hub);
    assert_eq!(served.spec.target_cpu_utilization_percentage, Some(50));
    let annotations = served.metadata.annotations.clone().unwrap();
    let annotation = |name: &str| -> Value {
        let name = format!("autoscaling.alpha.kubernetes.io/{name}");
        serde_json::from_str(&annotations[&name]).unwrap()
    };
    assert_eq!(
        annotation("metrics"),
        json!([{"type": "Object", "object": {
            "target": {"kind": "Ingress", "name": "in", "apiVersion": "networking.k8s.io/v1"}, "metricName": "rps", "targetValue": "10k",
        }}])
    );
    assert_eq!(annotation("conditions"), json!([{"type": "AbleToScale", "status": "True"}]));
    assert_eq!(
        annotation("behavior")["ScaleDown"],
        json!({
            "StabilizationWindowSeconds": null, "SelectPolicy": "Max", "Tolerance": null,
            "Policies": [{"Type": "Pods", "Value": 1, "PeriodSeconds": 60}],
        })
    );
    let mut expected = hub.clone();
    // CPU, which has a field of its own, comes last.
    expected.spec.metrics.as_mut().unwrap().reverse();
    let back: HorizontalPodAutoscaler = served.into_hub();
    assert_eq!(back, expected);
}

#[test]
fn v1_without_anything_is_cpu_at_80_percent_and_rubbish_is_dropped() {
    let mut object = manifest(json!({}));
    object["metadata"]["annotations"] =
        json!({"autoscaling.alpha.kubernetes.io/metrics": "{", "mine": "stays"});
    let hub: HorizontalPodAutoscaler = defaulted::<v1::HorizontalPodAutoscaler>(object).into_hub();
    assert_eq!(
        crate::codec::tree(&hub.spec.metrics),
        cpu(json!({"type": "Utilization", "averageUtilization": 80}))
    );
    assert_eq!(hub.metadata.annotations.unwrap().into_keys().collect::<Vec<_>>(), ["mine"]);
}

#[test]
fn what_was_stored_as_v1_is_read() {
    let stored = manifest(json!({"targetCPUUtilizationPercentage": 7})).to_string();
    let json = HorizontalPodAutoscaler::convert_stored("autoscaling/v1", stored.as_bytes());
    let read = HorizontalPodAutoscaler::decode(&json.unwrap().unwrap()).unwrap();
    assert_eq!(
        crate::codec::tree(&read.spec.metrics),
        cpu(json!({"type": "Utilization", "averageUtilization": 7}))
    );
    assert!(HorizontalPodAutoscaler::convert_stored("autoscaling/v2beta1", b"{}").is_none());
}

/// Metrics that are valid, so that each has what its type needs and nothing else.
fn metric() -> impl Strategy<Value = Value> {
    let metric = json!({"name": "m", "selector": {"matchLabels": {"a": "b"}}});
    let average = json!({"type": "AverageValue", "averageValue": "5m"});
    let value = json!({"type": "Value", "value": "7"});
    let share = json!({"type": "Utilization", "averageUtilization": 9});
    let object = json!({"kind": "Ingress", "name": "in"});
    prop::sample::select(vec![
        json!({"type": "Object", "object": {"describedObject": object, "metric": metric, "target": value}}),
        json!({"type": "Object", "object": {"describedObject": object, "metric": metric, "target": average}}),
        json!({"type": "Pods", "pods": {"metric": metric, "target": average}}),
        json!({"type": "External", "external": {"metric": metric, "target": value}}),
        json!({"type": "External", "external": {"metric": metric, "target": average}}),
        json!({"type": "Resource", "resource": {"name": "memory", "target": share}}),
        json!({"type": "Resource", "resource": {"name": "cpu", "target": average}}),
        json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c", "target": share}}),
    ])
}

proptest! {
    #[test]
    fn v1_loses_nothing(
        metrics in prop::collection::vec(metric(), 0..5),
        cpu_share in prop::option::of(1..100),
        behavior in prop::option::of((prop::option::of(0..9), prop::option::of(1..9))),
        min in 1..5,
    ) {
        let cpu_metric = cpu_share.map(|it| cpu(json!({"type": "Utilization", "averageUtilization": it}))[0].clone());
        let metrics: Vec<Value> = metrics.into_iter().chain(cpu_metric).collect();
        let mut object = manifest(json!({"metrics": metrics, "minReplicas": min}));
        if let Some((window, value)) = behavior {
            let policies = value.map(|it| json!([{"type": "Pods", "value": it, "periodSeconds": 5}]));
            object["spec"]["behavior"] = json!({"scaleUp": {"stabilizationWindowSeconds": window, "policies": policies, "tolerance": "10m"}});
        }
        let hub = defaulted::<HorizontalPodAutoscaler>(object);
        let there = v1::HorizontalPodAutoscaler::from_hub(&hub);
        let back: HorizontalPodAutoscaler = there.clone().into_hub();
        prop_assert_eq!(&back, &hub);
        prop_assert_eq!(v1::HorizontalPodAutoscaler::from_hub(&back), there);
    }
}
