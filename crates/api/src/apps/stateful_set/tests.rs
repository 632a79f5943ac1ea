//! Manifest in; problems, defaults and cells out.

use serde_json::{Value, json};

use super::{StatefulSet, drop_max_unavailable, has_max_unavailable};
use crate::kind::{Part, Resource, Scale};
use crate::testing::{check, check_created, check_row, check_update, created, defaulted};

fn stateful_set(extra: Value) -> Value {
    let mut spec = json!({
        "serviceName": "db",
        "selector": {"matchLabels": {"app": "db"}},
        "template": {
            "metadata": {"labels": {"app": "db"}},
            "spec": {"containers": [{"name": "db", "image": "db:1"}]},
        },
    });
    spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    json!({"metadata": {"name": "db", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": spec})
}

fn claim(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    })
}

#[test]
fn a_minimal_one_gets_every_default() {
    let default = |pointer, expected| {
        check_created::<StatefulSet>(stateful_set(json!({})), pointer, expected);
    };
    default("/spec/replicas", json!(1));
    default("/spec/revisionHistoryLimit", json!(10));
    default("/spec/podManagementPolicy", json!("OrderedReady"));
    default(
        "/spec/updateStrategy",
        json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}),
    );
    default(
        "/spec/persistentVolumeClaimRetentionPolicy",
        json!({"whenDeleted": "Retain", "whenScaled": "Retain"}),
    );
    default("/status", json!({"replicas": 0, "availableReplicas": 0}));
    check::<StatefulSet>(stateful_set(json!({})), &[]);
    check_created::<StatefulSet>(
        stateful_set(json!({"updateStrategy": {"type": "RollingUpdate"}, "ordinals": {}})),
        "/spec/updateStrategy",
        json!({"type": "RollingUpdate"}),
    );
    let unnamed = json!({"spec": {}});
    check_created::<StatefulSet>(unnamed, "/spec/serviceName", json!(""));
}

#[test]
fn claims_in_a_template_are_claims() {
    let manifest = stateful_set(json!({"volumeClaimTemplates": [claim("data")]}));
    let default = |pointer, expected| {
        check_created::<StatefulSet>(manifest.clone(), pointer, expected);
    };
    default("/spec/volumeClaimTemplates/0/kind", json!("PersistentVolumeClaim"));
    default("/spec/volumeClaimTemplates/0/apiVersion", json!("v1"));
    default("/spec/volumeClaimTemplates/0/spec/volumeMode", json!("Filesystem"));
    default("/spec/volumeClaimTemplates/0/status", json!({"phase": "Pending"}));
    // Whatever they say that they are.
    let mut other = claim("data");
    other["kind"] = json!("Pod");
    other["apiVersion"] = json!("v2");
    let manifest = stateful_set(json!({"volumeClaimTemplates": [other]}));
    let pointer = "/spec/volumeClaimTemplates/0/kind";
    check_created::<StatefulSet>(manifest, pointer, json!("PersistentVolumeClaim"));
    check::<StatefulSet>(
        stateful_set(json!({"volumeClaimTemplates": [{"metadata": {"name": "data"}}]})),
        &[
            "spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required",
            "spec.volumeClaimTemplates[0].spec.resources[storage]: Required value",
        ],
    );
}

