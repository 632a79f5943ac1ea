//! Pods that get another size while they run, on a node in memory.

use client::PatchKind;
use k8s_openapi::api::core::v1::Pod;
use node_api::containers::Usage;
use serde_json::{Value, json};

use crate::setup::{IMAGE, Setup, is_ready, run};

/// Limits that are requests, too.
fn resources(cpu: &str, memory: &str) -> Value {
    let all = json!({ "cpu": cpu, "memory": memory });
    json!({ "requests": all, "limits": all })
}

fn spec(cpu: &str, memory: &str, policy: Value) -> Value {
    json!({ "containers": [{ "name": "c", "image": IMAGE, "resources": resources(cpu, memory), "resizePolicy": policy }] })
}

async fn resize(setup: &Setup, name: &str, cpu: &str, memory: &str) {
    let body =
        json!({ "spec": { "containers": [{ "name": "c", "resources": resources(cpu, memory) }] } });
    let pods = setup.admin().api::<Pod>();
    let body = body.to_string().into_bytes().into();
    pods.patch_part("default", (name, "resize"), PatchKind::Strategic, body).await.unwrap();
}

fn has_condition(status: &Value, type_: &str, reason: &str) -> bool {
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|it| it["type"] == type_ && it["reason"] == reason)
}

fn is_settled(status: &Value, generation: i64) -> bool {
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let mut kinds = conditions.iter().filter_map(|it| it["type"].as_str());
    let is_resizing = kinds.any(|it| it.starts_with("PodResize"));
    is_ready(status) && !is_resizing && status["observedGeneration"] == generation
}

/// What the node was told, in order, without what has to do with starting and ending.
fn changes(setup: &Setup) -> Vec<String> {
    let calls = setup.node.take_calls().into_iter();
    let is_change =
        |it: &String| it.contains("update_resources") || it.contains("cgroups.ensure kubepods/pod");
    calls.filter(is_change).map(|it| it.split(' ').next().unwrap().to_owned()).collect()
}

#[test]
fn a_pod_grows_before_its_container_and_shrinks_after_it() {
    run(async {
        let setup = Setup::start().await;
        setup.create("web", spec("1", "64Mi", json!([]))).await;
        setup.until_status("web", is_ready).await;
        setup.node.take_calls();
        let (pod, container) = ("cgroups.ensure", "containers.update_resources");
        resize(&setup, "web", "2", "128Mi").await;
        let status = setup.until_status("web", |it| is_settled(it, 2)).await;
        // Memory, then processors and their shares.
        assert_eq!(changes(&setup), [pod, container, pod, pod, container]);
        let shown = &status["containerStatuses"][0];
        assert_eq!(shown["resources"], resources("2", "128Mi"));
        assert_eq!(shown["allocatedResources"], resources("2", "128Mi")["requests"]);
        assert_eq!(shown["restartCount"], 0);
        resize(&setup, "web", "1", "64Mi").await;
        setup.until_status("web", |it| is_settled(it, 3)).await;
        assert_eq!(changes(&setup), [container, pod, container, pod, pod]);
        let events = setup.events("web").await;
        let told: Vec<&str> = events.iter().filter_map(|it| it.split(": {").next()).collect();
        let expected =
            ["ResizeStarted: Pod resize started", "ResizeCompleted: Pod resize completed"];
        assert_eq!(told[3..], [expected, expected].concat());
    });
}

#[test]
fn a_container_that_asks_for_it_is_started_again_at_once() {
    run(async {
        let setup = Setup::start().await;
        let policy = json!([{ "resourceName": "memory", "restartPolicy": "RestartContainer" }]);
        setup.create("web", spec("1", "64Mi", policy)).await;
        setup.until_status("web", is_ready).await;
        for (restarts, memory) in [(1, "128Mi"), (2, "64Mi"), (3, "32Mi")] {
            resize(&setup, "web", "1", memory).await;
            let status = setup.until_status("web", |it| is_settled(it, restarts + 1)).await;
            let shown = &status["containerStatuses"][0];
            assert_eq!(shown["restartCount"], restarts);
            assert_eq!(shown["resources"], resources("1", memory));
        }
        let events = setup.events("web").await;
        assert!(
            events.contains(&"Killing: Container c resize requires restart".to_owned()),
            "{events:#?}"
        );
        assert!(!events.iter().any(|it| it.starts_with("BackOff")), "nobody failed");
    });
}

