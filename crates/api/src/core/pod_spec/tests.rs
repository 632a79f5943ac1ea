//! What a spec asks for, and how its values are written.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Value, json};

use super::{defaults, qos_class, requests};

fn spec(spec: Value) -> PodSpec {
    let mut spec: PodSpec = serde_json::from_slice(spec.to_string().as_bytes()).unwrap();
    defaults::apply(&mut spec);
    defaults::apply_to_pod(&mut spec);
    spec
}

fn check_requests(manifest: Value, expected: &[(&str, i64)]) {
    let expected: BTreeMap<String, i64> =
        expected.iter().map(|(name, amount)| ((*name).to_owned(), *amount)).collect();
    assert_eq!(requests(&spec(manifest)), expected);
}

fn cpu(amount: &str) -> Value {
    json!({"requests": {"cpu": amount}})
}

#[test]
fn containers_run_together() {
    check_requests(
        json!({"containers": [
            {"name": "a", "resources": {"requests": {"cpu": "250m", "memory": "1Gi"}}},
            {"name": "b", "resources": {"limits": {"cpu": "1"}}},
        ]}),
        &[("cpu", 1250), ("memory", 1 << 30)],
    );
}

#[test]
fn init_containers_run_before_with_the_sidecars_so_far() {
    check_requests(
        json!({
            "initContainers": [
                {"name": "s", "restartPolicy": "Always", "resources": cpu("1")},
                {"name": "i", "resources": cpu("3")},
            ],
            "containers": [{"name": "a", "resources": cpu("1")}],
        }),
        &[("cpu", 4000)],
    );
    check_requests(
        json!({
            "initContainers": [
                {"name": "i", "resources": cpu("1")},
                {"name": "s", "restartPolicy": "Always", "resources": cpu("1")},
            ],
            "containers": [{"name": "a", "resources": cpu("1")}],
            "overhead": {"cpu": "100m"},
        }),
        &[("cpu", 2100)],
    );
}

#[test]
fn the_pod_itself_decides_what_it_names() {
    check_requests(
        json!({"resources": {"requests": {"cpu": "3"}}, "containers": [{"name": "a", "resources": cpu("1")}]}),
        &[("cpu", 3000)],
    );
}

#[test]
fn a_pod_that_is_limited_as_a_whole_says_what_it_leaves_open() {
    let check = |of_pod: Value, of_container: Value, expected: Value| {
        let spec = spec(json!({
            "resources": of_pod,
            "containers": [{"name": "a", "resources": of_container}, {"name": "b", "resources": of_container}],
        }));
        assert_eq!(serde_json::to_value(spec.resources).unwrap(), expected);
    };
    let limits = |it: Value| json!({"limits": it});
    // What containers ask for, written as they write it; else what the pod is limited to.
    check(
        limits(json!({"cpu": "2", "memory": "4Gi"})),
        json!({"requests": {"memory": "500M"}}),
        json!({"limits": {"cpu": "2", "memory": "4Gi"}, "requests": {"cpu": "2", "memory": "1G"}}),
    );
    // Without limits nothing is filled in.
    check(
        json!({"requests": {"cpu": "2"}}),
        json!({"requests": {"memory": "1Mi"}}),
        json!({"requests": {"cpu": "2"}}),
    );
    let pages =
        || json!({"limits": {"hugepages-2Mi": "2Mi"}, "requests": {"hugepages-2Mi": "2Mi"}});
    check(
        json!({"requests": {"cpu": "2"}}),
        pages(),
        json!({"limits": {"hugepages-2Mi": "4Mi"}, "requests": {"cpu": "2", "hugepages-2Mi": "4Mi"}}),
    );
    check(
        json!({"requests": {"hugepages-2Mi": "8Mi"}}),
        pages(),
        json!({"requests": {"hugepages-2Mi": "8Mi"}}),
    );
}

#[test]
fn quality_of_service_follows_requests_and_limits() {
    let check = |resources: Value, expected: &str| {
        let spec = spec(json!({"containers": [{"name": "a", "resources": resources}]}));
        assert_eq!(qos_class(&spec), expected);
    };
    check(json!({}), "BestEffort");
    check(json!({"requests": {"cpu": "1"}}), "Burstable");
    check(json!({"limits": {"cpu": "1", "memory": "1Gi"}}), "Guaranteed");
    check(
        json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}),
        "Burstable",
    );
    check(json!({"limits": {"cpu": "1"}}), "Burstable");
}