#[test]
fn containers_mount_what_is_claimed() {
    let mut manifest = stateful_set(json!({"volumeClaimTemplates": [claim("data")]}));
    let pod = &mut manifest["spec"]["template"]["spec"];
    pod["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    // What the pod gets anyway is not looked at.
    pod["volumes"] = json!([{"name": "data"}]);
    pod["hostname"] = json!("NOT A NAME");
    pod["subdomain"] = json!("NOT A NAME");
    check::<StatefulSet>(manifest.clone(), &[]);
    manifest["spec"]["volumeClaimTemplates"] = json!([]);
    manifest["spec"]["template"]["spec"]["volumes"] = json!([]);
    check::<StatefulSet>(
        manifest,
        &["spec.template.spec.containers[0].volumeMounts[0].name: Not found: \"data\""],
    );
}

#[test]
fn numbers_are_not_negative() {
    check::<StatefulSet>(
        stateful_set(json!({
            "replicas": -1, "minReadySeconds": -1, "ordinals": {"start": -1},
            "updateStrategy": {"rollingUpdate": {"partition": -1}},
        })),
        &[
            "spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0",
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
            "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
            "spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0",
        ],
    );
}

#[test]
fn policies_are_known() {
    check::<StatefulSet>(
        stateful_set(json!({
            "podManagementPolicy": "Random",
            "updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Keep"},
            "serviceName": "DB",
        })),
        &[
            "spec.podManagementPolicy: Invalid value: \"Random\": must be 'OrderedReady' or 'Parallel'",
            "spec.updateStrategy.rollingUpdate: Invalid value: {\"partition\":1}: only allowed for updateStrategy 'RollingUpdate'",
            "spec.persistentVolumeClaimRetentionPolicy.whenDeleted: Unsupported value: \"Keep\": supported values: \"Retain\", \"Delete\"",
            "spec.serviceName: Invalid value: \"DB\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
        ],
    );
    check::<StatefulSet>(
        stateful_set(json!({"updateStrategy": {"type": "Sometimes"}})),
        &[
            "spec.updateStrategy: Invalid value: {\"type\":\"Sometimes\"}: must be 'RollingUpdate' or 'OnDelete'",
        ],
    );
}

#[test]
fn the_selector_is_of_the_template_and_selects_something() {
    let labels = "spec.template.metadata.labels: Invalid value: {\"app\":\"db\"}: `selector` does not match template `labels`";
    let refused = |selector: Value, expected: &[&str]| {
        check::<StatefulSet>(stateful_set(json!({"selector": selector})), expected);
    };
    refused(Value::Null, &["spec.selector: Required value", labels]);
    refused(json!({"matchLabels": {"app": "web"}}), &[labels]);
    refused(
        json!({}),
        &["spec.selector: Invalid value: {}: empty selector is invalid for statefulset"],
    );
    refused(
        json!({"matchExpressions": [{"key": "app", "operator": "Near"}]}),
        &[
            "spec.selector.matchExpressions[0].operator: Invalid value: \"Near\": not a valid selector operator",
            "spec.selector: Invalid value: {\"matchExpressions\":[{\"key\":\"app\",\"operator\":\"Near\"}]}",
        ],
    );
}

#[test]
fn pods_of_a_set_never_end() {
    let mut manifest = stateful_set(json!({}));
    manifest["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    manifest["spec"]["template"]["spec"]["activeDeadlineSeconds"] = json!(9);
    check::<StatefulSet>(
        manifest,
        &[
            "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
            "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in StatefulSet is not Supported",
        ],
    );
}

#[test]
fn some_fields_change_and_others_never_do() {
    let stored = created::<StatefulSet>(stateful_set(json!({})));
    let changed = json!({
        "replicas": 3, "minReadySeconds": 5, "ordinals": {"start": 2}, "revisionHistoryLimit": 3,
        "updateStrategy": {"type": "OnDelete"},
        "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"},
    });
    check_update(&stored, stateful_set(changed), Part::Main, &[]);
    let refused = "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
    for extra in [
        json!({"serviceName": "other"}),
        json!({"podManagementPolicy": "Parallel"}),
        json!({"volumeClaimTemplates": [claim("data")]}),
    ] {
        check_update(&stored, stateful_set(extra), Part::Main, &[refused]);
    }
}

#[test]
fn what_was_stored_wrong_may_stay_wrong() {
    let mut wrong = stateful_set(json!({"serviceName": "DB"}));
    wrong["spec"]["template"]["spec"]["containers"] = json!([]);
    let stored = created::<StatefulSet>(wrong.clone());
    wrong["spec"]["replicas"] = json!(0);
    check_update(&stored, wrong, Part::Main, &[]);
    let stored = created::<StatefulSet>(stateful_set(json!({})));
    let mut broken = stateful_set(json!({}));
    broken["spec"]["template"]["spec"]["containers"] = json!([]);
    check_update(&stored, broken, Part::Main, &["spec.template.spec.containers: Required value"]);
}

