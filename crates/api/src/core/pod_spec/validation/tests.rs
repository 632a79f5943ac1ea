//! Spec in, problems out: claims, devices, handlers, rules of restarts.

use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Value, json};

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use super::super::defaults;
use super::Values;

/// A pod of one container, with these fields of the pod and of the container.
fn check(pod: &Value, container: &Value, expected: &[&str]) {
    let mut whole = json!({"containers": [{"name": "c", "image": "i"}]});
    let add = |to: &mut Value, from: &Value| {
        to.as_object_mut().unwrap().extend(from.as_object().unwrap().clone());
    };
    add(&mut whole, pod);
    add(&mut whole["containers"][0], container);
    let mut spec: PodSpec = serde_json::from_value(whole).unwrap();
    defaults::apply(&mut spec);
    let mut errors = FieldErrors::new();
    super::validate_spec(&spec, Values::OfLabels, &Path::new("spec"), &mut errors);
    let problems: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    for (problem, start) in problems.iter().zip(expected) {
        assert!(problem.starts_with(start), "{problem:?} does not start with {start:?}");
    }
}

fn of_pod(pod: Value, expected: &[&str]) {
    check(&pod, &json!({}), expected);
}

fn of_container(container: Value, expected: &[&str]) {
    check(&json!({}), &container, expected);
}

#[test]
fn containers_use_the_claims_of_their_pod() {
    let claims = |used: Value| json!({"resources": {"claims": used}});
    let known = json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": "x"}]});
    check(&known, &claims(json!([{"name": "gpu"}])), &[]);
    let both = json!([{"name": "gpu", "request": "a"}, {"name": "gpu", "request": "b"}]);
    check(&known, &claims(both), &[]);
    let path = "spec.containers[0].resources.claims";
    check(
        &known,
        &claims(json!([{"name": "gpu"}, {"name": "gpu"}])),
        &[&format!("{path}[1]: Duplicate value: \"gpu\"")],
    );
    check(
        &known,
        &claims(json!([{"name": "b"}])),
        &[&format!(
            "{path}[0]: Not found: \"b\": must be one of the names in pod.spec.resourceClaims: gpu"
        )],
    );
    of_container(
        claims(json!([{"name": "a", "request": "R"}])),
        &[
            &format!("{path}[0].request: Invalid value: \"R\": a lowercase RFC 1123 label"),
            &format!(
                "{path}[0]: Not found: \"a\": must be one of the names in pod.spec.resourceClaims \
                 which is empty"
            ),
        ],
    );
    of_pod(
        json!({"resourceClaims": [{"name": "a"}, {"name": "a", "resourceClaimName": "x"}]}),
        &[
            "spec.resourceClaims[0]: Invalid value: {\"name\":\"a\"}: must specify one of:",
            "spec.resourceClaims[1].name: Duplicate value: \"a\"",
        ],
    );
}

#[test]
fn devices_are_of_claims() {
    let volumes = json!({"volumes": [
        {"name": "disk", "persistentVolumeClaim": {"claimName": "x"}},
        {"name": "dir", "emptyDir": {}},
    ]});
    let devices = |all: Value| json!({"volumeDevices": all});
    let path = "spec.containers[0].volumeDevices";
    check(&volumes, &devices(json!([{"name": "disk", "devicePath": "/dev/x"}])), &[]);
    check(
        &volumes,
        &devices(
            json!([{"name": "dir", "devicePath": "/dev/x"}, {"name": "no", "devicePath": ".."}]),
        ),
        &[
            &format!("{path}[0].name: Invalid value: \"dir\": can only use volume source type of"),
            &format!("{path}[1].name: Not found: \"no\""),
            &format!("{path}[1].devicePath: Invalid value: \"..\": can not contain backsteps"),
        ],
    );
    check(
        &volumes,
        &json!({
            "volumeDevices": [{"name": "disk", "devicePath": "/x"}],
            "volumeMounts": [{"name": "disk", "mountPath": "/x"}],
        }),
        &[
            "spec.containers[0].volumeMounts[0].name: Invalid value: \"disk\": must not already",
            "spec.containers[0].volumeMounts[0].mountPath: Invalid value: \"/x\": must not already",
            &format!("{path}[0].name: Invalid value: \"disk\": must not already"),
            &format!("{path}[0].devicePath: Invalid value: \"/x\": must not already"),
        ],
    );
}

