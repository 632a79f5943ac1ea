//! Quotas and counts in, statuses out.

use api::amounts::{Amounts, Written};
use api::core::ResourceQuota;
use apimachinery::GroupResource;
use proptest::prelude::*;
use reconcile::testing::converges;
use serde_json::{Value, json};

use super::plan::{is_about, is_new, is_stale, nothing, plan, resources};

fn quota(hard: &Value, status: &Value) -> ResourceQuota {
    let metadata = json!({"name": "q", "namespace": "ns"});
    let all = json!({"metadata": metadata, "spec": {"hard": hard}, "status": status});
    serde_json::from_value(all).unwrap()
}

fn counted(counts: &[(&str, usize)]) -> Amounts {
    counts.iter().map(|(name, n)| ((*name).to_owned(), Written::count(*n))).collect()
}

fn check(hard: &Value, status: &Value, counts: &[(&str, usize)], expected: &Value) {
    let planned = plan(&quota(hard, status), &counted(counts));
    let status = planned.map(|it| serde_json::to_value(it.status).unwrap());
    assert_eq!(status.unwrap_or_default(), *expected);
}

#[test]
fn a_new_quota_learns_what_there_is() {
    let hard = json!({"pods": "2", "requests.cpu": "1"});
    let expected = json!({"hard": hard, "used": {"pods": "1", "requests.cpu": "0"}});
    check(&hard, &json!({}), &[("pods", 1), ("requests.cpu", 0), ("memory", 5)], &expected);
}

#[test]
fn what_is_said_already_is_not_said_again() {
    let hard = json!({"pods": "2"});
    let status = json!({"hard": {"pods": "2"}, "used": {"pods": "1"}});
    check(&hard, &status, &[("pods", 1)], &Value::Null);
    let less = json!({"hard": {"pods": "2"}, "used": {"pods": "0"}});
    check(&hard, &status, &[("pods", 0)], &less);
    // However it is written.
    let other = json!({"hard": {"pods": "2000m"}, "used": {"pods": "1"}});
    check(&hard, &other, &[("pods", 1)], &Value::Null);
    check(&json!({}), &json!({}), &[], &Value::Null);
}

#[test]
fn what_could_not_be_counted_stays_and_what_is_bounded_no_more_goes() {
    let hard = json!({"pods": "2", "secrets": "3"});
    let status = json!({
        "hard": {"pods": "9", "secrets": "3", "cpu": "1"},
        "used": {"pods": "1", "secrets": "2", "cpu": "1"},
    });
    let expected = json!({"hard": hard, "used": {"pods": "4", "secrets": "2"}});
    check(&hard, &status, &[("pods", 4)], &expected);
}

#[test]
fn only_what_is_bounded_is_listed() {
    let check = |hard: Value, expected: &[&str]| {
        let found: Vec<String> =
            resources(&quota(&hard, &json!({}))).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{hard}");
    };
    check(json!({"cpu": "1", "limits.memory": "1"}), &["pods"]);
    check(json!({"services.nodeports": "1", "count/secrets": "1"}), &["secrets", "services"]);
    check(json!({"requests.storage": "1"}), &["persistentvolumeclaims"]);
    check(json!({"count/widgets.example.com": "1"}), &["widgets.example.com"]);
    let gpus = json!({"requests.example.com/gpu": "1"});
    check(gpus, &["pods", "resourceclaims.resource.k8s.io"]);
    check(json!({"count/pods": "1"}), &["pods"]);
    let quota = quota(&json!({"count/secrets": "1"}), &json!({}));
    assert!(is_about(&quota, &GroupResource::new("", "secrets")));
    assert!(!is_about(&quota, &GroupResource::new("", "pods")));
    let of_pods = nothing(&quota, &GroupResource::new("", "pods"), &Default::default());
    assert!(of_pods.is_empty());
}

#[test]
fn what_was_not_enforced_yet_is_counted_twice() {
    let hard = json!({"pods": "2"});
    assert!(is_new(&quota(&hard, &json!({}))));
    assert!(is_new(&quota(&hard, &json!({"hard": {"cpu": "1"}}))));
    assert!(!is_new(&quota(&hard, &json!({"hard": {"pods": "1"}}))));
}

#[test]
fn a_status_that_somebody_else_wrote_is_stale() {
    let hard = json!({"pods": "2"});
    let check = |status: Value, expected: bool| {
        assert_eq!(is_stale(&quota(&hard, &status)), expected, "{status}");
    };
    check(json!({"hard": {"pods": "2"}, "used": {"pods": "7"}}), false);
    check(json!({"hard": {"pods": "3"}, "used": {"pods": "7"}}), true);
    check(json!({"hard": {"pods": "2"}}), true);
    check(json!({}), true);
}

proptest! {
    #[test]
    fn one_write_is_enough(
        hard in proptest::collection::btree_map("(pods|cpu|secrets|count/x.y)", "[0-9]{1,3}(m|Gi|)", 0..4),
        before in proptest::collection::btree_map("(pods|cpu|secrets|services)", "[0-9]{1,3}(m|k|)", 0..4),
        n in 0_usize..1000,
    ) {
        let status = json!({"hard": before, "used": before});
        let start = quota(&json!(hard), &status);
        let counts = counted(&[("pods", n), ("cpu", n / 2)]);
        let planned = |it: &ResourceQuota| plan(it, &counts).into_iter().collect::<Vec<_>>();
        let end = converges(planned, |state, new| *state = *new, start, 1).unwrap();
        let used = end.status.and_then(|it| it.used).unwrap_or_default();
        prop_assert!(used.keys().all(|it| hard.contains_key(it)));
    }
}
