//! Manifest in; problems, defaults or cells out. What claims and their templates have in common is
//! tested here.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::{ResourceClaim, v1beta1, v1beta2};
use crate::kind::{Part, Resource};
use crate::testing::{
    check, check_created, check_row, check_there_and_back, check_update, created, defaulted,
};
use crate::version::Version;

fn claim(requests: Value) -> Value {
    json!({"metadata": {"name": "c", "namespace": "n"}, "spec": {"devices": {"requests": requests}}})
}

fn example() -> Value {
    serde_json::from_str(include_str!("example.json")).unwrap()
}

fn refused(requests: Value, expected: &[&str]) {
    check::<ResourceClaim>(claim(requests), expected);
}

/// A claim that has one device, with these changes to its status.
fn with_status(changes: Value) -> Value {
    let mut manifest =
        claim(json!([{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]));
    let mut status = json!({"allocation": {"devices": {"results": [
        {"request": "gpu", "driver": "gpu.example.com", "pool": "node-a", "device": "gpu-0"},
    ]}}});
    status.as_object_mut().unwrap().extend(changes.as_object().cloned().unwrap_or_default());
    manifest["status"] = status;
    manifest
}

fn pending() -> ResourceClaim {
    created::<ResourceClaim>(with_status(json!({})))
}

fn allocated() -> ResourceClaim {
    defaulted::<ResourceClaim>(with_status(json!({})))
}

#[test]
fn one_device_is_asked_for_unless_it_says_otherwise() {
    let manifest = claim(json!([
        {"name": "a", "exactly": {"deviceClassName": "c", "tolerations": [{"key": "k"}]}},
        {"name": "b", "firstAvailable": [{"name": "x", "deviceClassName": "c", "allocationMode": "All"}]},
    ]));
    for (pointer, expected) in [
        ("/spec/devices/requests/0/exactly/allocationMode", json!("ExactCount")),
        ("/spec/devices/requests/0/exactly/count", json!(1)),
        ("/spec/devices/requests/0/exactly/tolerations/0/operator", json!("Equal")),
        ("/spec/devices/requests/1/firstAvailable/0/count", json!(null)),
        ("/status", json!({})),
    ] {
        check_created::<ResourceClaim>(manifest.clone(), pointer, expected);
    }
}

#[test]
fn a_request_is_exact_or_a_list_of_alternatives() {
    check::<ResourceClaim>(example(), &[]);
    refused(
        json!([
            {"name": "a"},
            {"name": "a", "exactly": {"deviceClassName": "c"}, "firstAvailable": [{"name": "x", "deviceClassName": "c"}]},
            {"name": "B", "exactly": {"deviceClassName": ""}},
        ]),
        &[
            "spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required",
            "spec.devices.requests[1]: Invalid value: null: exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set",
            "spec.devices.requests[2].name: Invalid value: \"B\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            "spec.devices.requests[2].exactly.deviceClassName: Required value",
            "spec.devices.requests[1]: Duplicate value: \"a\"",
        ],
    );
    let many: Vec<Value> = (0..33)
        .map(|it| json!({"name": format!("r{it}"), "exactly": {"deviceClassName": "c"}}))
        .collect();
    refused(json!(many), &["spec.devices.requests: Too many: 33: must have at most 32 items"]);
}

#[test]
fn counts_go_with_their_mode() {
    let exactly = |mode: &str, count: i64| json!([{"name": "a", "exactly": {"deviceClassName": "c", "allocationMode": mode, "count": count}}]);
    refused(exactly("All", 0), &[]);
    let path = "spec.devices.requests[0].exactly";
    refused(
        exactly("All", 2),
        &[&format!(
            "{path}.count: Invalid value: 2: must not be specified when allocationMode is 'All'"
        )],
    );
    refused(
        exactly("ExactCount", -1),
        &[&format!("{path}.count: Invalid value: -1: must be greater than zero")],
    );
    refused(
        exactly("Some", 1),
        &[&format!(
            "{path}.allocationMode: Unsupported value: \"Some\": supported values: \"All\", \"ExactCount\""
        )],
    );
}

#[test]
fn tolerations_have_their_forms() {
    let path = "spec.devices.requests[0].exactly.tolerations";
    refused(
        json!([{"name": "a", "exactly": {"deviceClassName": "c", "tolerations": [
            {"key": "k", "operator": "Exists", "value": "v"},
            {"key": "k", "operator": "Near", "effect": "Explode"},
            {"operator": ""},
        ]}}]),
        &[
            &format!("{path}[0].value: Invalid value: \"v\": must be empty for operator `Exists`"),
            &format!(
                "{path}[1].operator: Unsupported value: \"Near\": supported values: \"Equal\", \"Exists\""
            ),
            &format!(
                "{path}[1].effect: Unsupported value: \"Explode\": supported values: \"NoExecute\", \"NoSchedule\", \"None\""
            ),
        ],
    );
}

#[test]
fn constraints_and_configs_are_of_requests_that_there_are() {
    let mut manifest = example();
    manifest["spec"]["devices"]["constraints"] =
        json!([{"requests": ["cpu", "nic/none", "a/b/c"], "matchAttribute": "numa"}, {}]);
    manifest["spec"]["devices"]["config"] = json!([{"requests": ["gpu", "gpu"]}]);
    let unknown = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
    let (constraints, config) = ("spec.devices.constraints", "spec.devices.config[0]");
    check::<ResourceClaim>(
        manifest,
        &[
            &format!("{constraints}[0].requests[0]: Invalid value: \"cpu\": {unknown}"),
            &format!("{constraints}[0].requests[1]: Invalid value: \"nic/none\": {unknown}"),
            &format!("{constraints}[0].requests[2]: Invalid value: \"a/b/c\": {unknown}"),
            &format!(
                "{constraints}[0].matchAttribute: Invalid value: \"numa\": a fully qualified name must be a domain and a name separated by a slash"
            ),
            &format!(
                "{constraints}[1]: Required value: exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set"
            ),
            &format!("{config}.requests[1]: Duplicate value: \"gpu\""),
            &format!("{config}.opaque: Required value"),
        ],
    );
}

#[test]
fn what_is_asked_for_does_not_change() {
    let stored = created::<ResourceClaim>(claim(json!([])));
    check_update(
        &stored,
        claim(json!([{"name": "a"}])),
        Part::Main,
        &[
            "spec: Invalid value: {\"devices\":{\"requests\":[{\"name\":\"a\"}]}}: field is immutable",
        ],
    );
}

#[test]
fn an_allocation_comes_whole_and_stays() {
    check_update(&pending(), with_status(json!({})), Part::Status, &[]);
    let other = with_status(json!({"allocation": {"devices": {"results": [
        {"request": "nic", "driver": "", "pool": "", "device": "", "shareID": "x", "bindingConditions": ["a"]},
    ], "config": [{"source": "Thin-Air", "opaque": {"driver": "d", "parameters": {}}}]}}}));
    let result = "status.allocation.devices.results[0]";
    check_update(
        &pending(),
        other.clone(),
        Part::Status,
        &[
            &format!(
                "{result}.request: Invalid value: \"nic\": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
            ),
            &format!("{result}.driver: Required value"),
            &format!("{result}.pool: Required value"),
            &format!(
                "{result}.device: Invalid value: \"\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ),
            &format!(
                "{result}.bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to use bindingConditions"
            ),
            &format!(
                "{result}.shareID: Invalid value: \"x\": error validating uid: invalid UUID length: 1"
            ),
            "status.allocation.devices.config[0].source: Unsupported value: \"Thin-Air\": supported values: \"FromClaim\", \"FromClass\"",
        ],
    );
    let mut errors = apimachinery::FieldErrors::new();
    let mut written = defaulted::<ResourceClaim>(other);
    written.prepare_update(&allocated(), Part::Status);
    written.validate_update(&allocated(), Part::Status, &mut errors);
    let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("status.allocation: Invalid value"), "{found:?}");
    assert!(found[0].ends_with("field is immutable"), "{found:?}");
}

#[test]
fn consumers_use_what_is_allocated_and_not_going() {
    let pod = json!([{"resource": "pods", "name": "p", "uid": "u"}]);
    check_update(&allocated(), with_status(json!({"reservedFor": pod})), Part::Status, &[]);
    check_update(
        &pending(),
        with_status(json!({"allocation": null, "reservedFor": [{}, {}]})),
        Part::Status,
        &[
            "status.reservedFor[0].resource: Required value",
            "status.reservedFor[0].name: Required value",
            "status.reservedFor[0].uid: Required value",
            "status.reservedFor[1].resource: Required value",
            "status.reservedFor[1].name: Required value",
            "status.reservedFor[1].uid: Required value",
            "status.reservedFor[1]: Duplicate value: \"\"",
            "status.reservedFor: Forbidden: may not be specified when `allocated` is not set",
        ],
    );
    let mut going = allocated();
    going.metadata.deletion_timestamp = Some(Time("2024-01-02T03:04:05Z".parse().unwrap()));
    check_update(
        &going,
        with_status(json!({"reservedFor": pod})),
        Part::Status,
        &[
            "status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set",
        ],
    );
}

#[test]
fn drivers_speak_of_devices_that_are_allocated() {
    let device = |changes: Value| {
        let mut device = json!({"driver": "gpu.example.com", "pool": "node-a", "device": "gpu-0"});
        device.as_object_mut().unwrap().extend(changes.as_object().cloned().unwrap_or_default());
        with_status(json!({"devices": [device]}))
    };
    let network = json!({"interfaceName": "eth1", "ips": ["10.0.0.1/24", "2001:db8::1/64"]});
    check_update(
        &allocated(),
        device(json!({"networkData": network, "data": {"a": 1}})),
        Part::Status,
        &[],
    );
    check_update(
        &allocated(),
        device(json!({"device": "gpu-1", "data": [], "networkData": {
            "interfaceName": "x".repeat(257), "ips": ["10.0.0.1", "::ffff:10.0.0.1/120"],
        }})),
        Part::Status,
        &[
            "status.devices[0]: Invalid value: {\"Driver\":\"gpu.example.com\",\"Pool\":\"node-a\",\"Device\":\"gpu-1\",\"ShareID\":\"\"}: must be an allocated device in the claim",
            "status.devices[0].data: Invalid value: \"<value omitted>\": must be a valid JSON object",
            "status.devices[0].networkData.interfaceName: Too long: may not be more than 256 bytes",
            "status.devices[0].networkData.ips[0]: Invalid value: \"10.0.0.1\": must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)",
            "status.devices[0].networkData.ips[1]: Invalid value: \"::ffff:10.0.0.1/120\": must be in canonical form (\"10.0.0.1/24\")",
        ],
    );
}

#[test]
fn what_is_said_of_devices_goes_with_them() {
    let devices = json!([{"driver": "gpu.example.com", "pool": "node-a", "device": "gpu-0"}]);
    let stored = defaulted::<ResourceClaim>(with_status(json!({"devices": devices})));
    let freed = with_status(json!({"allocation": null, "devices": devices}));
    let mut written = defaulted::<ResourceClaim>(freed);
    written.prepare_update(&stored, Part::Status);
    assert_eq!(written.status.unwrap().devices, None);
}

#[test]
fn other_versions_lose_nothing() {
    let mut hub = created::<ResourceClaim>(example());
    hub.status = allocated().status;
    check_there_and_back::<v1beta1::ResourceClaim, ResourceClaim>(&hub);
    check_there_and_back::<v1beta2::ResourceClaim, ResourceClaim>(&hub);
}

#[test]
fn requests_of_v1beta1_have_their_fields_beside_their_name() {
    let manifest = json!({
        "apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": [
            {"name": "a", "deviceClassName": "c"},
            {"name": "b", "firstAvailable": [{"name": "x", "deviceClassName": "c"}]},
        ]}},
    });
    let hub: ResourceClaim = defaulted::<v1beta1::ResourceClaim>(manifest).into_hub();
    let requests = hub.spec.devices.unwrap().requests.unwrap();
    assert_eq!(requests[0].exactly.as_ref().unwrap().count, Some(1));
    assert!(requests[1].exactly.is_none());
    assert_eq!(requests[1].first_available.as_ref().unwrap()[0].count, Some(1));
}

#[test]
fn whoever_writes_one_is_told_that_nothing_is_allocated() {
    assert_eq!(
        pending().warnings(),
        ["spec: accepted, but devices are not allocated on this server"]
    );
}

#[test]
fn columns_show_how_far_it_is() {
    let row = |status: Value, expected: &str| {
        let mut manifest = with_status(status);
        manifest["metadata"]["creationTimestamp"] = json!("2024-01-02T03:04:05Z");
        check_row::<ResourceClaim>(manifest, "2024-01-02T03:05:05Z", json!(["c", expected, "60s"]));
    };
    row(json!({"allocation": null}), "pending");
    row(json!({}), "allocated");
    let pod = json!([{"resource": "pods", "name": "p", "uid": "u"}]);
    row(json!({"reservedFor": pod}), "allocated,reserved");
}