#[test]
fn the_first_handler_counts() {
    of_container(
        json!({"livenessProbe": {"exec": {}, "httpGet": {"port": 0}}}),
        &[
            "spec.containers[0].livenessProbe.exec.command: Required value",
            "spec.containers[0].livenessProbe.httpGet: Forbidden: may not specify more than 1",
        ],
    );
    let header = |name: &str| {
        json!({"readinessProbe": {"httpGet":
            {"path": "/", "port": 80, "httpHeaders": [{"name": name, "value": ""}]}}})
    };
    of_container(header("X-A"), &[]);
    of_container(
        header("a.b"),
        &["spec.containers[0].readinessProbe.httpGet.httpHeaders: Invalid value: \"a.b\": a valid"],
    );
    of_container(
        json!({"lifecycle": {"preStop": {"sleep": {"seconds": 60}}}}),
        &["spec.containers[0].lifecycle.preStop.sleep: Invalid value: 60: must be non-negative"],
    );
}

#[test]
fn rules_of_restarts_need_a_policy() {
    let rules = json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}]);
    of_container(json!({"restartPolicy": "Never", "restartPolicyRules": rules}), &[]);
    of_container(
        json!({"restartPolicyRules": [{"action": "Stop"}]}),
        &[
            "spec.containers[0].restartPolicy: Required value: must specify restartPolicy when",
            "spec.containers[0].restartPolicyRules[0].action: Unsupported value: \"Stop\"",
            "spec.containers[0].restartPolicyRules[0].exitCodes: Required value: must be specified",
        ],
    );
}

#[test]
fn huge_pages_are_whole_and_not_alone() {
    let limits = |all: Value| json!({"resources": {"limits": all, "requests": all}});
    of_container(limits(json!({"cpu": "1", "hugepages-2Mi": "4Mi"})), &[]);
    let resources = "spec.containers[0].resources";
    of_container(
        limits(json!({"cpu": "1", "hugepages-2Mi": "3Mi"})),
        &[
            &format!(
                "{resources}.limits[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive"
            ),
            &format!("{resources}.requests[hugepages-2Mi]: Invalid value: \"3Mi\""),
        ],
    );
    of_container(
        limits(json!({"hugepages-2Mi": "2Mi"})),
        &[&format!("{resources}: Forbidden: HugePages require cpu or memory")],
    );
    of_pod(
        json!({"resources": {"limits": {"example.com/gpu": "1"}, "requests": {"example.com/gpu": "1"}}}),
        &[
            "spec.resources.limits[example.com/gpu]: Unsupported value: \"example.com/gpu\": \
             supported values: \"cpu\", \"hugepages-\", \"memory\"",
            "spec.resources.requests[example.com/gpu]: Unsupported value",
        ],
    );
}

#[test]
fn label_keys_need_a_selector() {
    let spread = |rest: Value| {
        let mut it = json!({"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule",
            "matchLabelKeys": ["app"]});
        it.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        json!({"topologySpreadConstraints": [it]})
    };
    let path = "spec.topologySpreadConstraints[0]";
    of_pod(spread(json!({"labelSelector": {"matchLabels": {"b": "c"}}})), &[]);
    of_pod(
        spread(json!({})),
        &[&format!("{path}.matchLabelKeys: Forbidden: must not be specified when")],
    );
    // Once it may stand there: that is what the server has made of the pod's own label.
    of_pod(spread(json!({"labelSelector": {"matchLabels": {"app": "c"}}})), &[]);
    let merged = json!({"key": "app", "operator": "In", "values": ["c"]});
    let twice = json!({"matchLabels": {"app": "c"}, "matchExpressions": [merged]});
    of_pod(
        spread(json!({"labelSelector": twice})),
        &[&format!(
            "{path}[0]: Invalid value: \"app\": exists in both matchLabelKeys and labelSelector"
        )],
    );
    of_pod(
        spread(json!({"labelSelector": {}, "matchLabelKeys": ["a", "-"]})),
        &[&format!("{path}.matchLabelKeys[1]: Invalid value: \"-\": name part must consist of")],
    );
}

