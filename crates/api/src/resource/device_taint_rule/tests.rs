//! Manifest in; problems or cells out.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::{DeviceTaintRule, needs_taint_time, set_taint_time, v1beta2};
use crate::kind::{Part, Resource};
use crate::testing::{check, check_row, check_there_and_back, check_update, created};

fn rule(spec: Value) -> Value {
    json!({"metadata": {"name": "r"}, "spec": spec})
}

fn example() -> Value {
    serde_json::from_str(include_str!("example.json")).unwrap()
}

#[test]
fn a_rule_names_devices_and_a_taint() {
    check::<DeviceTaintRule>(example(), &[]);
    check::<DeviceTaintRule>(
        rule(json!({
            "deviceSelector": {"driver": "", "pool": ""},
            "taint": {"key": "k", "effect": "Explode"},
        })),
        &[
            "spec.deviceSelector.driver: Required value",
            "spec.deviceSelector.pool: Required value",
            "spec.taint.effect: Unsupported value: \"Explode\": supported values: \"NoExecute\", \"NoSchedule\", \"None\"",
        ],
    );
    check::<DeviceTaintRule>(
        rule(json!({"taint": {"key": "k"}})),
        &["spec.taint.effect: Required value"],
    );
}

#[test]
fn an_effect_of_a_later_version_may_stay() {
    let later = rule(json!({"taint": {"key": "k", "effect": "Explode"}}));
    let stored = created::<DeviceTaintRule>(later.clone());
    check_update(&stored, later, Part::Main, &[]);
}

#[test]
fn a_taint_is_there_since_it_does_what_it_does() {
    let time = |text: &str| Time(text.parse().unwrap());
    let stored = created::<DeviceTaintRule>(example());
    assert!(!needs_taint_time(&stored, None));
    let mut changed = stored.clone();
    changed.spec.taint.effect = "NoSchedule".to_owned();
    assert!(needs_taint_time(&changed, Some(&stored)));
    set_taint_time(&mut changed, &time("2025-01-02T03:04:05Z"));
    assert!(!needs_taint_time(&changed, Some(&stored)));
    changed.spec.taint.time_added = None;
    assert!(needs_taint_time(&changed, None));
}

#[test]
fn conditions_are_few() {
    let stored = created::<DeviceTaintRule>(example());
    let mut manifest = example();
    let conditions: Vec<Value> = (0..9)
        .map(|it| {
            json!({
                "type": format!("T{it}"), "status": "True", "reason": "R", "message": "",
                "lastTransitionTime": "2024-01-02T03:04:05Z",
            })
        })
        .collect();
    manifest["status"] = json!({"conditions": conditions});
    check_update(
        &stored,
        manifest,
        Part::Status,
        &["status.conditions: Too many: 9: must have at most 8 items"],
    );
}

#[test]
fn the_other_version_loses_nothing() {
    let hub = created::<DeviceTaintRule>(example());
    check_there_and_back::<v1beta2::DeviceTaintRule, DeviceTaintRule>(&hub);
    assert_eq!(hub.warnings(), ["spec: accepted, but devices are not allocated on this server"]);
}

#[test]
fn columns_show_the_taint() {
    let mut manifest = example();
    manifest["metadata"]["creationTimestamp"] = json!("2024-01-02T03:04:05Z");
    check_row::<DeviceTaintRule>(
        manifest,
        "2024-01-02T03:05:05Z",
        json!(["hot", "example.com/hot", "yes", "NoExecute", "60s", "60s"]),
    );
}
