//! A pod and its node in, a verdict out.

use std::sync::Arc;

use api::core::pod::PodView;
use api::{Meta, Stored};
use apimachinery::ObjectKey;
use jiff::Timestamp;
use proptest::collection::vec;
use proptest::prelude::*;
use reconcile::testing::converges;
use serde_json::{Value, json};

use super::plan::{Verdict, excess, plan};

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

fn check(pod: &PodView, has_node: bool, missing_for: i64, expected: &str) {
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
        is_bound: bool,
        is_deleting: bool,
        has_node: bool,
        missing_for in 0..100i64,
    ) {
        let pod = pod(if is_bound { "n" } else { "" }, is_deleting);
        let rested = converges(
            |(pod, now): &(Option<PodView>, Timestamp)| {
                let verdict = pod.as_ref().map(|it| plan(it, has_node, at(0), *now));
                verdict.into_iter().filter(|it| *it != Verdict::Keep).collect()
            },
            |(pod, now), verdict| match verdict {
                Verdict::Wait(left) => *now += left,
                _ => *pod = None,
            },
            (Some(pod), at(missing_for)),
            2,
        );
        let is_abandoned = if is_bound { !has_node } else { is_deleting };
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