/// The node has four processors.
#[test]
fn who_waits_for_room_gets_it_by_priority_when_a_pod_ends() {
    run(async {
        let setup = Setup::start().await;
        let sized = |cpu: &str, priority: &str| {
            let mut spec = spec(cpu, "64Mi", json!([]));
            spec["priorityClassName"] = json!(priority);
            spec
        };
        let critical = "system-cluster-critical";
        setup.create("room", sized("2", "")).await;
        setup.create("plain", sized("900m", "")).await;
        setup.create("critical", sized("900m", critical)).await;
        for name in ["room", "plain", "critical"] {
            setup.until_status(name, is_ready).await;
        }
        let is_deferred = |it: &Value| has_condition(it, "PodResizePending", "Deferred");
        resize(&setup, "plain", "2500m", "64Mi").await;
        let status = setup.until_status("plain", is_deferred).await;
        assert_eq!(status["containerStatuses"][0]["allocatedResources"]["cpu"], "900m");
        resize(&setup, "critical", "2500m", "64Mi").await;
        setup.until_status("critical", is_deferred).await;
        setup.delete("room", None).await;
        setup.until_status("critical", |it| is_settled(it, 2)).await;
        assert!(is_deferred(&setup.until_status("plain", is_deferred).await));
        // What was asked for is taken back.
        resize(&setup, "plain", "900m", "64Mi").await;
        setup.until_status("plain", |it| is_settled(it, 3)).await;
        // Who asks for less makes room as well.
        resize(&setup, "plain", "3", "64Mi").await;
        setup.until_status("plain", is_deferred).await;
        resize(&setup, "critical", "500m", "64Mi").await;
        setup.until_status("plain", |it| is_settled(it, 4)).await;
        let events = setup.events("plain").await;
        let deferred =
            events.iter().filter(|it| it.starts_with("ResizeDeferred: Pod resize Deferred: {"));
        assert_eq!(deferred.count(), 2, "{events:#?}");
    });
}

#[test]
fn memory_in_use_is_not_taken_away() {
    run(async {
        let setup = Setup::start().await;
        setup.create("web", spec("1", "64Mi", json!([]))).await;
        let status = setup.until_status("web", is_ready).await;
        let id = status["containerStatuses"][0]["containerID"].as_str().unwrap().to_owned();
        let id = node_api::ContainerId::new(id.strip_prefix("fake://").unwrap());
        setup.node.set_usage(&id, Usage { memory_usage: 48 << 20, ..Usage::default() });
        resize(&setup, "web", "1", "32Mi").await;
        let is_failed = |it: &Value| has_condition(it, "PodResizeInProgress", "Error");
        let status = setup.until_status("web", is_failed).await;
        let conditions = status["conditions"].as_array().unwrap();
        let shown = conditions.iter().find(|it| it["type"] == "PodResizeInProgress").unwrap();
        assert_eq!(
            shown["message"],
            "cannot decrease memory limits: attempting to set container \"c\" memory limit (33554432) below current usage (50331648)"
        );
        assert_eq!(status["containerStatuses"][0]["resources"]["limits"]["memory"], "64Mi");
        setup.node.set_usage(&id, Usage { memory_usage: 16 << 20, ..Usage::default() });
        let status = setup.until_status("web", |it| is_settled(it, 2)).await;
        assert_eq!(status["containerStatuses"][0]["resources"]["limits"]["memory"], "32Mi");
    });
}

#[test]
fn a_kubelet_that_starts_again_knows_what_it_gave() {
    run(async {
        let mut setup = Setup::start().await;
        setup.create("web", spec("1", "64Mi", json!([]))).await;
        setup.create("other", spec("2", "64Mi", json!([]))).await;
        setup.until_status("web", is_ready).await;
        setup.until_status("other", is_ready).await;
        resize(&setup, "web", "1500m", "64Mi").await;
        setup.until_status("web", |it| is_settled(it, 2)).await;
        setup.stop_kubelet().await;
        resize(&setup, "web", "3", "64Mi").await;
        setup.node.take_calls();
        setup.start_kubelet().await;
        let is_deferred = |it: &Value| has_condition(it, "PodResizePending", "Deferred");
        let status = setup.until_status("web", is_deferred).await;
        assert_eq!(status["containerStatuses"][0]["allocatedResources"]["cpu"], "1500m");
        assert_eq!(status["containerStatuses"][0]["resources"]["limits"]["cpu"], "1500m");
        assert!(
            !changes(&setup).iter().any(|it| it.starts_with("containers")),
            "it runs on as it is"
        );
        setup.delete("other", None).await;
        setup.until_status("web", |it| is_settled(it, 3)).await;
    });
}
