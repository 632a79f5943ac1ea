//! A pod, its claims and the devices' taints in, a verdict out.

use std::sync::Arc;

use api::core::pod::PodView;
use api::object::meta_of;
use api::resource::device_taint_rule::v1beta2::DeviceTaintRule;
use api::resource::{ResourceClaim, ResourceSlice};
use api::{Resource as _, Stored, View as _};
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::plan::{Used, plan, published, selects};
use super::rules::{Counts, condition, stays};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn pod(node: &str, phase: &str) -> PodView {
    let manifest = json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "u1"},
        "spec": {"nodeName": node, "containers": [], "resourceClaims": [{"name": "gpu", "resourceClaimName": "one"}]},
        "status": {"phase": phase},
    });
    let bytes: bytes::Bytes = manifest.to_string().into();
    let pod = api::core::Pod::decode(&bytes).unwrap();
    PodView::read(&Stored::new(meta_of(pod.metadata(), Vec::new()), bytes)).unwrap()
}

/// The device gpu-0 of the pool n1, for this pod.
fn claim(reserved_for: &str, tolerations: Value) -> Arc<ResourceClaim> {
    let result = json!({
        "driver": "example.org", "pool": "n1", "device": "gpu-0", "request": "r",
        "tolerations": tolerations,
    });
    let manifest = json!({
        "metadata": {"name": "one", "namespace": "default"},
        "spec": {},
        "status": {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": "web", "uid": reserved_for}],
        },
    });
    Arc::new(serde_json::from_value(manifest).unwrap())
}

/// Tainted in second 100.
fn slice(generation: i64, device: &str, effect: &str) -> Arc<ResourceSlice> {
    let taint = json!({"key": "broken", "effect": effect, "timeAdded": at(100).to_string()});
    let pool = json!({"name": "n1", "generation": generation, "resourceSliceCount": 1});
    let manifest = json!({
        "metadata": {"name": format!("s{generation}{device}")},
        "spec": {
            "driver": "example.org", "pool": pool, "nodeName": "n1",
            "devices": [{"name": device, "taints": [taint]}],
        },
    });
    Arc::new(serde_json::from_value(manifest).unwrap())
}

fn used(claim: Arc<ResourceClaim>, slices: Vec<Arc<ResourceSlice>>) -> Vec<Used> {
    vec![Used { claim, is_made: false, slices }]
}

/// Looked at in second 130.
fn check(pod: &PodView, used: &[Used], expected: &str) {
    assert_eq!(format!("{:?}", plan(pod, used, &[], at(130))), expected);
}

const EVICT: &str = "Evict(1970-01-01T00:01:40Z)";

fn tainted() -> Vec<Arc<ResourceSlice>> {
    vec![slice(1, "gpu-0", "NoExecute")]
}

#[test]
fn a_pod_goes_with_its_device() {
    let running = pod("n1", "Running");
    check(&running, &used(claim("u1", json!([])), tainted()), EVICT);
    check(&running, &used(claim("u1", json!([])), vec![]), "Stay");
    for harmless in [slice(1, "gpu-1", "NoExecute"), slice(1, "gpu-0", "NoSchedule")] {
        check(&running, &used(claim("u1", json!([])), vec![harmless]), "Stay");
    }
    // An older slice tells what was.
    let older = vec![slice(1, "gpu-0", "NoExecute"), slice(2, "gpu-0", "None")];
    check(&running, &used(claim("u1", json!([])), older), "Stay");
}

#[test]
fn only_who_may_use_the_device_goes() {
    check(&pod("n1", "Running"), &used(claim("u2", json!([])), tainted()), "Stay");
    check(&pod("", "Pending"), &used(claim("u1", json!([])), tainted()), "Stay");
    check(&pod("n1", "Succeeded"), &used(claim("u1", json!([])), tainted()), "Stay");
    let made = Used { claim: claim("u1", json!([])), is_made: true, slices: tainted() };
    check(&pod("n1", "Running"), &[made], "Stay");
}

