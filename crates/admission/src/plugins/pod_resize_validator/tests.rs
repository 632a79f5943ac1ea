//! A pod before and after in; the refusal out.

use api::core::Pod;
use apimachinery::User;
use serde_json::{Value, json};

use super::PodResizeValidator;
use crate::attributes::Operation;
use crate::plugins::fixture::{Case, Objects, decode};

fn pod(node: &str, generation: i64, cpu: &str, memory: &str) -> Pod {
    let requests = json!({"cpu": cpu, "memory": memory});
    decode(&json!({
        "metadata": {"name": "web", "namespace": "ns", "generation": generation},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": requests}}]},
    }))
}

/// The refusal, and the reason of its cause.
fn check(new: Pod, expected: Result<(), (&str, Option<&str>)>) {
    let node = |name: &str, os: Value| {
        json!({"metadata": {"name": name, "labels": {"kubernetes.io/os": os}},
            "status": {"allocatable": {"cpu": "2", "memory": "1Gi"}}})
    };
    let mut unlabelled = node("unlabelled", json!(""));
    unlabelled["metadata"].as_object_mut().unwrap().remove("labels");
    let objects = Objects::default()
        .with("nodes", &node("n", json!("linux")))
        .with("nodes", &node("w", json!("windows")))
        .with("nodes", &unlabelled);
    let name = new.spec.as_ref().unwrap().node_name.clone().unwrap();
    let old = pod(&name, 1, "1", "1Gi");
    let user = User::new("alice", &[]);
    let case = Case::of(Operation::Update, "/pods/resize", &user);
    let outcome = case.run(PodResizeValidator, objects, (Some(&new), Some(&old)));
    let outcome = outcome.map(drop).map_err(|it| {
        let details = it.details().cloned().unwrap_or_default();
        let cause = details.causes.unwrap_or_default().pop().and_then(|it| it.reason);
        (it.to_string(), cause)
    });
    let forbidden = |(why, cause): (&str, Option<&str>)| {
        (format!("pods \"web\" is forbidden: {why}"), cause.map(str::to_owned))
    };
    assert_eq!(outcome, expected.map_err(forbidden));
}

#[test]
fn nobody_asks_for_more_than_the_node_has() {
    check(pod("n", 2, "2", "1Gi"), Ok(()));
    check(
        pod("n", 2, "2001m", "1Gi"),
        Err((
            "node didn't have enough allocatable resources: cpu, requested: 2001, allocatable: 2000",
            Some("NodeCapacity"),
        )),
    );
    check(
        pod("unlabelled", 2, "3", "2Gi"),
        Err((
            "node didn't have enough allocatable resources: cpu, requested: 3000, allocatable: 2000; memory, requested: 2147483648, allocatable: 1073741824",
            Some("NodeCapacity"),
        )),
    );
}

#[test]
fn other_systems_do_not_resize() {
    check(
        pod("w", 2, "1", "1Gi"),
        Err((
            "pod resize is only supported on linux nodes, node \"w\" is \"windows\"",
            Some("UnsupportedPlatform"),
        )),
    );
    check(pod("gone", 2, "1", "1Gi"), Err(("node \"gone\" not found", None)));
}

#[test]
fn who_changes_nothing_or_has_no_node_is_not_asked() {
    check(pod("n", 1, "9", "9Gi"), Ok(()));
    check(pod("", 2, "9", "9Gi"), Ok(()));
}
