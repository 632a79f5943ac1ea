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
