//! Budgets, pods and scales in, statuses and events out.

use std::sync::Arc;
use std::time::Duration;

use api::core::pod::{Pod, PodView};
use api::policy::PodDisruptionBudget;
use api::{Resource as _, Stored};
use jiff::Timestamp;
use proptest::prelude::*;
use reconcile::testing::converges;
use serde_json::{Value, json};

use super::plan::{About, Observed, Plan, Scale, explain, needs_scale, plan};
use super::stale::stale_in;

/// 2026-01-01T00:10:00Z.
const NOW: i64 = 1_767_226_200;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(NOW + seconds).unwrap()
}

fn text(seconds: i64) -> String {
    at(seconds).to_string()
}

fn view(manifest: &Value) -> Arc<PodView> {
    let pod = Pod::decode(manifest.to_string().as_bytes()).unwrap();
    let meta = api::object::meta_of(&pod.metadata, Vec::new());
    Stored::new(meta, manifest.to_string().into()).view().unwrap()
}

/// `name`, then any of: `ready`, `leaving`, `alone` (nobody controls it).
fn pod(text: &str) -> Arc<PodView> {
    let mut words = text.split(' ');
    let mut meta = json!({
        "name": words.next(), "namespace": "ns", "uid": "u", "labels": {"app": "web"},
        "ownerReferences": [{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs",
            "controller": true,
        }],
    });
    let mut status = json!({"phase": "Running"});
    for word in words {
        match word {
            "ready" => status["conditions"] = json!([{"type": "Ready", "status": "True"}]),
            "leaving" => meta["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
            "alone" => meta["ownerReferences"] = json!([]),
            other => panic!("{other}"),
        }
    }
    view(&json!({"metadata": meta, "spec": {}, "status": status}))
}

fn pods(texts: &[&str]) -> Vec<Arc<PodView>> {
    texts.iter().map(|it| pod(it)).collect()
}

fn budget(mut spec: Value, status: &Value) -> PodDisruptionBudget {
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    let meta = json!({"name": "web", "namespace": "ns", "generation": 2});
    let manifest = json!({"metadata": meta, "spec": spec, "status": status});
    PodDisruptionBudget::decode(manifest.to_string().as_bytes()).unwrap()
}

fn render(plan: &Plan) -> String {
    let mut parts = Vec::new();
    for event in &plan.events {
        let about = match &event.about {
            About::Budget => String::new(),
            About::Pod(pod) => format!("{} ", pod.meta.key.name),
        };
        parts.push(format!("{about}{}", event.reason));
    }
    if let Some(status) = plan.write.as_ref().and_then(|it| it.status.as_ref()) {
        let condition = status.conditions.iter().flatten().next();
        let reason = condition.map(|it| it.reason.clone()).unwrap_or_default();
        let disrupted = status.disrupted_pods.iter().flatten();
        let disrupted: String = disrupted.map(|(name, _)| format!(" -{name}")).collect();
        parts.push(format!(
            "{}: {} of {} healthy, {} expected, {reason}{disrupted}",
            status.disruptions_allowed.unwrap_or(0),
            status.current_healthy.unwrap_or(0),
            status.desired_healthy.unwrap_or(0),
            status.expected_pods.unwrap_or(0),
        ));
    }
    if let Some(wait) = plan.look_again {
        parts.push(format!("again in {} s", wait.as_secs()));
    }
    parts.join("; ")
}

fn plan_for(budget: &PodDisruptionBudget, pods: &[Arc<PodView>], scales: &[i32]) -> Plan {
    let owner = |(n, replicas): (usize, &i32)| Scale { uid: n.to_string(), replicas: *replicas };
    let owners: Vec<Scale> = scales.iter().enumerate().map(owner).collect();
    plan(&Observed { budget, pods: Ok(pods), owners: Ok(&owners), now: at(0) })
}

fn check(spec: Value, texts: &[&str], scales: &[i32], expected: &str) {
    let budget = budget(spec, &json!({}));
    assert_eq!(render(&plan_for(&budget, &pods(texts), scales)), expected);
}

#[test]
fn a_budget_that_allows_nothing_says_why() {
    let check = |spec: Value, texts: &[&str], scales: &[i32], expected: Option<&str>| {
        let planned = plan_for(&budget(spec, &json!({})), &pods(texts), scales);
        assert_eq!(explain(&planned).map(|it| it.1).as_deref(), expected);
    };
    check(json!({"minAvailable": 1}), &["a ready", "b ready"], &[], None);
    check(json!({"minAvailable": 1}), &[], &[], None);
    check(
        json!({"minAvailable": 2}),
        &["a ready", "b", "c leaving"],
        &[],
        Some(
            "of 3 pods 1 are healthy and 2 have to be: no pod may be evicted until 2 more are \
             healthy; not healthy: b (not ready), c (terminating); healthy: a",
        ),
    );
    check(
        json!({"maxUnavailable": 0}),
        &["a ready", "b ready"],
        &[2],
        Some("of 2 pods 2 are healthy and 2 have to be: no pod may be evicted; healthy: a, b"),
    );
    // Pods that are expected and not there have no names; of many a few are told.
    check(
        json!({"maxUnavailable": 1}),
        &["a ready", "b ready", "c ready", "d ready", "e ready"],
        &[9],
        Some(
            "of 9 pods 5 are healthy and 8 have to be: no pod may be evicted until 4 more are \
             healthy; healthy: a, b, c and 2 more",
        ),
    );
    // The status is another matter: an eviction that was allowed has not deleted its pod yet.
    let status = json!({"disruptedPods": {"a": text(-10)}});
    let evicted = budget(json!({"minAvailable": 1}), &status);
    let planned = plan_for(&evicted, &pods(&["a ready", "b ready"]), &[]);
    assert_eq!(
        explain(&planned).unwrap().1,
        "of 2 pods 1 are healthy and 1 have to be: no pod may be evicted until 1 more are healthy; \
         not healthy: a (being evicted); healthy: b"
    );
}

#[test]
fn a_count_that_stays_is_of_the_pods_that_are_there() {
    let three = ["a ready", "b ready", "c"];
    check(json!({"minAvailable": 1}), &three, &[], "1: 2 of 1 healthy, 3 expected, SufficientPods");
    check(
        json!({"minAvailable": 2}),
        &three,
        &[],
        "0: 2 of 2 healthy, 3 expected, InsufficientPods",
    );
    check(json!({"minAvailable": 0}), &three, &[], "2: 2 of 0 healthy, 3 expected, SufficientPods");
    // Nobody need control them.
    check(
        json!({"minAvailable": 1}),
        &["a ready alone"],
        &[],
        "0: 1 of 1 healthy, 1 expected, InsufficientPods",
    );
    assert!(!needs_scale(&budget(json!({"minAvailable": 1}), &json!({}))));
}

#[test]
fn shares_and_losses_are_of_what_the_owners_want() {
    let three = ["a ready", "b ready", "c ready"];
    check(
        json!({"maxUnavailable": 1}),
        &three,
        &[3],
        "1: 3 of 2 healthy, 3 expected, SufficientPods",
    );
    check(
        json!({"maxUnavailable": 1}),
        &three,
        &[5],
        "0: 3 of 4 healthy, 5 expected, InsufficientPods",
    );
    check(
        json!({"maxUnavailable": 9}),
        &three,
        &[3],
        "3: 3 of 0 healthy, 3 expected, SufficientPods",
    );
    check(
        json!({"maxUnavailable": 1}),
        &three,
        &[2, 2],
        "0: 3 of 3 healthy, 4 expected, InsufficientPods",
    );
    // Percentages are rounded up: 34 % of three are two.
    check(
        json!({"maxUnavailable": "34%"}),
        &three,
        &[3],
        "2: 3 of 1 healthy, 3 expected, SufficientPods",
    );
    check(
        json!({"minAvailable": "34%"}),
        &three,
        &[3],
        "1: 3 of 2 healthy, 3 expected, SufficientPods",
    );
    check(
        json!({"minAvailable": "100%"}),
        &three,
        &[3],
        "0: 3 of 3 healthy, 3 expected, InsufficientPods",
    );
    check(
        json!({"minAvailable": "0%"}),
        &three,
        &[3],
        "3: 3 of 0 healthy, 3 expected, SufficientPods",
    );
}

#[test]
fn a_pod_that_leaves_or_is_not_ready_is_not_healthy() {
    check(
        json!({"minAvailable": 1}),
        &["a ready", "b ready leaving", "c"],
        &[],
        "0: 1 of 1 healthy, 3 expected, InsufficientPods",
    );
}

#[test]
fn where_nothing_is_expected_nothing_is_allowed() {
    check(
        json!({"minAvailable": 0}),
        &[],
        &[],
        "NoPods; 0: 0 of 0 healthy, 0 expected, InsufficientPods",
    );
    check(
        json!({"maxUnavailable": 1}),
        &["a ready"],
        &[0],
        "0: 1 of 0 healthy, 0 expected, InsufficientPods",
    );
    check(json!({}), &["a ready"], &[], "0: 1 of 0 healthy, 0 expected, InsufficientPods");
}

#[test]
fn pods_that_nobody_controls_are_named_where_they_would_be_counted() {
    let spec = json!({"maxUnavailable": 1});
    let texts = ["a ready", "b ready alone"];
    check(
        spec.clone(),
        &texts,
        &[2],
        "UnmanagedPods; 1: 2 of 1 healthy, 2 expected, SufficientPods",
    );
    let plan = plan_for(&budget(spec, &json!({})), &pods(&texts), &[2]);
    let message = &plan.events[0].message;
    assert!(message.starts_with("Pods selected by this PodDisruptionBudget (selector: &LabelSelector{MatchLabels:map[string]string{app: web,},MatchExpressions:[]LabelSelectorRequirement{},}) were found to be unmanaged."), "{message}");
}

#[test]
fn what_cannot_be_counted_is_not_disrupted() {
    let healthy = json!({
        "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2,
        "observedGeneration": 2,
    });
    let budget = budget(json!({"maxUnavailable": 1}), &healthy);
    let pods = pods(&["a ready"]);
    let why = "found no controllers for pod \"a\"";
    let failed = plan(&Observed { budget: &budget, pods: Ok(&pods), owners: Err(why), now: at(0) });
    assert_eq!(
        render(&failed),
        "CalculateExpectedPodCountFailed; 0: 2 of 1 healthy, 2 expected, SyncFailed"
    );
    assert_eq!(
        failed.events[0].message,
        "Failed to calculate the number of expected pods: found no controllers for pod \"a\""
    );
    let written = failed.write.expect("it is written");
    let condition = written.status.as_ref().unwrap().conditions.clone().unwrap().remove(0);
    assert_eq!((condition.message.as_str(), condition.observed_generation), (why, Some(2)));
    // Said once.
    let again = plan(&Observed { budget: &written, pods: Ok(&pods), owners: Err(why), now: at(9) });
    assert_eq!(again.write, None);
    let found = plan_for(&written, &pods, &[1]);
    assert_eq!(render(&found), "1: 1 of 0 healthy, 1 expected, SufficientPods");
    let unread = plan(&Observed { budget: &budget, pods: Err("bad"), owners: Ok(&[]), now: at(0) });
    assert_eq!(render(&unread), "NoPods; 0: 2 of 1 healthy, 2 expected, SyncFailed");
}

#[test]
fn a_pod_that_is_about_to_go_counts_as_gone_for_two_minutes() {
    let status = |seconds: i64| json!({"disruptedPods": {"a": text(seconds), "gone": text(-1), "c": text(-1)}});
    let texts = ["a ready", "b ready", "c ready leaving"];
    let spec = json!({"minAvailable": 1});
    let check = |seconds: i64, expected: &str| {
        let budget = budget(spec.clone(), &status(seconds));
        assert_eq!(render(&plan_for(&budget, &pods(&texts), &[])), expected);
    };
    check(-1, "0: 1 of 1 healthy, 3 expected, InsufficientPods -a; again in 119 s");
    check(-119, "0: 1 of 1 healthy, 3 expected, InsufficientPods -a; again in 1 s");
    check(-120, "a NotDeleted; 1: 2 of 1 healthy, 3 expected, SufficientPods");
}

#[test]
fn a_disruption_target_is_stale_after_two_minutes() {
    let check = |since: i64, reason: &str, changes: Value, expected: Option<u64>| {
        let mut pod = json!({
            "metadata": {"name": "a", "namespace": "ns", "uid": "u"}, "spec": {},
            "status": {"phase": "Running", "conditions": [{
                "type": "DisruptionTarget", "status": "True", "reason": reason,
                "lastTransitionTime": text(since),
            }]},
        });
        for (path, value) in changes.as_object().unwrap() {
            *pod.pointer_mut(path).unwrap() = value.clone();
        }
        let found = stale_in(&view(&pod), at(0));
        assert_eq!(found, expected.map(Duration::from_secs), "{since} {reason} {changes}");
    };
    check(-1, "EvictionByEvictionAPI", json!({}), Some(119));
    check(-120, "EvictionByEvictionAPI", json!({}), Some(0));
    check(-999, "DeletionByTaintManager", json!({}), Some(0));
    check(-999, "TerminationByKubelet", json!({}), None);
    check(-999, "EvictionByEvictionAPI", json!({"/status/phase": "Failed"}), None);
    check(-999, "EvictionByEvictionAPI", json!({"/status/conditions/0/status": "False"}), None);
    let leaving = json!({"/metadata": {
        "name": "a", "namespace": "ns", "uid": "u", "deletionTimestamp": text(0),
    }});
    check(-999, "EvictionByEvictionAPI", leaving, None);
}

fn any_spec() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0..6i32).prop_map(|it| json!({"minAvailable": it})),
        (0..6i32).prop_map(|it| json!({"maxUnavailable": it})),
        (0..=100u32).prop_map(|it| json!({"minAvailable": format!("{it}%")})),
        (0..=100u32).prop_map(|it| json!({"maxUnavailable": format!("{it}%")})),
        Just(json!({})),
    ]
}

