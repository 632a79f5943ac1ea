//! A claim and pods in, the next step out.

use std::sync::Arc;

use api::core::PersistentVolumeClaim;
use api::core::pod::{Pod, PodView};
use proptest::prelude::*;
use reconcile::testing::converges;
use serde_json::{Value, json};

use super::plan::{FINALIZER, Step, is_unsettled, plan};

/// Made for the pod `web` with this uid, if any.
fn claim(
    name: &str,
    owner: Option<&str>,
    deleting: bool,
    finalizers: &[&str],
) -> PersistentVolumeClaim {
    let deletion = deleting.then_some("2026-01-01T00:00:00Z");
    let owner = owner.map(|uid| {
        json!([{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": uid, "controller": true}])
    });
    let meta = json!({
        "namespace": "default", "name": name, "finalizers": finalizers,
        "deletionTimestamp": deletion, "ownerReferences": owner,
    });
    serde_json::from_value(json!({"metadata": meta, "spec": {}})).unwrap()
}

fn pod(node: &str, volumes: &Value, rest: &Value) -> Arc<PodView> {
    let mut meta = json!({"namespace": "default", "name": "web", "uid": "u1"});
    meta.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    let spec = json!({"nodeName": node, "containers": [], "volumes": volumes});
    let pod: Pod = serde_json::from_value(json!({"metadata": meta, "spec": spec})).unwrap();
    Arc::new(PodView::from(&pod))
}

fn named() -> Value {
    json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
}

fn scratch() -> Value {
    json!([{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}])
}

fn render(step: Step) -> String {
    match step {
        Step::Rest => "rest".to_owned(),
        Step::Keep(users) => format!("keep for {}", users.join(" ")),
        Step::AskServer => "ask".to_owned(),
        Step::Write(claim) => {
            format!("write [{}]", claim.metadata.finalizers.unwrap_or_default().join(" "))
        }
    }
}

fn leaving() -> PersistentVolumeClaim {
    claim("data", None, true, &["mine", FINALIZER])
}

#[test]
fn a_claim_goes_when_neither_the_cache_nor_the_server_knows_a_user() {
    let check = |cached: &[Arc<PodView>], live: Option<&[Arc<PodView>]>, expected: &str| {
        assert_eq!(render(plan(&leaving(), cached, live)), expected);
    };
    let user = [pod("n1", &named(), &json!({}))];
    let other = [pod("n1", &json!([]), &json!({}))];
    check(&user, None, "keep for web");
    check(&[], None, "ask");
    check(&[], Some(&user), "keep for web");
    check(&other, Some(&other), "write [mine]");
    check(&[], Some(&[]), "write [mine]");
}

#[test]
fn only_who_has_a_node_uses_a_claim_and_also_who_has_ended() {
    let check = |node: &str, rest: Value, phase: &str, expected: &str| {
        let mut pod = PodView::clone(&pod(node, &named(), &rest));
        pod.phase = phase.into();
        assert_eq!(render(plan(&leaving(), &[Arc::new(pod)], Some(&[]))), expected);
    };
    check("", json!({}), "Pending", "write [mine]");
    check("n1", json!({}), "Pending", "keep for web");
    check("n1", json!({}), "Succeeded", "keep for web");
    let gone =
        json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0});
    check("n1", gone, "Running", "keep for web");
}

#[test]
fn a_claim_that_was_made_for_a_pod_is_used_by_that_pod_alone() {
    let check = |owner: Option<&str>, rest: Value, expected: &str| {
        let made = claim("web-scratch", owner, true, &[FINALIZER]);
        let pod = pod("n1", &scratch(), &rest);
        assert_eq!(render(plan(&made, &[pod], Some(&[]))), expected, "{owner:?} {rest}");
    };
    check(Some("u1"), json!({}), "keep for web");
    check(Some("u2"), json!({}), "write []");
    check(None, json!({}), "write []");
    let deletion = |grace: i64| json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": grace});
    check(Some("u1"), deletion(30), "keep for web");
    check(Some("u1"), deletion(0), "write []");
}

#[test]
fn a_claim_that_nobody_deletes_is_protected() {
    let check = |deleting: bool, finalizers: &[&str], expected: &str| {
        let claim = claim("data", None, deleting, finalizers);
        assert_eq!(is_unsettled(&claim), expected != "rest");
        assert_eq!(render(plan(&claim, &[], Some(&[]))), expected);
    };
    check(false, &["mine"], "write [mine kubernetes.io/pvc-protection]");
    check(false, &[FINALIZER], "rest");
    check(true, &["mine"], "rest");
    check(true, &[FINALIZER], "write []");
}

proptest! {
    #[test]
    fn one_write_is_enough_and_a_claim_in_use_keeps_its_finalizer(
        deleting: bool,
        is_cached: bool,
        is_live: bool,
        finalizers in prop::collection::vec(prop::sample::select(vec![FINALIZER, "mine"]), 0..3),
    ) {
        let pods = |is_there: bool| -> Vec<_> {
            is_there.then(|| pod("n1", &named(), &json!({}))).into_iter().collect()
        };
        let (cached, live) = (pods(is_cached), pods(is_live));
        let writes = |it: &PersistentVolumeClaim| match plan(it, &cached, Some(&live)) {
            Step::Write(wanted) => vec![wanted],
            Step::Rest | Step::Keep(_) => Vec::new(),
            Step::AskServer => panic!("it was asked"),
        };
        let before = claim("data", None, deleting, &finalizers);
        let rested = converges(writes, |it, wanted| *it = *wanted, before, 1).unwrap();
        let is_held = rested.metadata.finalizers.unwrap_or_default().iter().any(|it| it == FINALIZER);
        let was_held = finalizers.contains(&FINALIZER);
        prop_assert_eq!(is_held, !deleting || (was_held && (is_cached || is_live)));
    }
}
