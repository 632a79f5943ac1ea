//! Two pods in, what is wrong with the resize out.

use serde_json::{Value, json};

use crate::core::Pod;
use crate::kind::{Part, Resource as _};
use crate::testing::{check, check_update, created, defaulted};

const RESIZE: Part = Part::Other("resize");

fn container(name: &str, resources: Value) -> Value {
    json!({"name": name, "image": "x", "resources": resources})
}

fn compute(cpu: &str, memory: &str) -> Value {
    json!({"cpu": cpu, "memory": memory})
}

fn burstable(requests: Value) -> Value {
    json!({"requests": requests, "limits": compute("1", "1Gi")})
}

fn pod(spec: Value) -> Value {
    json!({"metadata": {"name": "web"}, "spec": spec})
}

fn one(resources: Value) -> Value {
    pod(json!({"containers": [container("a", resources)]}))
}

fn check_resize(old: Value, new: Value, problems: &[&str]) {
    check_update(&created::<Pod>(old), new, RESIZE, problems);
}

#[test]
fn processor_and_memory_of_containers_change() {
    let old = one(burstable(compute("100m", "100Mi")));
    check_resize(old.clone(), one(burstable(compute("200m", "50Mi"))), &[]);
    check_resize(
        old,
        one(json!({"requests": compute("1m", "1Mi"), "limits": compute("2", "2Gi")})),
        &[],
    );
    let sized = |resources: Value| {
        let init = json!([
            {"name": "side", "image": "x", "restartPolicy": "Always", "resources": resources},
            {"name": "init", "image": "x", "resources": resources},
        ]);
        pod(json!({"initContainers": init, "containers": [container("a", resources)]}))
    };
    let (small, large) = (burstable(compute("1m", "1Mi")), burstable(compute("2m", "2Mi")));
    check_resize(sized(small), sized(large), &[]);
    // What was not there may come.
    check_resize(
        one(json!({"requests": {"cpu": "1m"}})),
        one(json!({"requests": compute("1m", "1Mi"), "limits": {"cpu": "1"}})),
        &[],
    );
}

#[test]
fn the_class_of_service_stays() {
    let refused = |class: &str| {
        format!(
            "spec: Invalid value: \"{class}\": Pod QOS Class may not change as a result of resizing"
        )
    };
    check_resize(one(json!({})), one(json!({"requests": {"cpu": "1"}})), &[&refused("BestEffort")]);
    let all = |it: Value| json!({"requests": it, "limits": it});
    check_resize(
        one(burstable(compute("100m", "100Mi"))),
        one(all(compute("1", "1Gi"))),
        &[&refused("Burstable")],
    );
    check_resize(one(all(compute("1", "1Gi"))), one(all(compute("2", "2Gi"))), &[]);
}

#[test]
fn nothing_is_removed() {
    let old = one(burstable(compute("100m", "100Mi")));
    check_resize(
        old.clone(),
        one(json!({"requests": compute("100m", "100Mi")})),
        &["spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed"],
    );
    check_resize(
        one(json!({"requests": compute("100m", "100Mi")})),
        one(json!({"requests": {"cpu": "100m"}})),
        &["spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"],
    );
    // A request that is left out is that of the limit.
    check_resize(
        old,
        one(json!({"requests": {"cpu": "100m"}, "limits": compute("1", "1Gi")})),
        &[],
    );
}

#[test]
fn other_resources_and_policies_stay() {
    let with = |storage: &str| {
        let requests = json!({"cpu": "1m", "ephemeral-storage": storage});
        one(json!({"requests": requests}))
    };
    let refused = "spec: Forbidden: only cpu and memory resources are mutable";
    check_resize(with("1Gi"), with("2Gi"), &[refused]);
    let policy = |it: &str| {
        let policy = json!([{"resourceName": "cpu", "restartPolicy": it}]);
        let mut pod = one(json!({"requests": {"cpu": "1m"}}));
        pod["spec"]["containers"][0]["resizePolicy"] = policy;
        pod
    };
    check_resize(policy("NotRequired"), policy("RestartContainer"), &[refused]);
    let init = |storage: &str| {
        let resources = json!({"requests": {"cpu": "1m", "ephemeral-storage": storage}});
        let mut pod = one(json!({"requests": {"cpu": "1m"}}));
        pod["spec"]["initContainers"] = json!([container("i", resources)]);
        pod
    };
    check_resize(
        init("1Gi"),
        init("2Gi"),
        &[
            "spec.initContainers[0]: Forbidden: only cpu and memory resources for init or sidecar containers are mutable",
        ],
    );
}

#[test]
fn containers_stay_where_they_are() {
    let all = |names: &[&str]| {
        let resources = || json!({"requests": {"cpu": "1m"}});
        let containers: Vec<Value> = names.iter().map(|it| container(it, resources())).collect();
        pod(json!({"containers": containers}))
    };
    let moved = |index| {
        format!(
            "spec.containers[{index}].name: Forbidden: containers may not be renamed or reordered on resize"
        )
    };
    check_resize(all(&["a", "b"]), all(&["b", "a"]), &[&moved(0), &moved(1)]);
    check_resize(
        all(&["a", "b"]),
        all(&["a"]),
        &["spec.containers: Forbidden: containers may not be added or removed on resize"],
    );
}