#[test]
fn the_pull_policy_follows_the_tag() {
    let check = |image: &str, expected: &str| {
        let spec = spec(json!({"containers": [{"name": "a", "image": image}]}));
        assert_eq!(spec.containers[0].image_pull_policy.as_deref(), Some(expected), "{image}");
    };
    check("nginx", "Always");
    check("nginx:latest", "Always");
    check("registry:5000/nginx", "Always");
    check("nginx:1.2", "IfNotPresent");
    check("registry:5000/nginx:1.2", "IfNotPresent");
    check("nginx@sha256:0000", "IfNotPresent");
}

#[test]
fn quantities_are_rounded_up_and_canonical() {
    let check = |quantity: &str, expected: &str| {
        let spec = spec(json!({"containers": [{"name": "a", "resources": cpu(quantity)}]}));
        let requests = spec.containers[0].resources.as_ref().unwrap().requests.clone().unwrap();
        assert_eq!(requests["cpu"].0, expected);
    };
    check("1000m", "1");
    check("0.1", "100m");
    check("100u", "1m");
}

#[test]
fn volumes_and_probes_get_their_defaults() {
    let spec = spec(json!({
        "containers": [{"name": "a", "livenessProbe": {"httpGet": {"port": 80}}, "ports": [{"containerPort": 80}]}],
        "hostNetwork": true,
        "volumes": [{"name": "v"}, {"name": "s", "secret": {"secretName": "x"}}],
    }));
    let probe = spec.containers[0].liveness_probe.clone().unwrap();
    assert_eq!((probe.period_seconds, probe.failure_threshold), (Some(10), Some(3)));
    assert_eq!(probe.http_get.unwrap().path.as_deref(), Some("/"));
    assert_eq!(spec.containers[0].ports.as_ref().unwrap()[0].host_port, Some(80));
    let volumes = spec.volumes.unwrap();
    assert!(volumes[0].empty_dir.is_some());
    assert_eq!(volumes[1].secret.as_ref().unwrap().default_mode, Some(420));
}

#[test]
fn volumes_of_others_have_upstreams_defaults() {
    let check = |source: Value, expected: Value| {
        let mut volume = source;
        volume["name"] = json!("v");
        let spec = spec(json!({"containers": [{"name": "a"}], "volumes": [volume]}));
        let mut found = serde_json::to_value(&spec.volumes.unwrap()[0]).unwrap();
        found.as_object_mut().unwrap().remove("name");
        assert_eq!(found, expected);
    };
    check(
        json!({"iscsi": {"targetPortal": "p", "iqn": "i", "lun": 0}}),
        json!({"iscsi": {"targetPortal": "p", "iqn": "i", "lun": 0, "iscsiInterface": "default"}}),
    );
    check(
        json!({"rbd": {"monitors": ["m"], "image": "i", "user": "me"}}),
        json!({"rbd": {
            "monitors": ["m"], "image": "i", "user": "me",
            "pool": "rbd", "keyring": "/etc/ceph/keyring",
        }}),
    );
    check(
        json!({"azureDisk": {"diskName": "d", "diskURI": "u"}}),
        json!({"azureDisk": {
            "diskName": "d", "diskURI": "u",
            "cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": false,
        }}),
    );
    let scale_io = json!({"gateway": "g", "system": "s", "secretRef": {"name": "x"}});
    let mut full = scale_io.clone();
    full["storageMode"] = json!("ThinProvisioned");
    full["fsType"] = json!("xfs");
    check(json!({"scaleIO": scale_io}), json!({"scaleIO": full}));
    check(
        json!({"ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}}),
        json!({"ephemeral": {"volumeClaimTemplate": {
            "spec": {
                "accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem", "resources": {},
            },
        }}}),
    );
}

#[test]
fn a_pod_with_limits_requests_what_its_containers_do() {
    let spec = spec(json!({
        "resources": {"limits": {"cpu": "2", "memory": "4Gi"}},
        "containers": [
            {"name": "a", "resources": cpu("250m")},
            {"name": "b", "resources": {"requests": {"cpu": "250m"}}},
        ],
    }));
    let requests = spec.resources.unwrap().requests.unwrap();
    assert_eq!((requests["cpu"].0.as_str(), requests["memory"].0.as_str()), ("500m", "4Gi"));
}
