//! Manifest in; problems, defaults and cells out.

use serde_json::{Value, json};

use super::DaemonSet;
use crate::kind::{Part, Resource};
use crate::testing::{check, check_created, check_row, check_update, created, defaulted};

fn daemon_set(extra: Value) -> Value {
    let mut spec = json!({
        "selector": {"matchLabels": {"app": "agent"}},
        "template": {
            "metadata": {"labels": {"app": "agent"}},
            "spec": {"containers": [{"name": "agent", "image": "agent:1"}]},
        },
    });
    spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    json!({"metadata": {"name": "agent", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": spec})
}

fn rolling(value: Value) -> Value {
    daemon_set(json!({"updateStrategy": {"rollingUpdate": value}}))
}

#[test]
fn a_minimal_one_gets_every_default() {
    let default =
        |pointer, expected| check_created::<DaemonSet>(daemon_set(json!({})), pointer, expected);
    default(
        "/spec/updateStrategy",
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}),
    );
    check_created::<DaemonSet>(
        daemon_set(
            json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"maxUnavailable": "10%"}}}),
        ),
        "/spec/updateStrategy/rollingUpdate",
        json!({"maxSurge": 0, "maxUnavailable": "10%"}),
    );
    default("/spec/revisionHistoryLimit", json!(10));
    default("/spec/template/spec/restartPolicy", json!("Always"));
    default(
        "/status",
        json!({"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0,
            "numberReady": 0}),
    );
    check_created::<DaemonSet>(
        daemon_set(json!({"updateStrategy": {"type": "OnDelete"}})),
        "/spec/updateStrategy",
        json!({"type": "OnDelete"}),
    );
    check::<DaemonSet>(daemon_set(json!({})), &[]);
}

#[test]
fn an_annotation_counts_the_templates() {
    let annotation = |object: &DaemonSet| {
        object.metadata.annotations.as_ref().unwrap()["deprecated.daemonset.template.generation"]
            .clone()
    };
    let first = created::<DaemonSet>(daemon_set(json!({})));
    assert_eq!(annotation(&first), "1");
    let mut manifest = daemon_set(json!({}));
    manifest["metadata"]["annotations"] = json!({"deprecated.daemonset.template.generation": "4"});
    let stored = created::<DaemonSet>(manifest.clone());
    assert_eq!(annotation(&stored), "4");

    // It is nobody's to change.
    let mut same = defaulted::<DaemonSet>(daemon_set(json!({"minReadySeconds": 1})));
    same.prepare_update(&stored, Part::Main);
    assert_eq!(annotation(&same), "4");
    manifest["spec"]["template"]["spec"]["hostNetwork"] = json!(true);
    let mut other = defaulted::<DaemonSet>(manifest.clone());
    other.prepare_update(&stored, Part::Main);
    assert_eq!(annotation(&other), "5");
    other.prepare_update(&stored, Part::Status);
    assert_eq!(annotation(&other), "4");

    manifest["metadata"]["annotations"] = json!({"deprecated.daemonset.template.generation": "x"});
    check::<DaemonSet>(
        manifest,
        &[
            "metadata.annotations[deprecated.daemonset.template.generation]: Invalid value: \"x\": invalid digit found in string",
        ],
    );
}

#[test]
fn a_generation_that_is_no_number_is_no_daemon_set() {
    let why = |annotation: &str| {
        let key = "deprecated.daemonset.template.generation";
        let manifest = json!({"metadata": {"name": "a", "annotations": {key: annotation}}});
        DaemonSet::decode(manifest.to_string().as_bytes()).unwrap().conversion_error()
    };
    assert_eq!(why("4"), None);
    assert_eq!(why("x").unwrap(), "strconv.ParseInt: parsing \"x\": invalid syntax");
    let large = "9223372036854775808";
    let range = format!("strconv.ParseInt: parsing \"{large}\": value out of range");
    assert_eq!(why(large).unwrap(), range);
}

#[test]
fn the_selector_is_of_the_template_and_selects_something() {
    let labels = "spec.template.metadata.labels: Invalid value: {\"app\":\"agent\"}: `selector` does not match template `labels`";
    let refused = |selector: Value, expected: &[&str]| {
        check::<DaemonSet>(daemon_set(json!({"selector": selector})), expected);
    };
    refused(Value::Null, &[labels]);
    refused(json!({"matchLabels": {"app": "other"}}), &[labels]);
    let empty = "spec.selector: Invalid value: {}: empty selector is invalid for daemonset";
    refused(json!({}), &[empty]);
    refused(json!({"matchLabels": {}, "matchExpressions": []}), &[empty]);
    refused(
        json!({"matchExpressions": [{"key": "app", "operator": "Near"}]}),
        &[
            "spec.selector.matchExpressions[0].operator: Invalid value: \"Near\": not a valid selector operator",
        ],
    );
}

