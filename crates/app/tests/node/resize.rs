//! Pods get another size while they run: what the kernel holds them to, what their status says, and
//! what happens where there is no room.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cluster::{Cluster, pod};

/// Limits that are requests, too: `cpu memory`.
fn resources(text: &str) -> Value {
    let (cpu, memory) = text.split_once(' ').unwrap();
    let all = json!({ "cpu": cpu, "memory": memory });
    json!({ "requests": all, "limits": all })
}

fn manifest(name: &str, size: &str, policy: &str) -> String {
    let resources = resources(size);
    let extra = format!("    resources: {resources}\n    resizePolicy: [{policy}]");
    pod(name, "[sleep]", &extra)
}

fn patch(size: &str) -> String {
    json!({ "spec": { "containers": [{ "name": "main", "resources": resources(size) }] } })
        .to_string()
}

fn resize(cluster: &Cluster, name: &str, size: &str) {
    cluster.ok(&["patch", "pod", name, "--subresource", "resize", "-p", &patch(size)]);
}

/// Until the node has seen the last version of the pod and is done with it.
fn settled(cluster: &Cluster, name: &str) -> Value {
    let is_settled = |it: &str| {
        let Ok(pod) = serde_json::from_str::<Value>(it) else { return false };
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let is_resizing = conditions
            .iter()
            .any(|it| it["type"].as_str().is_some_and(|it| it.starts_with("PodResize")));
        let is_ready = conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == "True");
        is_ready
            && !is_resizing
            && pod["status"]["observedGeneration"] == pod["metadata"]["generation"]
    };
    let text = cluster.until(&["get", "pod", name, "-o", "json"], is_settled);
    serde_json::from_str(&text).unwrap()
}

/// `processors memory` that the kernel holds a cgroup to, in thousandths and bytes, `-` for no limit;
/// whatever version of cgroups the machine has.
fn held_to(cluster: &Cluster, below: &str) -> String {
    let path = format!("{}/{below}", cluster.host.cgroup);
    let read = |controller: &str, v1: &str, v2: &str| -> String {
        let of_v1: PathBuf = Path::new("/sys/fs/cgroup").join(controller).join(&path).join(v1);
        let of_v2 = Path::new("/sys/fs/cgroup").join(&path).join(v2);
        let text = std::fs::read_to_string(of_v1).or_else(|_| std::fs::read_to_string(of_v2));
        text.unwrap_or_else(|err| panic!("{path}: {err}")).trim().to_owned()
    };
    let quota = read("cpu", "cpu.cfs_quota_us", "cpu.max");
    let quota: i64 = quota.split(' ').next().unwrap().parse().unwrap_or(-1);
    let memory = read("memory", "memory.limit_in_bytes", "memory.max");
    // Version 1 says a number that no machine has.
    let memory = memory.parse().ok().filter(|it: &u64| *it < 1 << 62);
    let or = |it: Option<String>| it.unwrap_or_else(|| "-".to_owned());
    let cpu = (quota >= 0).then(|| (quota / 100).to_string());
    format!("{} {}", or(cpu), or(memory.map(|it| it.to_string())))
}

fn check_held(cluster: &Cluster, pod: &Value, expected: &str) {
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    let id = pod["status"]["containerStatuses"][0]["containerID"].as_str().unwrap();
    let id = id.split("://").nth(1).unwrap();
    assert_eq!(held_to(cluster, &format!("kubepods/pod{uid}/{id}")), expected, "the container");
    assert_eq!(held_to(cluster, &format!("kubepods/pod{uid}")), expected, "its pod");
}

fn check_status(pod: &Value, size: &str, restarts: i64) {
    let status = &pod["status"]["containerStatuses"][0];
    let expected = resources(size);
    assert_eq!(status["allocatedResources"], expected["requests"], "{status:#}");
    assert_eq!(status["resources"], expected, "{status:#}");
    assert_eq!(status["restartCount"], restarts, "{status:#}");
}