proptest! {
    /// One write says it all, and allows no more than leaves as many healthy pods as are wanted.
    #[test]
    fn one_write_is_enough_and_never_allows_too_much(
        spec in any_spec(),
        texts in prop::collection::vec("(ready)?( leaving)?( alone)?", 0..6),
        scales in prop::collection::vec(0..5i32, 0..3),
        disrupted in prop::collection::btree_map("p[0-5]", -300..1i64, 0..4),
    ) {
        let pods: Vec<Arc<PodView>> = texts
            .iter()
            .enumerate()
            .map(|(n, it)| pod(format!("p{n} {it}").split_whitespace().collect::<Vec<_>>().join(" ").as_str()))
            .collect();
        let entries: serde_json::Map<String, Value> =
            disrupted.iter().map(|(name, seconds)| (name.clone(), json!(text(*seconds)))).collect();
        let budget = budget(spec, &json!({"disruptedPods": entries}));
        let rested = converges(
            |budget: &PodDisruptionBudget| {
                plan_for(budget, &pods, &scales).write.into_iter().collect::<Vec<_>>()
            },
            |budget, written| *budget = *written,
            budget,
            1,
        );
        let status = rested.unwrap().status.unwrap_or_default();
        let pending = |name: &str| disrupted.get(name).is_some_and(|it| *it > -120);
        let n_healthy = pods
            .iter()
            .filter(|it| it.is_ready && !it.meta.is_deleting && !pending(&it.meta.key.name))
            .count();
        let allowed = usize::try_from(status.disruptions_allowed.unwrap_or(0)).unwrap();
        let desired = usize::try_from(status.desired_healthy.unwrap_or(0)).unwrap();
        prop_assert!(allowed == 0 || n_healthy - allowed >= desired);
        prop_assert_eq!(status.current_healthy, Some(i32::try_from(n_healthy).unwrap()));
    }
}
