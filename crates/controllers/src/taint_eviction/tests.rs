//! Taints and tolerations in, a verdict out.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Taint, Toleration};
use proptest::collection::vec;
use proptest::prelude::*;
use reconcile::testing::converges;

use super::plan::{Observed, Verdict, plan};

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

/// After this many seconds; `since` is when an earlier look found that the pod has to leave.
fn verdict(taints: &[Taint], tolerations: &[Toleration], since: Option<i64>, now: i64) -> Verdict {
    let at = |seconds| Timestamp::from_second(seconds).unwrap();
    plan(&Observed { taints, tolerations, since: since.map(at), now: at(now) })
}

fn check(taints: &[&str], tolerations: &[&str], expected: &str) {
    let taints: Vec<Taint> = taints.iter().map(|it| taint(it)).collect();
    let tolerations: Vec<Toleration> = tolerations.iter().map(|it| toleration(it)).collect();
    assert_eq!(format!("{:?}", verdict(&taints, &tolerations, None, 0)), expected);
}

#[test]
fn only_no_execute_taints_evict() {
    check(&[], &[], "Stay");
    check(&["a:NoSchedule"], &[], "Stay");
    check(&["a:NoExecute"], &[], "Evict { late: 0ns }");
}

#[test]
fn a_toleration_without_seconds_lets_the_pod_stay() {
    check(&["a=x:NoExecute"], &["a=x:NoExecute"], "Stay");
    check(&["a=x:NoExecute"], &["a=y:NoExecute"], "Evict { late: 0ns }");
    check(&["a=x:NoExecute"], &["*"], "Stay");
    check(&["a=x:NoExecute"], &["a:"], "Stay");
}

#[test]
fn the_shortest_toleration_counts() {
    check(&["a:NoExecute"], &["a:NoExecute for 300"], "Wait(300s)");
    let two = ["a:NoExecute for 300", "b:NoExecute for 60"];
    check(&["a:NoExecute", "b:NoExecute"], &two, "Wait(60s)");
    check(&["a:NoExecute", "b:NoExecute", "c:NoExecute"], &two, "Evict { late: 0ns }");
}

#[test]
fn the_time_runs_from_the_first_look_and_a_pod_that_may_stay_is_told_so() {
    let (taints, tolerations) = ([taint("a:NoExecute")], [toleration("a:NoExecute for 300")]);
    assert_eq!(verdict(&taints, &tolerations, Some(0), 299), Verdict::Wait(Duration::from_secs(1)));
    assert_eq!(
        verdict(&taints, &tolerations, Some(0), 302),
        Verdict::Evict { late: Duration::from_secs(2) }
    );
    assert_eq!(verdict(&[], &tolerations, Some(0), 299), Verdict::StayAfterAll);
}

/// A pod on a tainted node, the time, and what an earlier look found.
#[derive(Debug)]
struct Bound {
    is_evicted: bool,
    since: Option<i64>,
    now: i64,
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
            |pod: &Bound| {
                let verdict = verdict(&taints, &tolerations, pod.since, pod.now);
                Some(verdict).filter(|it| *it != Verdict::Stay && !pod.is_evicted).into_iter().collect()
            },
            |pod, verdict| match verdict {
                Verdict::Stay | Verdict::StayAfterAll => pod.since = None,
                Verdict::Wait(left) => {
                    pod.since = pod.since.or(Some(pod.now));
                    pod.now += i64::try_from(left.as_secs()).unwrap();
                }
                Verdict::Evict { .. } => pod.is_evicted = true,
            },
            Bound { is_evicted: false, since: None, now: 0 },
            2,
        );
        let first = verdict(&taints, &tolerations, None, 0);
        prop_assert_eq!(rested.unwrap().is_evicted, first != Verdict::Stay);
    }

    #[test]
    fn the_order_of_taints_and_tolerations_says_nothing(
        taints in vec(any_taint(), 0..4),
        tolerations in vec(any_toleration(), 0..4),
    ) {
        let taints_reversed: Vec<Taint> = taints.iter().rev().cloned().collect();
        let tolerations_reversed: Vec<Toleration> = tolerations.iter().rev().cloned().collect();
        prop_assert_eq!(
            verdict(&taints, &tolerations, None, 0),
            verdict(&taints_reversed, &tolerations_reversed, None, 0)
        );
    }
}
