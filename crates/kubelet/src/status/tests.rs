//! States of containers in, the status out.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{compute, patch};
use crate::pod_worker::{Cause, Ending, Life, View, testing};

/// Each run is `name state`: `a running`, `a exit 1`, `a unready`, `a unstarted`, `a created`.
fn view(spec: Value, status: Value, runs: &[&str]) -> View {
    let pod = json!({
        "metadata": { "name": "web", "namespace": "default", "uid": "u", "generation": 2 },
        "spec": spec, "status": status,
    });
    let pod: Pod = serde_json::from_value(pod).unwrap();
    let mut view = testing::view(Arc::new(pod));
    runs.iter().for_each(|it| testing::add_run(&mut view, it));
    view
}

/// `phase; Ready reason: message; container states`
fn render(view: &View, life: &Life) -> String {
    let status = json!(compute(view, life));
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    let conditions: Vec<String> = conditions
        .iter()
        .filter(|it| matches!(it["type"].as_str(), Some("Ready" | "Initialized")))
        .map(|it| {
            let said =
                [text(&it["type"]), text(&it["status"]), text(&it["reason"]), text(&it["message"])];
            said.iter().filter(|it| !it.is_empty()).cloned().collect::<Vec<_>>().join(" ")
        })
        .collect();
    let containers = ["initContainerStatuses", "containerStatuses"]
        .iter()
        .flat_map(|it| status[*it].as_array().cloned().unwrap_or_default());
    let containers: Vec<String> = containers
        .map(|it| {
            let state = it["state"].as_object().unwrap().iter().next().unwrap();
            format!("{} {} {}", text(&it["name"]), state.0, text(&state.1["reason"]))
                .trim()
                .to_owned()
        })
        .collect();
    format!("{}; {}; {}", text(&status["phase"]), conditions.join(", "), containers.join(", "))
}

fn check(spec: Value, runs: &[&str], life: &Life, expected: &str) {
    assert_eq!(render(&view(spec, json!({}), runs), life), expected);
}

fn over() -> Life {
    Life::Terminated(Ending::new(Cause::Deleted, Duration::ZERO, Timestamp::UNIX_EPOCH))
}

fn two(policy: &str) -> Value {
    json!({ "restartPolicy": policy, "containers": [{ "name": "a", "image": "i" }, { "name": "b", "image": "i" }] })
}

#[test]
fn phase_and_readiness_follow_the_containers() {
    let run = &Life::Running;
    check(
        two("Always"),
        &[],
        run,
        "Pending; Initialized True, Ready False ContainersNotReady containers with unready status: [a b]; a waiting ContainerCreating, b waiting ContainerCreating",
    );
    check(
        two("Always"),
        &["a running"],
        run,
        "Pending; Initialized True, Ready False ContainersNotReady containers with unready status: [b]; a running, b waiting ContainerCreating",
    );
    check(
        two("Always"),
        &["a running", "b unready"],
        run,
        "Running; Initialized True, Ready False ContainersNotReady containers with unready status: [b]; a running, b running",
    );
    check(
        two("Always"),
        &["a running", "b running"],
        run,
        "Running; Initialized True, Ready True; a running, b running",
    );
    check(
        two("Always"),
        &["a exit 0", "b exit 1"],
        run,
        "Running; Initialized True, Ready False ContainersNotReady containers with unready status: [a b]; a terminated Completed, b terminated Error",
    );
    check(
        two("OnFailure"),
        &["a exit 0", "b exit 0"],
        run,
        "Succeeded; Initialized True PodCompleted, Ready False PodCompleted; a terminated Completed, b terminated Completed",
    );
    check(
        two("OnFailure"),
        &["a exit 0", "b exit 1"],
        run,
        "Running; Initialized True, Ready False ContainersNotReady containers with unready status: [a b]; a terminated Completed, b terminated Error",
    );
    check(
        two("Never"),
        &["a exit 0", "b exit 1"],
        run,
        "Failed; Initialized True, Ready False PodFailed; a terminated Completed, b terminated Error",
    );
}

#[test]
fn a_pod_that_is_over_has_a_final_phase() {
    check(
        two("Always"),
        &["a exit 0", "b exit 0"],
        &over(),
        "Succeeded; Initialized True PodCompleted, Ready False PodCompleted; a terminated Completed, b terminated Completed",
    );
    check(
        two("Always"),
        &["a exit 0", "b exit 137"],
        &over(),
        "Failed; Initialized True, Ready False PodFailed; a terminated Completed, b terminated Error",
    );
    check(
        two("Always"),
        &["a exit 0"],
        &over(),
        "Failed; Initialized True, Ready False PodFailed; a terminated Completed, b terminated ContainerStatusUnknown",
    );
    check(
        two("Always"),
        &[],
        &over(),
        "Failed; Initialized True, Ready False PodFailed; a waiting ContainerCreating, b waiting ContainerCreating",
    );
}

