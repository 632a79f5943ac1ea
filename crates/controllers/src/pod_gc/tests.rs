//! A pod and its node in, a verdict out.

use std::sync::Arc;

use api::core::node::{Node, NodeView};
use api::core::pod::PodView;
use api::{Meta, Stored};
use apimachinery::ObjectKey;
use jiff::Timestamp;
use proptest::collection::vec;
use proptest::prelude::*;
use reconcile::testing::converges;
use serde_json::{Value, json};

use super::plan::{Place, Verdict, excess, place, plan};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + seconds).unwrap()
}

fn view(name: &str, is_deleting: bool, pod: Value) -> Arc<PodView> {
    let meta = Meta { key: ObjectKey::cluster(name), is_deleting, ..Meta::default() };
    Stored::new(meta, pod.to_string().into()).view().unwrap()
}

fn pod(node: &str, is_deleting: bool) -> PodView {
    let pod = json!({"spec": {"containers": [], "nodeName": node}});
    PodView::clone(&view("p", is_deleting, pod))
}

/// `node` is empty: there is none. Otherwise its condition Ready, and `off` when somebody has said
/// so.
fn check(pod: &PodView, node: &str, missing_for: i64, expected: &str) {
    let (ready, taint) = node.split_once(' ').unwrap_or((node, ""));
    let taints: Vec<Value> = (taint == "off")
        .then(|| json!({"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}))
        .into_iter()
        .collect();
    let object = json!({
        "metadata": {"name": "n"}, "spec": {"taints": taints},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    });
    let object = NodeView::from(&serde_json::from_value::<Node>(object).unwrap());
    let place = place(pod, Some(&object).filter(|_| !node.is_empty()));
    assert_eq!(format!("{:?}", plan(pod, place, at(0), at(missing_for))), expected);
}

#[test]
fn pods_that_no_kubelet_will_finish_are_deleted() {
    check(&pod("", false), "", 0, "Keep");
    check(&pod("", true), "", 0, "Delete(Unscheduled)");
    check(&pod("n", true), "True", 0, "Keep");
}

#[test]
fn pods_of_a_missing_node_wait_in_quarantine() {
    check(&pod("n", false), "", 30, "Wait(10s)");
    check(&pod("n", false), "", 40, "Delete(Orphaned)");
}

#[test]
fn pods_that_leave_a_node_that_is_off_do_not_wait_for_it() {
    check(&pod("n", true), "Unknown off", 0, "Delete(OutOfService)");
    check(&pod("n", true), "False off", 0, "Delete(OutOfService)");
    check(&pod("n", true), "True off", 0, "Keep");
    check(&pod("n", true), "Unknown", 0, "Keep");
    check(&pod("n", false), "Unknown off", 0, "Keep");
}

fn finished(name: &str, day: u8) -> Arc<PodView> {
    let meta = json!({"name": name, "creationTimestamp": format!("2026-01-{day:02}T00:00:00Z")});
    view(name, false, json!({"metadata": meta}))
}

#[test]
fn the_oldest_finished_pods_go_first() {
    let pods = vec![finished("b", 2), finished("a", 3), finished("c", 1)];
    let names: Vec<String> =
        excess(pods.clone(), 1).into_iter().map(|it| it.meta.key.name.clone()).collect();
    assert_eq!(names, ["c", "b"]);
    assert!(excess(pods, 3).is_empty());
}

proptest! {
    #[test]
    fn a_pod_is_kept_or_deleted_after_one_wait(
        is_deleting: bool,
        place in prop::sample::select(vec![
            Place::Nowhere, Place::Missing, Place::Present, Place::OutOfService,
        ]),
        missing_for in 0..100i64,
    ) {
        let pod = pod(if place == Place::Nowhere { "" } else { "n" }, is_deleting);
        let rested = converges(
            |(pod, now): &(Option<PodView>, Timestamp)| {
                let verdict = pod.as_ref().map(|it| plan(it, place, at(0), *now));
                verdict.into_iter().filter(|it| *it != Verdict::Keep).collect()
            },
            |(pod, now), verdict| match verdict {
                Verdict::Wait(left) => *now += left,
                _ => *pod = None,
            },
            (Some(pod), at(missing_for)),
            2,
        );
        let is_abandoned = match place {
            Place::Missing => true,
            Place::Present => false,
            Place::Nowhere | Place::OutOfService => is_deleting,
        };
        prop_assert_eq!(rested.unwrap().0.is_none(), is_abandoned);
    }

    #[test]
    fn one_sweep_leaves_the_threshold(days in vec(1..5u8, 0..10), threshold in 0..10usize) {
        let pods: Vec<Arc<PodView>> =
            days.iter().enumerate().map(|(n, day)| finished(&n.to_string(), *day)).collect();
        let reversed = pods.iter().rev().cloned().collect();
        prop_assert_eq!(excess(pods.clone(), threshold), excess(reversed, threshold));
        let rested = converges(
            |pods: &Vec<Arc<PodView>>| excess(pods.clone(), threshold),
            |pods, swept| pods.retain(|it| *it != swept),
            pods,
            1,
        );
        prop_assert_eq!(rested.unwrap().len(), days.len().min(threshold));
    }
}