#[test]
fn a_running_container_gets_another_size() {
    let Some(mut cluster) = Cluster::start() else { return };
    cluster.apply("live.yaml", &manifest("live", "100m 64Mi", ""));
    let before = settled(&cluster, "live");
    check_held(&cluster, &before, "100 67108864");
    check_status(&before, "100m 64Mi", 0);

    resize(&cluster, "live", "200m 96Mi");
    let grown = settled(&cluster, "live");
    check_held(&cluster, &grown, "200 100663296");
    check_status(&grown, "200m 96Mi", 0);
    resize(&cluster, "live", "150m 48Mi");
    let shrunk = settled(&cluster, "live");
    check_held(&cluster, &shrunk, "150 50331648");
    check_status(&shrunk, "150m 48Mi", 0);
    let id = |it: &Value| it["status"]["containerStatuses"][0]["containerID"].clone();
    assert_eq!(id(&before), id(&shrunk), "it is the same run");
    let events = cluster.ok(&["get", "events", "-o", "jsonpath={.items[*].reason}"]);
    assert!(events.contains("ResizeStarted") && events.contains("ResizeCompleted"), "{events}");

    // Who starts again knows what it was given.
    cluster.kill();
    cluster.up();
    let found = settled(&cluster, "live");
    check_held(&cluster, &found, "150 50331648");
    check_status(&found, "150m 48Mi", 0);
    assert_eq!(id(&before), id(&found));

    // Nothing else changes there, and this changes nowhere else.
    let text = cluster.refused(&["patch", "pod", "live", "-p", &patch("1 1Gi")]);
    assert!(text.contains("pod updates may not change fields other than"), "{text}");
    let less =
        json!({ "spec": { "containers": [{ "name": "main", "resources": { "limits": null } }] } });
    let text = cluster.refused(&[
        "patch",
        "pod",
        "live",
        "--subresource",
        "resize",
        "-p",
        &less.to_string(),
    ]);
    assert!(text.contains("resource limits cannot be removed"), "{text}");
}

#[test]
fn a_container_that_asks_for_it_is_started_again_in_its_new_size() {
    let Some(cluster) = Cluster::start() else { return };
    let policy = "{resourceName: memory, restartPolicy: RestartContainer}";
    cluster.apply("again.yaml", &manifest("again", "100m 64Mi", policy));
    settled(&cluster, "again");
    resize(&cluster, "again", "200m 64Mi");
    let live = settled(&cluster, "again");
    check_held(&cluster, &live, "200 67108864");
    check_status(&live, "200m 64Mi", 0);
    resize(&cluster, "again", "200m 96Mi");
    let restarted = settled(&cluster, "again");
    check_held(&cluster, &restarted, "200 100663296");
    check_status(&restarted, "200m 96Mi", 1);
}

#[test]
fn there_is_room_or_one_waits_or_is_told_that_there_never_will_be() {
    let Some(cluster) = Cluster::start() else { return };
    let millis = |it: &str| {
        it.strip_suffix('m')
            .map_or_else(|| it.parse::<i64>().unwrap() * 1000, |it| it.parse().unwrap())
    };
    let all = millis(&cluster.field(&["node", "node-a"], ".status.allocatable.cpu"));
    let size = |part: i64| format!("{}m 64Mi", all * part / 10);
    cluster.apply("one.yaml", &manifest("one", &size(4), ""));
    cluster.apply("other.yaml", &manifest("other", &size(4), ""));
    settled(&cluster, "one");
    settled(&cluster, "other");

    resize(&cluster, "one", &size(8));
    let condition = "jsonpath={.status.conditions[?(@.type=='PodResizePending')]}";
    let pending =
        cluster.until(&["get", "pod", "one", "-o", condition], |it| it.contains("Deferred"));
    assert!(pending.contains("Node didn't have enough resource: cpu"), "{pending}");
    let one = cluster.json(&["get", "pod", "one"]);
    check_held(&cluster, &one, &format!("{} 67108864", all * 4 / 10));
    cluster.ok(&["delete", "pod", "other"]);
    let granted = settled(&cluster, "one");
    check_held(&cluster, &granted, &format!("{} 67108864", all * 8 / 10));

    let text = cluster.refused(&[
        "patch",
        "pod",
        "one",
        "--subresource",
        "resize",
        "-p",
        &patch(&size(11)),
    ]);
    assert!(text.contains("node didn't have enough allocatable resources: cpu"), "{text}");

    // Memory that is in use is not taken away; it comes right when less is asked for than that.
    resize(&cluster, "one", &format!("{}m 4Ki", all * 8 / 10));
    let condition = "jsonpath={.status.conditions[?(@.type=='PodResizeInProgress')]}";
    let failed =
        cluster.until(&["get", "pod", "one", "-o", condition], |it| it.contains("\"Error\""));
    assert!(failed.contains("below current usage"), "{failed}");
    resize(&cluster, "one", &size(8));
    check_held(&cluster, &settled(&cluster, "one"), &format!("{} 67108864", all * 8 / 10));
}

