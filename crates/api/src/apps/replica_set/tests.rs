//! Manifest in; problems, defaults and cells out.

use serde_json::{Value, json};

use super::ReplicaSet;
use crate::kind::Resource;
use crate::testing::{check, check_created, check_row};

fn replica_set() -> Value {
    json!({"metadata": {"name": "web"}, "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "nginx"}]},
        },
    }})
}

#[test]
fn a_minimal_one_is_valid() {
    check_created::<ReplicaSet>(replica_set(), "/spec/replicas", json!(1));
    check_created::<ReplicaSet>(replica_set(), "/status", json!({"replicas": 0}));
    check::<ReplicaSet>(replica_set(), &[]);
}

#[test]
fn the_selector_is_needed_and_selects_something() {
    let mut manifest = replica_set();
    manifest["spec"]["selector"] = json!({});
    check::<ReplicaSet>(
        manifest.clone(),
        &["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
    );
    manifest["spec"]["selector"] = Value::Null;
    check::<ReplicaSet>(
        manifest,
        &[
            "spec.selector: Required value",
            "spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`",
        ],
    );
}

#[test]
fn an_empty_selector_is_written_as_it_was_read() {
    for selector in [json!({}), Value::Null] {
        let mut manifest = replica_set();
        manifest["spec"]["selector"] = selector.clone();
        let object = ReplicaSet::decode(manifest.to_string().as_bytes()).unwrap();
        let written: Value = serde_json::from_slice(&object.encode()).unwrap();
        assert_eq!(written["spec"].get("selector"), Some(&selector));
    }
}

#[test]
fn the_row_counts_pods() {
    let mut manifest = replica_set();
    manifest["status"] = json!({"replicas": 2, "readyReplicas": 1});
    check_row::<ReplicaSet>(
        manifest,
        "2026-01-01T00:00:00Z",
        json!(["web", 1, 2, 1, "<unknown>", "web", "nginx", "app=web"]),
    );
}

#[test]
fn several_problems_are_told_of_in_upstreams_order() {
    let mut manifest = replica_set();
    manifest["spec"]["replicas"] = json!(-1);
    manifest["spec"]["minReadySeconds"] = json!(-1);
    manifest["spec"]["selector"] = json!({});
    manifest["spec"]["template"]["spec"]["containers"][0]["image"] = json!("");
    manifest["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    check::<ReplicaSet>(
        manifest,
        &[
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
            "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
            "spec.selector: Invalid value: {}: empty selector is invalid for deployment",
            "spec.template.spec.containers[0].image: Required value",
            "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
        ],
    );
}
