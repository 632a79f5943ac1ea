//! Manifest in; problems, defaults and cells out.

use serde_json::{Value, json};

use super::ReplicationController;
use crate::testing::{check, check_created};

fn controller() -> Value {
    json!({"metadata": {"name": "web"}, "spec": {"template": {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "nginx"}]},
    }}})
}

#[test]
fn labels_and_selector_come_from_the_template() {
    check_created::<ReplicationController>(controller(), "/spec/selector", json!({"app": "web"}));
    check_created::<ReplicationController>(controller(), "/metadata/labels", json!({"app": "web"}));
    check_created::<ReplicationController>(controller(), "/spec/replicas", json!(1));
    check_created::<ReplicationController>(controller(), "/status", json!({"replicas": 0}));
    check::<ReplicationController>(controller(), &[]);
}

#[test]
fn a_selector_and_a_template_are_needed() {
    check::<ReplicationController>(
        json!({"spec": {}}),
        &["spec.selector: Required value", "spec.template: Required value"],
    );
}

#[test]
fn several_problems_are_told_of_in_upstreams_order() {
    let mut manifest = controller();
    manifest["spec"]["replicas"] = json!(-1);
    manifest["spec"]["minReadySeconds"] = json!(-1);
    manifest["spec"]["selector"] = json!({"app": "other"});
    manifest["spec"]["template"]["spec"]["containers"][0]["image"] = json!("");
    manifest["spec"]["template"]["spec"]["activeDeadlineSeconds"] = json!(1);
    check::<ReplicationController>(
        manifest,
        &[
            "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
            "spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`",
            "spec.template.spec.containers[0].image: Required value",
            "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicationController is not Supported",
        ],
    );
}