#[test]
fn pods_that_may_be_away_are_a_number_or_a_share() {
    let manifest = |value: Value| {
        stateful_set(json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": value}}}))
    };
    let pointer = "/spec/updateStrategy/rollingUpdate/maxUnavailable";
    check_created::<StatefulSet>(manifest(json!(2)), pointer, json!(2));
    let used = defaulted::<StatefulSet>(manifest(json!(2)));
    let path = "spec.updateStrategy.rollingUpdate.maxUnavailable";
    check_update(&used, manifest(json!(3)), Part::Main, &[]);
    check_update(
        &used,
        manifest(json!(0)),
        Part::Main,
        &[&format!("{path}: Invalid value: 0: cannot be 0")],
    );
    check_update(
        &used,
        manifest(json!("101%")),
        Part::Main,
        &[&format!("{path}: Invalid value: \"101%\": must not be greater than 100%")],
    );
    let mut dropped = used.clone();
    assert!(has_max_unavailable(&used));
    drop_max_unavailable(&mut dropped);
    assert!(!has_max_unavailable(&dropped));
}

#[test]
fn a_status_counts_within_its_replicas() {
    let mut stored = created::<StatefulSet>(stateful_set(json!({})));
    stored.status.as_mut().unwrap().collision_count = Some(1);
    let mut update = stateful_set(json!({}));
    update["status"] = json!({
        "replicas": 1, "readyReplicas": 0, "availableReplicas": 1, "currentReplicas": 2,
        "observedGeneration": -1,
    });
    check_update(
        &stored,
        update,
        Part::Status,
        &[
            "status.currentReplicas: Invalid value: 2: cannot be greater than status.replicas",
            "status.availableReplicas: Invalid value: 1: cannot be greater than status.readyReplicas",
            "status.observedGeneration: Invalid value: -1: must be greater than or equal to 0",
            "status.collisionCount: Invalid value: 0: cannot be decremented",
        ],
    );
}

#[test]
fn warnings_say_what_may_surprise() {
    let mut claim = claim("data");
    claim["spec"]["resources"]["requests"]["storage"] = json!("1500m");
    let manifest =
        stateful_set(json!({"volumeClaimTemplates": [claim], "revisionHistoryLimit": -1}));
    assert_eq!(
        created::<StatefulSet>(manifest).warnings(),
        [
            "spec.volumeClaimTemplates[0].resources.requests[storage]: fractional byte value \"1500m\" is invalid, must be an integer",
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended",
        ]
    );
}

#[test]
fn scale_and_row_show_the_replicas() {
    let mut manifest = stateful_set(json!({"replicas": 3}));
    manifest["status"] = json!({"replicas": 2, "readyReplicas": 1, "availableReplicas": 1});
    let mut object = defaulted::<StatefulSet>(manifest.clone());
    let expected = Scale { spec_replicas: 3, status_replicas: 2, selector: "app=db".to_owned() };
    assert_eq!(object.scale(), Some(expected));
    object.set_replicas(5);
    assert_eq!(object.spec.unwrap().replicas, Some(5));
    check_row::<StatefulSet>(
        manifest,
        "2026-01-01T00:00:42Z",
        json!(["db", "1/3", "42s", "db", "db:1"]),
    );
}

#[test]
fn several_problems_are_told_of_in_upstreams_order() {
    let manifest = stateful_set(json!({
        "podManagementPolicy": "Other",
        "updateStrategy": {"type": "Other"},
        "replicas": -1,
        "minReadySeconds": -1,
        "ordinals": {"start": -1},
        "serviceName": "a.b",
        "selector": {"matchLabels": {"app": "other"}},
        "template": {
            "metadata": {"labels": {"app": "db"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "db", "image": ""}]},
        },
    }));
    check::<StatefulSet>(
        manifest,
        &[
            "spec.podManagementPolicy: Invalid value: \"Other\": must be 'OrderedReady' or 'Parallel'",
            "spec.updateStrategy: Invalid value: {\"type\":\"Other\"}: must be 'RollingUpdate' or 'OnDelete'",
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
            "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
            "spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0",
            "spec.serviceName: Invalid value: \"a.b\": must not contain dots",
            "spec.template.metadata.labels: Invalid value: {\"app\":\"db\"}: `selector` does not match template `labels`",
            "spec.template.spec.containers[0].image: Required value",
            "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
        ],
    );
}
