//! Taints and tolerations in, a verdict out.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Taint, Toleration};
use proptest::collection::vec;
use proptest::prelude::*;
use reconcile::testing::converges;

use super::plan::{Verdict, plan};
use crate::pods;

/// `key=value:Effect`
fn taint(text: &str) -> Taint {
    let (rest, effect) = text.rsplit_once(':').unwrap();
    let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
    Taint {
        key: key.to_owned(),
        value: Some(value.to_owned()),
        effect: effect.to_owned(),
        time_added: None,
    }
}

/// `key=value:Effect for seconds`, `key:Effect` (exists), `*` (everything)
fn toleration(text: &str) -> Toleration {
    let (rule, seconds) = match text.split_once(" for ") {
        Some((rule, seconds)) => (rule, Some(seconds.parse().unwrap())),
        None => (text, None),
    };
    if rule == "*" {
        let operator = Some("Exists".to_owned());
        return Toleration { operator, toleration_seconds: seconds, ..Toleration::default() };
    }
    let (rest, effect) = rule.rsplit_once(':').unwrap();
    let (key, value, operator) = match rest.split_once('=') {
        Some((key, value)) => (key, Some(value.to_owned()), "Equal"),
        None => (rest, None, "Exists"),
    };
    Toleration {
        key: Some(key.to_owned()),
        value,
        operator: Some(operator.to_owned()),
        effect: Some(effect.to_owned()).filter(|it| !it.is_empty()),
        toleration_seconds: seconds,
    }
}

fn check(taints: &[&str], tolerations: &[&str], expected: &str) {
    let taints: Vec<Taint> = taints.iter().map(|it| taint(it)).collect();
    let tolerations: Vec<Toleration> = tolerations.iter().map(|it| toleration(it)).collect();
    assert_eq!(format!("{:?}", plan(&taints, &tolerations)), expected);
}

#[test]
fn only_no_execute_taints_evict() {
    check(&[], &[], "Stay");
    check(&["a:NoSchedule"], &[], "Stay");
    check(&["a:NoExecute"], &[], "LeaveAfter(0ns)");
}

#[test]
fn a_toleration_without_seconds_lets_the_pod_stay() {
    check(&["a=x:NoExecute"], &["a=x:NoExecute"], "Stay");
    check(&["a=x:NoExecute"], &["a=y:NoExecute"], "LeaveAfter(0ns)");
    check(&["a=x:NoExecute"], &["*"], "Stay");
    check(&["a=x:NoExecute"], &["a:"], "Stay");
}

#[test]
fn the_shortest_toleration_counts() {
    check(&["a:NoExecute"], &["a:NoExecute for 300"], "LeaveAfter(300s)");
    let two = ["a:NoExecute for 300", "b:NoExecute for 60"];
    check(&["a:NoExecute", "b:NoExecute"], &two, "LeaveAfter(60s)");
    check(&["a:NoExecute", "b:NoExecute", "c:NoExecute"], &two, "LeaveAfter(0ns)");
}

/// A pod on a node that was seen tainted at the epoch.
#[derive(Debug)]
struct Bound {
    is_evicted: bool,
    now: Timestamp,
}

/// What is left to do, as the controller reads its verdict: wait, or evict when nothing is left.
fn left(pod: &Bound, verdict: Verdict) -> Vec<Duration> {
    match verdict {
        Verdict::LeaveAfter(period) if !pod.is_evicted => {
            vec![pods::remaining(Timestamp::UNIX_EPOCH, period, pod.now)]
        }
        _ => Vec::new(),
    }
}

fn any_taint() -> impl Strategy<Value = Taint> {
    "[ab](=[xy])?:(NoExecute|NoSchedule)".prop_map(|it| taint(&it))
}

fn any_toleration() -> impl Strategy<Value = Toleration> {
    r"([ab](=[xy])?:(NoExecute)?|\*)( for [0-9]{1,3})?".prop_map(|it| toleration(&it))
}

proptest! {
    #[test]
    fn a_pod_stays_or_leaves_after_one_wait(
        taints in vec(any_taint(), 0..4),
        tolerations in vec(any_toleration(), 0..4),
    ) {
        let rested = converges(
            |pod| left(pod, plan(&taints, &tolerations)),
            |pod: &mut Bound, left| match left {
                Duration::ZERO => pod.is_evicted = true,
                left => pod.now += left,
            },
            Bound { is_evicted: false, now: Timestamp::UNIX_EPOCH },
            2,
        );
        let verdict = plan(&taints, &tolerations);
        prop_assert_eq!(rested.unwrap().is_evicted, verdict != Verdict::Stay);
    }

    #[test]
    fn the_order_of_taints_and_tolerations_says_nothing(
        taints in vec(any_taint(), 0..4),
        tolerations in vec(any_toleration(), 0..4),
    ) {
        let taints_reversed: Vec<Taint> = taints.iter().rev().cloned().collect();
        let tolerations_reversed: Vec<Toleration> = tolerations.iter().rev().cloned().collect();
        prop_assert_eq!(
            plan(&taints, &tolerations),
            plan(&taints_reversed, &tolerations_reversed)
        );
    }
}
