//! A pod and its node in, a verdict out.

use std::sync::Arc;

use api::core::pod::Pod;
use jiff::Timestamp;
use serde_json::json;

use super::plan::{excess, plan};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + seconds).unwrap()
}

fn pod(node: &str, is_deleting: bool) -> Pod {
    let mut pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [], "nodeName": node}});
    if is_deleting {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    serde_json::from_value(pod).unwrap()
}

fn check(pod: &Pod, has_node: bool, missing_for: i64, expected: &str) {
    assert_eq!(format!("{:?}", plan(pod, has_node, at(0), at(missing_for))), expected);
}

#[test]
fn pods_that_no_kubelet_will_finish_are_deleted() {
    check(&pod("", false), false, 0, "Keep");
    check(&pod("", true), false, 0, "DeleteUnscheduled");
    check(&pod("n", true), true, 0, "Keep");
}

#[test]
fn pods_of_a_missing_node_wait_in_quarantine() {
    check(&pod("n", false), false, 30, "Wait(10s)");
    check(&pod("n", false), false, 40, "DeleteOrphan");
}

#[test]
fn the_oldest_finished_pods_go_first() {
    let finished = |name: &str, day: &str| -> Arc<Pod> {
        let meta = json!({"name": name, "creationTimestamp": format!("2026-01-{day}T00:00:00Z")});
        Arc::new(serde_json::from_value(json!({"metadata": meta})).unwrap())
    };
    let pods = vec![finished("b", "02"), finished("a", "03"), finished("c", "01")];
    let names: Vec<Option<String>> =
        excess(pods.clone(), 1).into_iter().map(|it| it.metadata.name.clone()).collect();
    assert_eq!(names, [Some("c".to_owned()), Some("b".to_owned())]);
    assert!(excess(pods, 3).is_empty());
}
