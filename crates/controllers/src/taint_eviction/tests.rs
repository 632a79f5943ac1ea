//! Taints and tolerations in, a verdict out.

use k8s_openapi::api::core::v1::{Taint, Toleration};

use super::plan::plan;

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