#[test]
fn terms_of_pod_affinity_say_where_and_beside_whom() {
    let rule = "requiredDuringSchedulingIgnoredDuringExecution";
    let path = format!("spec.affinity.podAffinity.{rule}[0]");
    let check = |term: Value, expected: &[&str]| {
        let expected: Vec<String> = expected.iter().map(|it| format!("{path}{it}")).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        of_pod(json!({"affinity": {"podAffinity": {rule: [term]}}}), &expected);
    };
    let keys = |matching: Value, mismatching: Value| {
        json!({"topologyKey": "z", "labelSelector": {"matchExpressions": [
                {"key": "a", "operator": "In", "values": ["1"]},
                {"key": "a", "operator": "Exists"},
            ]}, "matchLabelKeys": matching, "mismatchLabelKeys": mismatching})
    };
    check(keys(json!(["b"]), json!(["c"])), &[]);
    // Another requirement for a label that may not be the pod's own means something.
    check(keys(json!([]), json!(["a"])), &[]);
    check(
        keys(json!(["b", "a"]), json!([])),
        &["[1]: Invalid value: \"a\": exists in both matchLabelKeys and labelSelector"],
    );
    check(
        keys(json!(["b"]), json!(["b"])),
        &[".matchLabelKeys[0]: Invalid value: \"b\": exists in both matchLabelKeys and mismatch"],
    );
    check(
        json!({"topologyKey": "z", "matchLabelKeys": ["a"], "mismatchLabelKeys": ["b"]}),
        &[
            ".matchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
            ".mismatchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
        ],
    );
    check(
        json!({"topologyKey": "", "namespaces": ["a", "B"]}),
        &[
            ".namespace: Invalid value: \"B\"",
            ".topologyKey: Required value: can not be empty",
            ".topologyKey: Invalid value: \"\": name part must be non-empty",
            ".topologyKey: Invalid value: \"\": name part must consist of",
        ],
    );
}

#[test]
fn constraints_of_spread_are_each_of_their_own_kind() {
    let spread = |key: &str, when: &str, rest: Value| {
        let mut it = json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when});
        it.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        it
    };
    let of = |all: &[Value], expected: &[&str]| {
        let expected: Vec<String> =
            expected.iter().map(|it| format!("spec.topologySpreadConstraints{it}")).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        of_pod(json!({"topologySpreadConstraints": all}), &expected);
    };
    let (wait, go) = ("DoNotSchedule", "ScheduleAnyway");
    of(&[spread("z", wait, json!({})), spread("z", go, json!({}))], &[]);
    of(
        &[spread("z", wait, json!({})), spread("y", wait, json!({})), spread("z", wait, json!({}))],
        &["[0].{topologyKey, whenUnsatisfiable}: Duplicate value: \"{z, DoNotSchedule}\""],
    );
    of(&[spread("no label", go, json!({}))], &[]);
    of(&[spread("", go, json!({}))], &["[0].topologyKey: Required value: can not be empty"]);
    of(&[spread("z", wait, json!({"minDomains": 2}))], &[]);
    of(
        &[spread("z", "Sometimes", json!({"minDomains": 0}))],
        &[
            "[0].whenUnsatisfiable: Unsupported value: \"Sometimes\"",
            "[0].minDomains: Invalid value: 0: must be greater than zero",
            "[0].minDomains: Invalid value: 0: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not Sometimes",
        ],
    );
}