/// Containers `a`, `b` and `c` with these resources.
fn three(name: &str, resources: [Value; 3]) -> Value {
    let containers = ["a", "b", "c"].into_iter().zip(resources).map(|(name, resources)| {
        json!({
            "name": name, "image": "xebec.local/toolbox", "args": ["sleep"],
            "resources": resources,
        })
    });
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": { "terminationGracePeriodSeconds": 1, "containers": containers.collect::<Value>() },
    })
}

/// Replaces the pod through its `resize`; then each of its containers is held to what is expected.
fn check_three(cluster: &Cluster, parent: &str, pod: &mut Value, new: [Value; 3], held: [&str; 4]) {
    for (index, it) in new.iter().enumerate() {
        pod["spec"]["containers"][index]["resources"] = it.clone();
    }
    let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
    let file = cluster.file("new.json", &pod.to_string());
    cluster.ok(&["replace", "--subresource", "resize", "-f", &file]);
    *pod = settled(cluster, &name);
    let of_pod = format!("{parent}/pod{}", pod["metadata"]["uid"].as_str().unwrap());
    for (index, new) in new.iter().enumerate() {
        let status = &pod["status"]["containerStatuses"][index];
        assert_eq!((&status["resources"], &status["restartCount"]), (new, &json!(0)), "{status:#}");
        assert_eq!(status["allocatedResources"], new["requests"], "{status:#}");
        let id = status["containerID"].as_str().unwrap().split("://").nth(1).unwrap();
        assert_eq!(held_to(cluster, &format!("{of_pod}/{id}")), held[index], "{}", status["name"]);
    }
    assert_eq!(held_to(cluster, &of_pod), held[3], "the pod");
}

#[test]
fn containers_of_one_pod_change_in_all_directions() {
    let Some(cluster) = Cluster::start() else { return };
    let old = ["20m 32Mi", "20m 32Mi", "20m 32Mi"].map(resources);
    cluster.apply("all.json", &three("all", old.clone()).to_string());
    let mut pod = settled(&cluster, "all");
    let mib = |it: u64| it << 20;
    let held = |cpu: u64, memory: u64| format!("{cpu} {}", mib(memory));
    let new = ["30m 40Mi", "32m 42Mi", "19m 30Mi"].map(resources);
    let expected = [held(30, 40), held(32, 42), held(19, 30), held(81, 112)];
    check_three(&cluster, "kubepods", &mut pod, new, expected.each_ref().map(|it| it.as_str()));
    let expected = [held(20, 32), held(20, 32), held(20, 32), held(60, 96)];
    check_three(&cluster, "kubepods", &mut pod, old, expected.each_ref().map(|it| it.as_str()));

    // What was not limited may be, and below what the kernel can tell apart nothing is lost.
    let requests = |it: Value| json!({ "requests": it });
    let old = [
        requests(json!({ "cpu": "20m" })),
        requests(json!({ "memory": "20Mi" })),
        json!({ "requests": { "cpu": "2m" }, "limits": { "cpu": "10m" } }),
    ];
    cluster.apply("some.json", &three("some", old).to_string());
    let mut pod = settled(&cluster, "some");
    let new = [
        json!({ "requests": { "cpu": "30m" }, "limits": { "cpu": "40m" } }),
        json!({ "requests": { "memory": "15Mi" }, "limits": { "memory": "50Mi" } }),
        json!({ "requests": { "cpu": "1m" }, "limits": { "cpu": "5m" } }),
    ];
    let limited = format!("- {}", mib(50));
    check_three(&cluster, "kubepods/burstable", &mut pod, new, ["40 -", &limited, "10 -", "- -"]);
}