#[test]
fn all_else_is_put_back() {
    let stored = created::<Pod>(one(burstable(compute("100m", "100Mi"))));
    let mut new = one(burstable(compute("200m", "100Mi")));
    new["metadata"]["labels"] = json!({"a": "b"});
    new["spec"]["containers"][0]["image"] = json!("other");
    new["spec"]["nodeName"] = json!("n");
    new["status"] = json!({"phase": "Failed"});
    let mut new = defaulted::<Pod>(new);
    new.prepare_update(&stored, RESIZE);
    let spec = new.spec.as_ref().unwrap();
    assert_eq!(spec.containers[0].image.as_deref(), Some("x"));
    assert_eq!((&spec.node_name, &new.metadata.labels), (&None, &None));
    assert_eq!(new.status, stored.status);
    let requests = spec.containers[0].resources.as_ref().unwrap().requests.as_ref().unwrap();
    assert_eq!(requests["cpu"].0, "200m");
}

#[test]
fn resources_of_the_pod_change_and_are_not_removed() {
    let old = |resources: Value| {
        let mut pod = one(burstable(compute("1m", "1Mi")));
        pod["spec"]["resources"] = resources;
        pod
    };
    let sized = old(burstable(compute("100m", "100Mi")));
    check_resize(sized.clone(), old(burstable(compute("200m", "100Mi"))), &[]);
    check_resize(
        sized.clone(),
        one(burstable(compute("1m", "1Mi"))),
        &["spec.resources: Forbidden: pod-level resources cannot be removed"],
    );
    check_resize(
        sized,
        old(json!({"requests": compute("200m", "100Mi")})),
        &["spec.resources.limits: Forbidden: pod-level resource limits cannot be removed"],
    );
}

#[test]
fn pods_that_no_node_can_resize_are_refused() {
    let (small, large) = (burstable(compute("1m", "1Mi")), burstable(compute("2m", "2Mi")));
    let mut windows = one(small.clone());
    windows["spec"]["os"] = json!({"name": "windows"});
    check_resize(windows, one(large.clone()), &["[]: Forbidden: windows pods cannot be resized"]);
    let mut mirror = one(small.clone());
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "a"});
    mirror["spec"]["nodeName"] = json!("n");
    check_resize(mirror, one(large.clone()), &["[]: Forbidden: static pods cannot be resized"]);
    let mut stored = created::<Pod>(one(small));
    let status = json!([{"name": "a", "image": "x", "imageID": "", "ready": true, "restartCount": 0,
        "state": {"running": {}}}]);
    stored.status.get_or_insert_default().container_statuses =
        serde_json::from_value(status).unwrap();
    check_update(
        &stored,
        one(large),
        RESIZE,
        &["spec: Forbidden: Pod running on node without support for resize"],
    );
}

#[test]
fn a_policy_names_a_resource_and_what_happens() {
    let with = |spec: Value, policy: Value| {
        let mut pod = pod(json!({"containers": [container("a", json!({}))]}));
        pod["spec"]["containers"][0]["resizePolicy"] = policy;
        for (name, value) in spec.as_object().unwrap() {
            pod["spec"][name] = value.clone();
        }
        pod
    };
    let policy =
        |name: &str, restart: &str| json!({"resourceName": name, "restartPolicy": restart});
    let path = "spec.containers[0].resizePolicy";
    let good = json!([policy("cpu", "NotRequired"), policy("memory", "RestartContainer")]);
    check::<Pod>(with(json!({}), good), &[]);
    check::<Pod>(
        with(json!({}), json!([policy("cpu", "NotRequired"), policy("cpu", "NotRequired")])),
        &[&format!("{path}[1]: Duplicate value: \"cpu\"")],
    );
    check::<Pod>(
        with(json!({}), json!([policy("pods", "Maybe")])),
        &[
            &format!("{path}: Unsupported value: \"pods\": supported values: \"cpu\", \"memory\""),
            &format!(
                "{path}: Unsupported value: \"Maybe\": supported values: \"NotRequired\", \"RestartContainer\""
            ),
        ],
    );
    check::<Pod>(
        with(json!({"restartPolicy": "Never"}), json!([policy("cpu", "RestartContainer")])),
        &[&format!(
            "{path}: Invalid value: \"RestartContainer\": must be 'NotRequired' when pod `restartPolicy` is 'Never'"
        )],
    );
    let mut init = container("i", json!({}));
    init["resizePolicy"] = json!([policy("cpu", "RestartContainer")]);
    check::<Pod>(
        with(json!({"initContainers": [init]}), json!([])),
        &[
            "spec.initContainers[0].resizePolicy[0].restartPolicy: Invalid value: \"RestartContainer\": must not be set to 'RestartContainer' for non-sidecar initContainers",
        ],
    );
}
