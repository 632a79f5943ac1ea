//! Manifest in; problems, defaults and cells out.

use serde_json::{Value, json};

use super::Deployment;
use crate::kind::{Part, Resource, Scale};
use crate::testing::{check, check_created, check_row, check_update, created, defaulted};

fn deployment(extra: Value) -> Value {
    let mut spec = json!({
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "nginx:1"}]},
        },
    });
    for (key, value) in extra.as_object().unwrap() {
        spec[key] = value.clone();
    }
    json!({"metadata": {"name": "web", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": spec})
}

#[test]
fn a_minimal_deployment_gets_every_default() {
    let check =
        |pointer, expected| check_created::<Deployment>(deployment(json!({})), pointer, expected);
    check("/spec/replicas", json!(1));
    check("/spec/revisionHistoryLimit", json!(10));
    check("/spec/progressDeadlineSeconds", json!(600));
    check(
        "/spec/strategy",
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}),
    );
    check("/spec/template/spec/restartPolicy", json!("Always"));
    // Templates leave to pods what only pods have.
    check("/spec/template/spec/enableServiceLinks", Value::Null);
    check("/status", json!({}));
}

#[test]
fn numbers_are_not_negative() {
    check::<Deployment>(
        deployment(json!({"replicas": -1})),
        &["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
    );
    check::<Deployment>(
        deployment(json!({"minReadySeconds": 600})),
        &["spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds"],
    );
}

#[test]
fn the_selector_is_needed_and_matches_the_template() {
    for empty in [json!({}), json!({"matchLabels": {}}), json!({"matchExpressions": []})] {
        check::<Deployment>(
            deployment(json!({"selector": empty})),
            &["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
        );
    }
    check::<Deployment>(
        deployment(json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}})),
        &[
            "spec.selector.matchExpressions[0].operator: Invalid value: \"Near\": not a valid selector operator",
            "spec.selector: Invalid value: {\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"Near\"}]}: invalid label selector",
        ],
    );
    check::<Deployment>(
        deployment(json!({"selector": null})),
        &[
            "spec.selector: Required value",
            "spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`",
        ],
    );
    check::<Deployment>(
        deployment(json!({"selector": {"matchLabels": {"app": "other"}}})),
        &[
            "spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`",
        ],
    );
}

#[test]
fn a_rollout_must_be_able_to_move() {
    let strategy = |value: Value| deployment(json!({"strategy": value}));
    check::<Deployment>(
        strategy(json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}})),
        &[
            "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
        ],
    );
    check::<Deployment>(
        strategy(json!({"type": "Recreate", "rollingUpdate": {}})),
        &[
            "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
        ],
    );
    check::<Deployment>(
        strategy(json!({"rollingUpdate": {"maxUnavailable": "101%"}})),
        &[
            "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%",
        ],
    );
}

#[test]
fn pods_of_a_deployment_always_restart() {
    let mut manifest = deployment(json!({}));
    manifest["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    check::<Deployment>(
        manifest,
        &[
            "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
        ],
    );
}

#[test]
fn the_selector_never_changes() {
    let stored = created::<Deployment>(deployment(json!({})));
    let mut update = deployment(json!({"selector": {"matchLabels": {"app": "b"}}}));
    update["spec"]["template"]["metadata"]["labels"] = json!({"app": "b"});
    check_update(
        &stored,
        update,
        Part::Main,
        &["spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"b\"}}: field is immutable"],
    );
}

#[test]
fn spec_and_annotations_make_a_generation() {
    let stored = created::<Deployment>(deployment(json!({})));
    let check = |manifest: Value, expected: bool| {
        assert_eq!(defaulted::<Deployment>(manifest).is_new_generation(&stored), expected);
    };
    check(deployment(json!({})), false);
    check(deployment(json!({"replicas": 2})), true);
    let mut annotated = deployment(json!({}));
    annotated["metadata"]["annotations"] = json!({"a": "b"});
    check(annotated, true);
}

#[test]
fn a_status_counts_within_its_replicas() {
    let stored = created::<Deployment>(deployment(json!({})));
    let mut update = deployment(json!({}));
    update["status"] = json!({"replicas": 1, "readyReplicas": 2, "unavailableReplicas": -1});
    check_update(
        &stored,
        update,
        Part::Status,
        &[
            "status.unavailableReplicas: Invalid value: -1: must be greater than or equal to 0",
            "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
        ],
    );
}

#[test]
fn scale_and_row_show_the_replicas() {
    let mut manifest = deployment(json!({"replicas": 3}));
    manifest["status"] =
        json!({"replicas": 3, "readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1});
    let mut object = defaulted::<Deployment>(manifest.clone());
    let expected = Scale { spec_replicas: 3, status_replicas: 3, selector: "app=web".to_owned() };
    assert_eq!(object.scale(), Some(expected));
    object.set_replicas(5);
    assert_eq!(object.spec.unwrap().replicas, Some(5));
    check_row::<Deployment>(
        manifest,
        "2026-01-01T00:00:42Z",
        json!(["web", "2/3", 3, 1, "42s", "web", "nginx:1", "app=web"]),
    );
}