#[test]
fn what_is_tolerated_waits_or_stays() {
    let running = pod("n1", "Running");
    let tolerated = |all: Value| used(claim("u1", all), tainted());
    let of = |seconds: Option<i64>| json!({"key": "broken", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
    check(&running, &tolerated(json!([of(None)])), "Stay");
    check(&running, &tolerated(json!([of(Some(60))])), "Wait(30s)");
    check(&running, &tolerated(json!([of(Some(60)), of(Some(40))])), "Wait(10s)");
    check(&running, &tolerated(json!([of(Some(-5))])), EVICT);
    check(&running, &tolerated(json!([{"operator": "Exists", "effect": "NoExecute"}])), "Stay");
    let other = json!([{"key": "hot", "operator": "Exists", "effect": "NoExecute"}]);
    check(&running, &tolerated(other), EVICT);
    let value =
        json!([{"key": "broken", "operator": "Equal", "value": "x", "effect": "NoExecute"}]);
    check(&running, &tolerated(value), EVICT);
}

proptest! {
    #[test]
    fn no_number_is_too_absurd(seconds in any::<i64>(), now in -1_000_000_i64..1_000_000) {
        let toleration =
            json!([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}]);
        let used = used(claim("u1", toleration), tainted());
        let running = pod("n1", "Running");
        prop_assert_eq!(plan(&running, &used, &[], at(now)), plan(&running, &used, &[], at(now)));
    }
}

/// In second 110.
fn rule(selector: Value, effect: &str) -> Arc<DeviceTaintRule> {
    let taint = json!({"key": "old", "effect": effect, "timeAdded": at(110).to_string()});
    let spec = json!({"deviceSelector": selector, "taint": taint});
    let rule = json!({"metadata": {"name": "r"}, "spec": spec});
    Arc::new(serde_json::from_value(rule).unwrap())
}

#[test]
fn a_rule_taints_the_devices_that_it_selects() {
    let running = pod("n1", "Running");
    let check = |selector: Value, effect: &str, tolerations: Value, expected: &str| {
        let used = used(claim("u1", tolerations), vec![]);
        let verdict = plan(&running, &used, &[rule(selector.clone(), effect)], at(130));
        assert_eq!(format!("{verdict:?}"), expected, "{selector}");
    };
    let evict = "Evict(1970-01-01T00:01:50Z)";
    let all = json!({"driver": "example.org", "pool": "n1", "device": "gpu-0"});
    for selector in [all.clone(), json!({"driver": "example.org"}), json!({})] {
        check(selector, "NoExecute", json!([]), evict);
    }
    for selector in [json!({"driver": "other"}), json!({"pool": "n2"}), json!(null)] {
        check(selector, "NoExecute", json!([]), "Stay");
    }
    check(all.clone(), "NoSchedule", json!([]), "Stay");
    check(all.clone(), "None", json!([]), "Stay");
    let tolerated = json!([{
        "key": "old", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 25,
    }]);
    check(all, "NoExecute", tolerated, "Wait(5s)");
    // The earliest counts.
    let both = used(claim("u1", json!([])), tainted());
    let verdict = plan(&running, &both, &[rule(json!({}), "NoExecute")], at(130));
    assert_eq!(format!("{verdict:?}"), EVICT);
}

#[test]
fn a_rule_says_what_it_does() {
    let check = |effect: &str, counts: Counts, expected: &str| {
        let said = condition(&rule(json!({}), effect), &counts, at(130)).unwrap();
        assert_eq!(format!("{} {}: {}", said.status, said.reason, said.message), expected);
    };
    let none = Counts::default();
    check("NoExecute", none, "False NotStarted: ");
    let one = Counts { pods: 1, namespaces: 1, ..none };
    let pending = "True PodsPendingEviction: 1 pod needs to be evicted in 1 namespace.";
    check("NoExecute", one, pending);
    let more = Counts { pods: 3, namespaces: 2, evicted: 1, ..none };
    let pending = "True PodsPendingEviction: 3 pods need to be evicted in 2 different namespaces. \
                   1 pod evicted since starting the controller.";
    check("NoExecute", more, pending);
    let done = "False Completed: 2 pods evicted since starting the controller.";
    check("NoExecute", Counts { evicted: 2, ..none }, done);
    let other = "False OtherEffect: Eviction only happens for the NoExecute effect.";
    check("NoSchedule", none, other);
    let would = "False NoEffect: 2 published devices selected. 1 allocated device selected. 1 pod \
                 would be evicted in 1 namespace if the effect was NoExecute. This information will \
                 not be updated again. Recreate the DeviceTaintRule to trigger an update.";
    check("None", Counts { published: 2, allocated: 1, ..one }, would);
}

#[test]
fn what_a_rule_says_stays_for_ten_seconds_and_is_not_said_twice() {
    let mut said = DeviceTaintRule::clone(&rule(json!({}), "NoExecute"));
    let counts = Counts::default();
    let condition = condition(&said, &counts, at(130)).unwrap();
    said.status.get_or_insert_default().conditions = Some(vec![condition]);
    assert_eq!(stays(&said, at(133)).map(|it| it.as_secs()), Some(7));
    assert_eq!(stays(&said, at(140)), None);
    assert_eq!(super::rules::condition(&said, &counts, at(150)), None);
    said.metadata.generation = Some(2);
    assert_eq!(stays(&said, at(133)), None, "what it said was of another rule");
}

#[test]
fn devices_of_older_slices_are_not_published() {
    let slices = [slice(1, "gpu-0", "None"), slice(2, "gpu-1", "None"), slice(2, "gpu-2", "None")];
    let names: Vec<&str> = published(&slices).map(|it| it[2]).collect();
    assert_eq!(names, ["gpu-1", "gpu-2"]);
    let of_one = rule(json!({"pool": "n1", "device": "gpu-2"}), "None");
    assert_eq!(published(&slices).filter(|it| selects(&of_one, *it)).count(), 1);
}