#[test]
fn a_pod_has_enough_for_its_containers() {
    let pod = |of_pod: Value, all: &[Value], init: &[Value]| {
        let container = |(index, resources): (usize, &Value)| json!({"name": format!("c{index}"), "image": "i", "resources": resources});
        let init_container = |(index, resources): (usize, &Value)| json!({"name": format!("i{index}"), "image": "i", "resources": resources});
        json!({
            "resources": of_pod,
            "containers": all.iter().enumerate().map(container).collect::<Vec<_>>(),
            "initContainers": init.iter().enumerate().map(init_container).collect::<Vec<_>>(),
        })
    };
    let cpu = |it: &str| json!({"requests": {"cpu": it}});
    of_pod(pod(cpu("2"), &[cpu("1"), cpu("1")], &[cpu("2")]), &[]);
    of_pod(
        pod(cpu("1500m"), &[cpu("1"), cpu("1")], &[]),
        &[
            "spec.resources.requests[cpu]: Invalid value: \"1500m\": must be greater than or equal to aggregate container requests of 2",
        ],
    );
    of_pod(
        pod(cpu("2"), &[cpu("1")], &[cpu("3")]),
        &[
            "spec.resources.requests[cpu]: Invalid value: \"2\": must be greater than or equal to aggregate container requests of 3",
        ],
    );
    let limits = |memory: &str| json!({"limits": {"memory": memory}});
    // Limits of several containers may be more together than the pod's.
    of_pod(pod(limits("1Gi"), &[limits("1Gi"), limits("1Gi")], &[]), &[]);
    of_pod(
        pod(limits("1Gi"), &[limits("1Gi"), limits("2048Mi")], &[]),
        &[
            "spec.resources.containers[1][memory].limits: Invalid value: \"2Gi\": must be less than or equal to pod limits of 1Gi",
        ],
    );
    let pages = |it: &str| {
        let all = json!({"cpu": "1", "hugepages-2Mi": it});
        json!({"limits": all, "requests": all})
    };
    let whole = json!({
        "limits": {"cpu": "2", "hugepages-2Mi": "4Mi"}, "requests": {"cpu": "2", "hugepages-2Mi": "4Mi"},
    });
    of_pod(pod(whole.clone(), &[pages("2Mi"), pages("2Mi")], &[]), &[]);
    of_pod(
        pod(whole, &[pages("4Mi"), pages("2Mi")], &[]),
        &[
            "spec.resources.requests[hugepages-2Mi]: Invalid value: \"4Mi\": must be greater than or equal to aggregate container requests of 6Mi",
            "spec.resources.limits[hugepages-2Mi]: Invalid value: \"4Mi\": must be greater than or equal to aggregate container limits of 6Mi",
        ],
    );
    let mut windows = pod(cpu("1"), &[cpu("2")], &[]);
    windows["os"] = json!({"name": "windows"});
    of_pod(windows, &["spec.resources: Forbidden: may not be set for a windows pod"]);
}

