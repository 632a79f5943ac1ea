//! Manifest in; problems, defaults and cells out.

use serde_json::{Value, json};

use super::Node;
use crate::kind::{Part, Resource as _};
use crate::testing::{check, check_created, check_row, check_update, created};

fn node(spec: Value, status: Value) -> Value {
    json!({"metadata": {"name": "n1", "labels": {"node-role.kubernetes.io/control-plane": ""}}, "spec": spec, "status": status})
}

#[test]
fn a_node_registers_with_its_status() {
    let manifest = node(json!({}), json!({"capacity": {"cpu": "4000m"}}));
    check_created::<Node>(manifest, "/status/allocatable", json!({"cpu": "4"}));
}

#[test]
fn taints_are_unique_and_have_an_effect() {
    let taint = json!({"key": "a", "effect": "NoSchedule"});
    check::<Node>(
        node(json!({"taints": [taint, taint, {"key": "b"}]}), json!({})),
        &[
            "metadata.taints[1]: Duplicate value: {\"effect\":\"NoSchedule\",\"key\":\"a\"}: taints must be unique by key and effect pair",
            "metadata.taints[2].effect: Required value",
        ],
    );
}

#[test]
fn ranges_are_given_once() {
    let stored = created::<Node>(node(json!({"podCIDR": "10.0.0.0/24"}), json!({})));
    check_update(
        &stored,
        node(json!({"podCIDR": "10.0.1.0/24"}), json!({})),
        Part::Main,
        &[
            "spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid",
        ],
    );
}

#[test]
fn the_row_says_ready_and_schedulable() {
    check_row::<Node>(
        node(
            json!({"unschedulable": true}),
            json!({
                "conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}],
                "nodeInfo": {"kubeletVersion": "v1.36.0", "kernelVersion": "6.1", "architecture": "amd64"},
            }),
        ),
        "2026-01-01T00:00:00Z",
        json!([
            "n1",
            "Ready,SchedulingDisabled",
            "control-plane",
            "<unknown>",
            "v1.36.0",
            "1.2.3.4",
            "<none>",
            "<unknown>",
            "6.1 (amd64)",
            "<unknown>"
        ]),
    );
}

#[test]
fn declared_features_are_sorted_names() {
    let status = |features: Value| node(json!({}), json!({"declaredFeatures": features}));
    check::<Node>(status(json!(["Alpha", "Beta/sub"])), &[]);
    check::<Node>(
        status(json!(["web", "B", "B", "A"])),
        &[
            "status.declaredFeatures[0]: Invalid value: \"web\": invalid feature name \"web\": must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes",
            "status.declaredFeatures[1]: Invalid value: \"B\": list must be sorted alphabetically",
            "status.declaredFeatures[2]: Duplicate value: \"B\"",
            "status.declaredFeatures[3]: Invalid value: \"A\": list must be sorted alphabetically",
        ],
    );
}

#[test]
fn annotations_with_json_in_them_are_read() {
    let annotated =
        |key: &str, value: &str| json!({"metadata": {"name": "n1", "annotations": {key: value}}});
    let avoid = "scheduler.alpha.kubernetes.io/preferAvoidPods";
    let path = format!("metadata.annotations.{avoid}");
    let owner = |controller: &str| {
        format!(
            r#"{{"preferAvoidPods": [{{"podSignature": {{"podController": {{"kind": "A", "name": "a"{controller}}}}}}}]}}"#
        )
    };
    for taken in ["", "null", "{}", &owner(r#", "controller": true"#)] {
        check::<Node>(annotated(avoid, taken), &[]);
    }
    let free = format!(
        "{path}[0].PodSignature.PodController.Controller: Invalid value: false: must point to a controller"
    );
    check::<Node>(annotated(avoid, &owner("")), &[&free]);
    let unnamed = format!("{path}[1].PodSignature: Required value");
    let two = owner(r#", "controller": true}}}, {"x": {"y": {"#);
    check::<Node>(annotated(avoid, &two), &[&unnamed]);
    check::<Node>(
        annotated(avoid, "["),
        &[&format!(
            "metadata.annotations.AvoidPods: Invalid value: \"{avoid}\": EOF while parsing a list at line 1 column 1"
        )],
    );
    let taints = "scheduler.alpha.kubernetes.io/taints";
    check::<Node>(annotated(taints, r#"[{"key": "a", "effect": "NoSchedule"}]"#), &[]);
    check::<Node>(
        annotated(taints, r#"[{"key": "a"}]"#),
        &[&format!("metadata.annotations.{taints}[0].effect: Required value")],
    );
}

#[test]
fn configuration_by_the_api_is_gone() {
    let source = json!({"configMap": {"namespace": "a", "name": "b", "kubeletConfigKey": "c"}});
    let manifest = node(json!({"configSource": source}), json!({"config": {"assigned": source}}));
    check_created::<Node>(manifest.clone(), "/spec/configSource", Value::Null);
    check_created::<Node>(manifest, "/status/config", Value::Null);
}

#[test]
fn what_is_deprecated_is_said() {
    let warnings = |spec: Value| {
        let manifest = json!({"metadata": {"name": "n"}, "spec": spec});
        created::<Node>(manifest).warnings()
    };
    assert_eq!(warnings(json!({"podCIDR": "10.0.0.0/24"})), Vec::<String>::new());
    assert_eq!(
        warnings(json!({"externalID": "x", "podCIDR": "10.0.0.1/24"})),
        [
            "spec.externalID: this field is deprecated, and is unused by Kubernetes",
            "spec.podCIDRs[0]: CIDR value \"10.0.0.1/24\" is ambiguous in this context (should be \"10.0.0.0/24\" or \"10.0.0.1/32\"?)",
        ]
    );
}
