//! Manifest in; problems, defaults or cells out.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::{ResourceSlice, lacks_taint_times, set_taint_times, v1beta1, v1beta2};
use crate::kind::{Part, Resource};
use crate::testing::{
    check, check_created, check_row, check_there_and_back, check_update, created, defaulted,
};
use crate::version::Version;

/// A slice that nothing is wrong with, but for the changes.
fn slice(changes: Value) -> Value {
    let mut spec = json!({
        "driver": "gpu.example.com", "nodeName": "node-a",
        "pool": {"name": "node-a", "generation": 1, "resourceSliceCount": 1},
    });
    spec.as_object_mut().unwrap().extend(changes.as_object().cloned().unwrap_or_default());
    json!({"metadata": {"name": "s"}, "spec": spec})
}

fn refused(changes: Value, expected: &[&str]) {
    check::<ResourceSlice>(slice(changes), expected);
}

fn device(changes: Value) -> Value {
    let mut device = json!({"name": "gpu-0"});
    device.as_object_mut().unwrap().extend(changes.as_object().cloned().unwrap_or_default());
    json!({"devices": [device]})
}

fn example() -> Value {
    serde_json::from_str(include_str!("example.json")).unwrap()
}

#[test]
fn a_slice_is_of_a_driver_and_a_pool() {
    check::<ResourceSlice>(example(), &[]);
    refused(
        json!({"driver": "", "pool": {"name": "", "generation": -1, "resourceSliceCount": 0}}),
        &[
            "spec.driver: Required value",
            "spec.pool.name: Required value",
            "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
            "spec.pool.generation: Invalid value: -1: must be greater than or equal to zero",
        ],
    );
}

#[test]
fn where_devices_are_is_said_in_one_way() {
    let one = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    refused(json!({"nodeName": null}), &[&format!("spec: Required value: {one}")]);
    refused(
        json!({"allNodes": true}),
        &[&format!(
            "spec: Invalid value: \"{{`nodeName`, `allNodes`}}\": {one}, but multiple fields are set"
        )],
    );
    refused(
        json!({"nodeName": "", "allNodes": false, "perDeviceNodeSelection": true}),
        &[
            "spec.nodeName: Invalid value: \"\": must be either unset or set to a non-empty string",
            "spec.allNodes: Invalid value: false: must be either unset or set to true",
        ],
    );
    refused(
        json!({"nodeName": null, "nodeSelector": {"nodeSelectorTerms": []}}),
        &[
            "spec.nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term",
            "spec.nodeSelector.nodeSelectorTerms: Invalid value: []: must have exactly one node selector term",
        ],
    );
}

#[test]
fn devices_say_where_they_are_only_if_all_do() {
    refused(
        device(json!({"allNodes": true})),
        &[
            "spec.devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec",
        ],
    );
    let per_device = |changes: Value| {
        let mut all = device(changes);
        all["perDeviceNodeSelection"] = json!(true);
        all["nodeName"] = json!(null);
        all
    };
    let one = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    refused(per_device(json!({"nodeName": "node-a"})), &[]);
    refused(per_device(json!({})), &[&format!("spec.devices[0]: Required value: {one}")]);
    refused(
        per_device(json!({"nodeName": "node-a", "allNodes": true})),
        &[&format!("spec.devices[0]: Invalid value: \"{{`nodeName`, `allNodes`}}\": {one}")],
    );
}

#[test]
fn driver_pool_and_node_stay() {
    let stored = created::<ResourceSlice>(slice(json!({})));
    let pool = json!({"name": "node-b", "generation": 2, "resourceSliceCount": 1});
    check_update(
        &stored,
        slice(json!({"driver": "other.example.com", "nodeName": "node-b", "pool": pool})),
        Part::Main,
        &[
            "spec.pool.name: Invalid value: \"node-b\": field is immutable",
            "spec.driver: Invalid value: \"other.example.com\": field is immutable",
            "spec.nodeName: Invalid value: \"node-b\": field is immutable",
        ],
    );
}

#[test]
fn an_attribute_has_one_value() {
    let attributes = |all: Value| device(json!({"attributes": all}));
    refused(
        attributes(json!({
            "a": {}, "b": {"int": 1, "bool": true}, "c": {"string": "x".repeat(65)},
            "d": {"version": "1.0"},
        })),
        &[
            "spec.devices[0].attributes[a]: Invalid value: \"\": exactly one value must be specified",
            "spec.devices[0].attributes[b]: Invalid value: {\"bool\":true,\"int\":1}: exactly one value must be specified",
            "spec.devices[0].attributes[c].string: Too long: may not be more than 64 bytes",
            "spec.devices[0].attributes[d].version: Invalid value: \"1.0\": must be a string compatible with semver.org spec 2.0.0",
        ],
    );
    let many: serde_json::Map<String, Value> =
        (0..33).map(|it| (format!("a{it}"), json!({"int": it}))).collect();
    refused(
        attributes(Value::Object(many)),
        &[
            "spec.devices[0]: Invalid value: 33: the total number of attributes and capacities must not exceed 32",
        ],
    );
}