#[test]
fn variables_tell_of_what_there_is() {
    let path = "spec.containers[0].env[0].valueFrom";
    let variable = |source: Value, expected: &[&str]| {
        let expected: Vec<String> = expected.iter().map(|it| format!("{path}{it}")).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        of_container(json!({"env": [{"name": "a", "valueFrom": source}]}), &expected);
    };
    variable(json!({"fieldRef": {"fieldPath": "metadata.labels['app']"}}), &[]);
    variable(json!({"resourceFieldRef": {"resource": "limits.hugepages-2Mi"}}), &[]);
    variable(
        json!({"fieldRef": {"fieldPath": "metadata.labels"}}),
        &[
            ".fieldRef.fieldPath: Unsupported value: \"metadata.labels\": supported values: \"metadata.name\", \"metadata.namespace\"",
        ],
    );
    variable(
        json!({"fieldRef": {"fieldPath": "spec.x"}}),
        &[
            ".fieldRef.fieldPath: Invalid value: \"spec.x\": error converting fieldPath: field label not supported: spec.x",
        ],
    );
    variable(
        json!({"fieldRef": {"fieldPath": "spec.x['a']"}}),
        &[
            ".fieldRef.fieldPath: Invalid value: \"spec.x['a']\": error converting fieldPath: field label does not support subscript: spec.x['a']",
        ],
    );
    variable(
        json!({"resourceFieldRef": {"resource": "pods/log"}}),
        &[
            ".resourceFieldRef.resource: Unsupported value: \"pods/log\": supported values: \"limits.cpu\", \"limits.ephemeral-storage\"",
        ],
    );
    variable(
        json!({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}}),
        &[
            ".resourceFieldRef.divisor: Invalid value: \"limits.cpu\": only divisor's values 1m and 1 are supported with the cpu resource",
        ],
    );
    variable(
        json!({"resourceFieldRef": {"resource": "limits.cpu"}, "secretKeyRef": {"name": "a", "key": "b"}}),
        &[": Invalid value: \"\": may not have more than one field specified at a time"],
    );
    of_container(
        json!({"env": [{"name": "a", "value": "b", "valueFrom": {
            "resourceFieldRef": {"resource": "limits.cpu"}, "secretKeyRef": {"name": "a", "key": "b"},
        }}]}),
        &[&format!("{path}: Invalid value: \"\": may not be specified when `value` is not empty")],
    );
}

#[test]
fn files_tell_of_what_there_is() {
    let files = json!({"items": [
        {"path": "/a", "fieldRef": {"fieldPath": "status.podIP"}},
        {"path": "..b", "resourceFieldRef": {"resource": "limits.cpu"}, "mode": 512},
        {"path": ""},
    ]});
    let named = |path: &str| {
        [
            "path: Invalid value: \"/a\": must be a relative path",
            "fieldRef.fieldPath: Unsupported value: \"status.podIP\": supported values: \"metadata.annotations\"",
            "path: Invalid value: \"..b\": must not start with '..'",
            "resourceFieldRef.containerName: Required value",
            "mode: Invalid value: 512",
            "path: Required value",
        ]
        .map(|it| format!("{path}.{it}"))
        .into_iter()
        .chain([format!("{path}: Required value: one of fieldRef and resourceFieldRef is required")])
        .collect::<Vec<_>>()
    };
    for (volume, path) in [
        (json!({"name": "a", "downwardAPI": files}), "spec.volumes[0].downwardAPI"),
        (
            json!({"name": "a", "projected": {"sources": [{"downwardAPI": files}]}}),
            "spec.volumes[0].projected.sources[0].downwardAPI",
        ),
    ] {
        let expected = named(path);
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        of_pod(json!({"volumes": [volume]}), &expected);
    }
}

#[test]
fn the_name_of_a_refused_volume_is_free() {
    of_pod(
        json!({"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": ""}}, {"name": "a", "emptyDir": {}}]}),
        &["spec.volumes[0].persistentVolumeClaim.claimName: Required value"],
    );
    of_pod(
        json!({"volumes": [{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]}),
        &["spec.volumes[1].name: Duplicate value: \"a\""],
    );
    of_pod(
        json!({"volumes": [{"name": "", "secret": {}}]}),
        &[
            "spec.volumes[0].secret.secretName: Required value",
            "spec.volumes[0].name: Required value",
        ],
    );
}

#[test]
fn an_image_that_is_one_source_too_many_needs_no_reference() {
    let problems = |volume: Value| {
        let spec = json!({"containers": [], "volumes": [volume]});
        let mut errors = FieldErrors::new();
        let spec: PodSpec = serde_json::from_value(spec).unwrap();
        super::validate_of_pod(&spec, &Path::new("spec"), &mut errors);
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        problems(json!({"name": "a", "image": {}})),
        ["spec.volumes[0].image.reference: Required value"]
    );
    assert_eq!(problems(json!({"name": "a", "image": {}, "emptyDir": {}})), [""; 0]);
}