#[test]
fn pods_of_daemons_never_end() {
    let mut manifest = daemon_set(json!({"minReadySeconds": -1, "revisionHistoryLimit": -1}));
    manifest["spec"]["template"]["spec"]["restartPolicy"] = json!("OnFailure");
    manifest["spec"]["template"]["spec"]["activeDeadlineSeconds"] = json!(9);
    check::<DaemonSet>(
        manifest,
        &[
            "spec.template.spec.restartPolicy: Unsupported value: \"OnFailure\": supported values: \"Always\"",
            "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in DaemonSet is not Supported",
            "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
            "spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
        ],
    );
}

#[test]
fn a_rollout_takes_pods_away_or_adds_some_but_not_both() {
    check::<DaemonSet>(rolling(json!({"maxSurge": "10%", "maxUnavailable": 0})), &[]);
    check::<DaemonSet>(
        rolling(json!({"maxSurge": 1})),
        &[
            "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero",
        ],
    );
    check::<DaemonSet>(
        rolling(json!({"maxUnavailable": "0%"})),
        &[
            "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0",
        ],
    );
    check::<DaemonSet>(
        rolling(json!({"maxUnavailable": "200%"})),
        &[
            "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: \"200%\": must not be greater than 100%",
        ],
    );
    check::<DaemonSet>(
        daemon_set(json!({"updateStrategy": {"type": "Never"}})),
        &[
            "spec.updateStrategy: Unsupported value: {\"type\":\"Never\"}: supported values: \"RollingUpdate\", \"OnDelete\"",
        ],
    );
}

#[test]
fn the_selector_never_changes() {
    let stored = created::<DaemonSet>(daemon_set(json!({})));
    let mut update = daemon_set(json!({"selector": {"matchLabels": {"app": "b"}}}));
    update["spec"]["template"]["metadata"]["labels"] = json!({"app": "b"});
    check_update(
        &stored,
        update,
        Part::Main,
        &["spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"b\"}}: field is immutable"],
    );
}

#[test]
fn counts_of_the_status_are_not_negative_and_collisions_never_fewer() {
    let mut stored = created::<DaemonSet>(daemon_set(json!({})));
    stored.status.as_mut().unwrap().collision_count = Some(2);
    let mut update = daemon_set(json!({}));
    update["status"] = json!({
        "currentNumberScheduled": -1, "numberMisscheduled": 0, "desiredNumberScheduled": 0,
        "numberReady": 0, "numberUnavailable": -3, "collisionCount": 1,
    });
    check_update(
        &stored,
        update,
        Part::Status,
        &[
            "status.currentNumberScheduled: Invalid value: -1: must be greater than or equal to 0",
            "status.numberUnavailable: Invalid value: -3: must be greater than or equal to 0",
            "status.collisionCount: Invalid value: 1: cannot be decremented",
        ],
    );
}

#[test]
fn the_row_counts_nodes() {
    let mut manifest = daemon_set(json!({}));
    manifest["spec"]["template"]["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    manifest["status"] = json!({
        "desiredNumberScheduled": 3, "currentNumberScheduled": 2, "numberReady": 1,
        "numberMisscheduled": 0, "updatedNumberScheduled": 2, "numberAvailable": 1,
    });
    check_row::<DaemonSet>(
        manifest,
        "2026-01-01T00:00:42Z",
        json!(["agent", 3, 2, 1, 2, 1, "disk=ssd", "42s", "agent", "agent:1", "app=agent"]),
    );
}

#[test]
fn the_generation_of_the_template_is_written_before_it_is_known() {
    let object = defaulted::<DaemonSet>(daemon_set(json!({})));
    let annotations = object.metadata.annotations.unwrap();
    assert_eq!(annotations["deprecated.daemonset.template.generation"], "0");
}

#[test]
fn several_problems_are_told_of_in_upstreams_order() {
    let manifest = daemon_set(json!({
        "selector": {"matchLabels": {"app": "other"}},
        "template": {
            "metadata": {"labels": {"app": "agent"}},
            "spec": {"activeDeadlineSeconds": 1, "containers": [{"name": "agent", "image": ""}]},
        },
        "minReadySeconds": -1,
        "updateStrategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0}},
        "revisionHistoryLimit": -1,
    }));
    check::<DaemonSet>(
        manifest,
        &[
            "spec.template.metadata.labels: Invalid value: {\"app\":\"agent\"}: `selector` does not match template `labels`",
            "spec.template.spec.containers[0].image: Required value",
            "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in DaemonSet is not Supported",
            "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
            "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0",
            "spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
        ],
    );
}