#[test]
fn what_may_be_asked_of_a_capacity_fits_into_it() {
    let capacity = |policy: Value| {
        device(json!({
            "allowMultipleAllocations": true,
            "capacity": {"memory": {"value": "10", "requestPolicy": policy}},
        }))
    };
    let path = "spec.devices[0].capacity[memory].requestPolicy";
    refused(capacity(json!({"default": "2", "validValues": ["2", "4"]})), &[]);
    refused(
        capacity(json!({"default": "3", "validValues": ["4", "2", "20"]})),
        &[
            &format!(
                "{path}.validValues[1]: Invalid value: \"2\": values must be sorted in ascending order"
            ),
            &format!(
                "{path}.validValues[2]: Invalid value: \"20\": option is larger than capacity value: 10"
            ),
            &format!(
                "{path}.validValues: Invalid value: \"3\": default value is not valid according to the requestPolicy"
            ),
        ],
    );
    refused(
        capacity(json!({"validRange": {"min": "1"}})),
        &[&format!("{path}.default: Required value: required when validRange is defined")],
    );
    refused(
        capacity(json!({"default": "1", "validRange": {"min": "2", "max": "11", "step": "2"}})),
        &[
            &format!("{path}.validRange.min: Invalid value: \"1\": default is less than min: 2"),
            &format!(
                "{path}.validRange.max: Invalid value: \"11\": max is larger than capacity value: 10"
            ),
            &format!(
                "{path}.validRange.step: Invalid value: \"1\": value is not a multiple of a given step (2) from (2)"
            ),
            &format!(
                "{path}.validRange.step: Invalid value: \"11\": value is not a multiple of a given step (2) from (2)"
            ),
        ],
    );
    refused(
        capacity(json!({"default": "1", "validValues": ["1"], "validRange": {"min": "1"}})),
        &[&format!(
            "{path}: Forbidden: exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time"
        )],
    );
    refused(
        device(json!({"capacity": {"memory": {"value": "1", "requestPolicy": {}}}})),
        &[&format!("{path}: Forbidden: allowMultipleAllocations must be true")],
    );
}

#[test]
fn steps_of_nothing_lead_nowhere() {
    refused(
        device(json!({
            "allowMultipleAllocations": true,
            "capacity": {"m": {"value": "9", "requestPolicy": {
                "default": "2", "validRange": {"min": "1", "step": "0"},
            }}},
        })),
        &[
            "spec.devices[0].capacity[m].requestPolicy.validRange.step: Invalid value: \"2\": value is not a multiple of a given step (0) from (1)",
        ],
    );
}

#[test]
fn counters_are_named_and_there() {
    refused(
        json!({"sharedCounters": [{"name": "", "counters": {}}, {"name": "", "counters": {"a": {"value": "1"}}}]}),
        &[
            "spec.sharedCounters[0].name: Required value",
            "spec.sharedCounters[0].counters: Required value",
            "spec.sharedCounters[1].name: Required value",
            "spec.sharedCounters[1]: Duplicate value: \"\"",
        ],
    );
    refused(
        json!({"sharedCounters": [], "devices": []}),
        &["spec: Invalid value: \"\": only one of `sharedCounters` or `devices` is allowed"],
    );
    refused(
        device(json!({"consumesCounters": [{"counterSet": "", "counters": {}}]})),
        &[
            "spec.devices[0].consumesCounters[0].counterSet: Required value",
            "spec.devices[0].consumesCounters[0].counters: Required value",
        ],
    );
}

#[test]
fn tainted_devices_are_half_as_many() {
    let devices = |n: usize, taints: Value| {
        let one = |it: usize| json!({"name": format!("d{it}"), "taints": taints});
        json!({"devices": (0..n).map(one).collect::<Vec<_>>()})
    };
    refused(devices(128, json!([])), &[]);
    refused(devices(129, json!([])), &["spec.devices: Too many: 129: must have at most 128 items"]);
    refused(
        devices(65, json!([{"key": "k", "effect": "None"}])),
        &["spec.devices: Too many: 65: must have at most 64 items"],
    );
}

#[test]
fn taints_that_stay_are_not_looked_at_again() {
    let tainted = |effect: &str| slice(device(json!({"taints": [{"key": "k", "effect": effect}]})));
    let stored = created::<ResourceSlice>(tainted("Explode"));
    check_update(&stored, tainted("Explode"), Part::Main, &[]);
    check_update(
        &stored,
        tainted("Implode"),
        Part::Main,
        &[
            "spec.devices[0].taints[0].effect: Unsupported value: \"Implode\": supported values: \"NoExecute\", \"NoSchedule\", \"None\"",
        ],
    );
    assert!(created::<ResourceSlice>(tainted("None")).is_new_generation(&stored));
}

#[test]
fn taints_are_there_since_they_were_written() {
    let mut written = created::<ResourceSlice>(slice(device(
        json!({"taints": [{"key": "k", "effect": "None"}]}),
    )));
    assert!(lacks_taint_times(&written));
    set_taint_times(&mut written, &Time("2024-01-02T03:04:05Z".parse().unwrap()));
    assert!(!lacks_taint_times(&written));
}