#[test]
fn init_containers_hold_the_pod_back() {
    let spec = |policy: &str| {
        json!({
            "restartPolicy": policy,
            "initContainers": [{ "name": "i", "image": "i" }, { "name": "s", "image": "i", "restartPolicy": "Always" }],
            "containers": [{ "name": "a", "image": "i" }],
        })
    };
    let run = &Life::Running;
    check(
        spec("Always"),
        &["i running"],
        run,
        "Pending; Initialized False ContainersNotInitialized containers with incomplete status: [i s], Ready False ContainersNotReady containers with unready status: [s a]; i running, s waiting PodInitializing, a waiting PodInitializing",
    );
    check(
        spec("Always"),
        &["i exit 0", "s unstarted"],
        run,
        "Pending; Initialized False ContainersNotInitialized containers with incomplete status: [s], Ready False ContainersNotReady containers with unready status: [s a]; i terminated Completed, s running, a waiting PodInitializing",
    );
    check(
        spec("Always"),
        &["i exit 0", "s running", "a running"],
        run,
        "Running; Initialized True, Ready True; i terminated Completed, s running, a running",
    );
    check(
        spec("Never"),
        &["i exit 1"],
        run,
        "Failed; Initialized False ContainersNotInitialized containers with incomplete status: [i s], Ready False PodFailed; i terminated Error, s waiting PodInitializing, a waiting PodInitializing",
    );
}

#[test]
fn readiness_gates_are_asked_after_the_containers() {
    let spec = json!({ "readinessGates": [{ "conditionType": "lb" }], "containers": [{ "name": "a", "image": "i" }] });
    let gated = |conditions: Value, expected: &str| {
        let view = view(spec.clone(), json!({ "conditions": conditions }), &["a running"]);
        let rendered = render(&view, &Life::Running);
        assert_eq!(rendered.split(", Ready ").last().unwrap().split(';').next().unwrap(), expected);
    };
    gated(
        json!([]),
        "False ReadinessGatesNotReady corresponding condition of pod readiness gate \"lb\" does not exist.",
    );
    gated(
        json!([{ "type": "lb", "status": "False" }]),
        "False ReadinessGatesNotReady the status of pod readiness gate \"lb\" is not \"True\", but False",
    );
    gated(json!([{ "type": "lb", "status": "True" }]), "True");
}

#[test]
fn a_container_that_is_lost_has_ended_in_an_unknown_way() {
    let status = json!({ "phase": "Running", "containerStatuses": [
        { "name": "a", "image": "i", "imageID": "", "ready": true, "restartCount": 1, "containerID": "xebec://old",
          "state": { "running": { "startedAt": null } } }] });
    let view = view(
        json!({ "restartPolicy": "Never", "containers": [{ "name": "a", "image": "i" }] }),
        status,
        &[],
    );
    assert_eq!(
        render(&view, &over()),
        "Failed; Initialized True, Ready False PodFailed; a terminated ContainerStatusUnknown"
    );
}

#[test]
fn a_patch_says_what_differs_and_no_more() {
    let pod =
        |status: Value| -> Pod { serde_json::from_value(json!({ "status": status })).unwrap() };
    let old = pod(json!({ "phase": "Pending", "reason": "Gone", "podIPs": [{ "ip": "10.0.0.1" }],
        "conditions": [{ "type": "Ready", "status": "False", "reason": "x" }] }));
    let new = pod(json!({ "phase": "Running", "podIPs": [{ "ip": "10.0.0.2" }],
        "conditions": [{ "type": "Ready", "status": "True" }] }));
    let body: Value =
        serde_json::from_slice(&patch("u", old.status.as_ref(), &new.status.unwrap())).unwrap();
    assert_eq!(
        body,
        json!({ "metadata": { "uid": "u" }, "status": {
        "phase": "Running", "reason": null,
        "podIPs": [{ "ip": "10.0.0.2" }, { "$patch": "replace" }],
        "conditions": [{ "type": "Ready", "status": "True", "reason": null, "message": null,
            "observedGeneration": null, "lastProbeTime": null, "lastTransitionTime": null }],
    } })
    );
}
