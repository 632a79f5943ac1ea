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

/// A template with problems of most parts of a pod, and what they are called, in upstream's order.
#[test]
fn several_problems_are_told_of_in_upstreams_order() {
    check::<Deployment>(
        deployment(json!({
            "replicas": -1,
            "selector": {"matchLabels": {"app": "other"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "volumes": [{"name": "V", "emptyDir": {}}],
                    "initContainers": [{"name": "web"}],
                    "containers": [
                        {"name": "web", "image": "", "ports": [{"containerPort": 0}]},
                        {"name": "web", "image": "a", "imagePullPolicy": "Perhaps"},
                    ],
                    "restartPolicy": "Never",
                    "dnsPolicy": "Other",
                    "nodeSelector": {"a b": "c"},
                    "securityContext": {"runAsUser": -1, "fsGroup": -1},
                    "serviceAccountName": "A",
                    "activeDeadlineSeconds": 0,
                    "hostname": "H",
                    "tolerations": [{"operator": "Other"}],
                    "hostAliases": [{"ip": "x"}],
                    "priorityClassName": "P",
                },
            },
            "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}},
            "minReadySeconds": -1,
            "revisionHistoryLimit": -1,
            "progressDeadlineSeconds": -2,
        })),
        SEVERAL,
    );
}

const SEVERAL: &[&str] = &[
    "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
    "spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`",
    "spec.template.spec.volumes[0].name: Invalid value: \"V\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
    "spec.template.spec.containers[0].image: Required value",
    "spec.template.spec.containers[0].ports[0].containerPort: Required value",
    "spec.template.spec.containers[1].imagePullPolicy: Unsupported value: \"Perhaps\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
    "spec.template.spec.containers[1].name: Duplicate value: \"web\"",
    "spec.template.spec.initContainers[0].image: Required value",
    "spec.template.spec.initContainers[0].name: Duplicate value: \"web\"",
    "spec.template.spec.dnsPolicy: Unsupported value: \"Other\": supported values: \"ClusterFirst\", \"ClusterFirstWithHostNet\", \"Default\", \"None\"",
    "spec.template.spec.nodeSelector: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
    "spec.template.spec.securityContext.fsGroup: Invalid value: -1: must be between 0 and 2147483647, inclusive",
    "spec.template.spec.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
    "spec.template.spec.serviceAccountName: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
    "spec.template.spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
    "spec.template.spec.hostname: Invalid value: \"H\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
    "spec.template.spec.tolerations[0].operator: Invalid value: \"Other\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
    "spec.template.spec.tolerations[0].operator: Unsupported value: \"Other\": supported values: \"Equal\", \"Exists\"",
    "spec.template.spec.hostAliases[0].ip: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
    "spec.template.spec.priorityClassName: Invalid value: \"P\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
    "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
    "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported",
    "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
    "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
    "spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
    "spec.progressDeadlineSeconds: Invalid value: -2: must be greater than or equal to 0",
    "spec.progressDeadlineSeconds: Invalid value: -2: must be greater than minReadySeconds",
];

#[test]
fn a_strategy_that_is_none_is_shown_whole() {
    check::<Deployment>(
        deployment(json!({"strategy": {"type": "Other"}})),
        &[
            "spec.strategy: Unsupported value: {\"type\":\"Other\"}: supported values: \"Recreate\", \"RollingUpdate\"",
        ],
    );
}

/// What a template says is said again when something but its metadata has changed.
#[test]
fn warnings_come_with_a_new_one_and_with_each_change_of_its_spec() {
    let pod = json!({"terminationGracePeriodSeconds": -1,
                     "containers": [{"name": "web", "image": "nginx:1"}]});
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": pod});
    let mut manifest = deployment(json!({ "template": template }));
    manifest["metadata"]["name"] = json!("a.b");
    let mut new = created::<Deployment>(manifest);
    let said = "spec.template.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1";
    assert_eq!(
        new.warnings(),
        [
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]",
            said,
        ]
    );
    let stored = new.clone();
    let none = Vec::<String>::new();
    assert_eq!(new.update_warnings(&stored, Part::Main), none);
    new.metadata.generation = Some(2);
    assert_eq!(new.update_warnings(&stored, Part::Main), [said]);
    assert_eq!(new.update_warnings(&stored, Part::Status), none);
}