#[test]
fn fields_of_features_that_are_off_are_dropped_unless_they_are_in_use() {
    let off = device(json!({
        "attributes": {"a": {"ints": [1], "int": 1}},
        "nodeAllocatableResourceMappings": {"cpu": {}},
    }));
    check_created::<ResourceSlice>(
        slice(off.clone()),
        "/spec/devices/0",
        json!({"name": "gpu-0", "attributes": {"a": {"int": 1}}}),
    );
    let stored = defaulted::<ResourceSlice>(slice(off.clone()));
    let mut written = defaulted::<ResourceSlice>(slice(off));
    written.prepare_update(&stored, Part::Main);
    assert_eq!(written, stored);
    let mappings = &written.spec.devices.unwrap()[0].node_allocatable_resource_mappings;
    let multiplier = mappings.as_ref().unwrap()["cpu"].allocation_multiplier.clone();
    assert_eq!(multiplier.unwrap().0, "1");
}

#[test]
fn mappings_are_of_capacities_that_there_are() {
    let with =
        |mappings: Value| slice(device(json!({"nodeAllocatableResourceMappings": mappings})));
    let stored = defaulted::<ResourceSlice>(with(json!({"cpu": {}})));
    check_update(
        &stored,
        with(json!({
            "cpu": {"capacityKey": "none", "allocationMultiplier": "0"},
            "example.com/gpu": {"capacityKey": ""},
        })),
        Part::Main,
        &[
            "spec.devices[0].nodeAllocatableResourceMappings[cpu].allocationMultiplier: Invalid value: \"0\": must be positive",
            "spec.devices[0].nodeAllocatableResourceMappings[cpu].capacityKey: Not found: \"none\"",
            "spec.devices[0].nodeAllocatableResourceMappings[example.com/gpu]: Invalid value: \"example.com/gpu\": must be a node allocatable resource name",
            "spec.devices[0].nodeAllocatableResourceMappings[example.com/gpu].capacityKey: Invalid value: \"\": capacityKey must not be an empty string",
        ],
    );
}

#[test]
fn conditions_of_binding_go_with_those_of_failing() {
    refused(
        device(json!({"bindingConditions": ["a", "a"], "bindingFailureConditions": ["a"]})),
        &[
            "spec.devices[0].bindingConditions[1]: Duplicate value: \"a\"",
            "spec.devices[0].bindingFailureConditions[0]: Invalid value: \"a\": bindingFailureConditions must not overlap with bindingConditions",
        ],
    );
    refused(
        device(json!({"bindingFailureConditions": ["a"]})),
        &[
            "spec.devices[0].bindingConditions: Invalid value: null: bindingConditions are required to use bindingFailureConditions",
        ],
    );
    refused(
        device(json!({"bindingConditions": [], "bindingFailureConditions": ["a"]})),
        &[
            "spec.devices[0].bindingConditions: Invalid value: []: bindingConditions are required to use bindingFailureConditions",
        ],
    );
}

#[test]
fn other_versions_lose_nothing() {
    let hub = created::<ResourceSlice>(example());
    check_there_and_back::<v1beta1::ResourceSlice, ResourceSlice>(&hub);
    check_there_and_back::<v1beta2::ResourceSlice, ResourceSlice>(&hub);
}

#[test]
fn devices_of_v1beta1_are_one_level_deeper() {
    let manifest = json!({
        "apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {
            "driver": "d", "nodeName": "", "allNodes": false,
            "pool": {"name": "p", "generation": 0, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", "basic": {"attributes": {"a": {"int": 1}}}}],
        },
    });
    let hub: ResourceSlice = defaulted::<v1beta1::ResourceSlice>(manifest).into_hub();
    assert_eq!((&hub.spec.node_name, hub.spec.all_nodes), (&None, None));
    let device = &hub.spec.devices.unwrap()[0];
    assert_eq!(device.name, "gpu-0");
    assert_eq!(device.attributes.as_ref().unwrap()["a"].int, Some(1));
}

#[test]
fn slices_are_found_by_node_and_driver() {
    let slice = created::<ResourceSlice>(slice(json!({})));
    assert_eq!(
        slice.fields(),
        [("spec.nodeName", "node-a".to_owned()), ("spec.driver", "gpu.example.com".to_owned()),]
    );
}

#[test]
fn drivers_are_in_lower_case() {
    let slice = created::<ResourceSlice>(slice(json!({"driver": "GPU.example.com"})));
    assert_eq!(
        slice.warnings(),
        [
            "spec.driver: driver names should be lowercase; \"GPU.example.com\" contains uppercase characters"
        ]
    );
}

#[test]
fn columns_show_where_it_is() {
    let mut manifest = example();
    manifest["metadata"]["creationTimestamp"] = json!("2024-01-02T03:04:05Z");
    check_row::<ResourceSlice>(
        manifest,
        "2024-01-02T03:05:05Z",
        json!(["node-a-gpu.example.com", "node-a", "gpu.example.com", "node-a", "60s"]),
    );
}
