//! Slices and claims in, what is said of pools out.

use std::sync::Arc;

use api::resource::{ResourceClaim, ResourcePoolStatusRequest, ResourceSlice};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use reconcile::testing::converges;
use serde_json::{Value, json};

use super::plan::{Action, Observed, plan};

const DRIVER: &str = "gpu.example.org";

fn at(seconds: i64) -> Timestamp {
    "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
}

fn request(spec: Value) -> ResourcePoolStatusRequest {
    let mut spec = spec;
    spec["driver"] = json!(DRIVER);
    let meta = json!({"name": "a", "creationTimestamp": at(0).to_string()});
    serde_json::from_value(json!({"metadata": meta, "spec": spec})).unwrap()
}

/// Pool, generation, slices that were announced, devices, node.
fn slice(
    (pool, generation, n_slices, n_devices, node): (&str, i64, i64, usize, &str),
) -> Arc<ResourceSlice> {
    let devices: Vec<Value> = (0..n_devices).map(|it| json!({"name": format!("d{it}")})).collect();
    let node = (!node.is_empty()).then_some(node);
    Arc::new(
        serde_json::from_value(json!({
            "metadata": {"name": "s"},
            "spec": {
                "driver": DRIVER, "nodeName": node, "devices": devices,
                "pool": {"name": pool, "generation": generation, "resourceSliceCount": n_slices},
            },
        }))
        .unwrap(),
    )
}

fn claim(driver: &str, pool: &str) -> Arc<ResourceClaim> {
    let result = json!({"request": "r", "driver": driver, "pool": pool, "device": "d0"});
    Arc::new(
        serde_json::from_value(json!({
            "metadata": {"name": "c", "namespace": "default"},
            "spec": {},
            "status": {"allocation": {"devices": {"results": [result]}}},
        }))
        .unwrap(),
    )
}

type Line<'a> = (&'a str, i64, i64, usize, &'a str);

/// What is said after so many seconds: a line for each pool.
fn check(spec: Value, slices: &[Line<'_>], seconds: i64, expected: &[&str]) {
    let slices: Vec<_> = slices.iter().copied().map(slice).collect();
    let claims = [claim(DRIVER, "one"), claim("other.example.org", "one"), claim(DRIVER, "gone")];
    let request = request(spec);
    let observed =
        Observed { request: &request, slices: &slices, claims: &claims, now: at(seconds) };
    let said = match plan(&observed) {
        Action::Wait(left) => vec![format!("wait {}", left.as_secs())],
        Action::Delete => vec!["delete".to_owned()],
        Action::Answer(status) => {
            let line = |it: &k8s_openapi::api::resource::v1alpha3::PoolStatus| {
                let number = |it: Option<i32>| it.unwrap_or(-1);
                let node = it.node_name.as_deref().unwrap_or("-");
                match &it.validation_error {
                    Some(error) => error.clone(),
                    None => format!(
                        "{}@{} on {node}: {}/{} of {} in {}",
                        it.pool_name,
                        it.generation,
                        number(it.allocated_devices),
                        number(it.available_devices),
                        number(it.total_devices),
                        number(it.resource_slice_count),
                    ),
                }
            };
            let message = status.conditions.as_ref().unwrap()[0].message.clone();
            let mut said = vec![format!("{message}, of {}", status.pool_count)];
            said.extend(status.pools.iter().flatten().map(line));
            said
        }
    };
    assert_eq!(said, expected);
}

#[test]
fn devices_of_the_newest_slices_are_counted() {
    check(json!({}), &[], 0, &["Calculated status for 0 pools, of 0"]);
    let slices = [
        ("one", 1, 1, 7, "n1"),
        ("one", 2, 2, 2, "n1"),
        ("two", 1, 2, 1, "n1"),
        ("one", 2, 2, 3, "n1"),
        ("two", 1, 2, 1, "n2"),
    ];
    let (one, two) = ("one@2 on n1: 1/4 of 5 in 2", "two@1 on -: 0/2 of 2 in 2");
    check(json!({}), &slices, 0, &["Calculated status for 2 pools, of 2", one, two]);
    check(json!({"limit": 1}), &slices, 0, &["Calculated status for 1 pools, of 2", one]);
    check(json!({"poolName": "two"}), &slices, 0, &["Calculated status for 1 pools, of 1", two]);
}

#[test]
fn slices_that_are_announced_are_waited_for_a_while() {
    let slices = [("one", 3, 2, 2, "n1"), ("two", 1, 1, 1, "")];
    check(json!({}), &slices, 10, &["wait 20"]);
    let incomplete = "pool gpu.example.org/one is incomplete: observed 1/2 slices at generation 3";
    let two = "two@1 on -: 0/1 of 1 in 1";
    let said = "Calculated status for 2 pools (1 incomplete), of 2";
    check(json!({}), &slices, 30, &[said, incomplete, two]);
    check(json!({}), &slices, 24 * 3600, &["delete"]);
}

#[test]
fn an_answer_is_kept_for_an_hour() {
    let mut answered = request(json!({}));
    let of = |request: &ResourcePoolStatusRequest, seconds| {
        plan(&Observed { request, slices: &[], claims: &[], now: at(seconds) })
    };
    let Action::Answer(status) = of(&answered, 5) else { panic!("it is not answered") };
    answered.status = Some(*status);
    assert_eq!(of(&answered, 5), Action::Wait(std::time::Duration::from_secs(3600)));
    assert_eq!(of(&answered, 3604), Action::Wait(std::time::Duration::from_secs(1)));
    assert_eq!(of(&answered, 3605), Action::Delete);
}

proptest! {
    #[test]
    fn every_request_is_answered_and_goes(
        slices in prop::collection::vec((0..3_usize, 0..3_i64, 1..3_i64, 0..4_usize), 0..6),
    ) {
        let slices: Vec<_> = slices.iter()
            .map(|it| slice((["a", "b", "c"][it.0], it.1, it.2, it.3, "")))
            .collect();
        let planned = |(request, now): &(Option<ResourcePoolStatusRequest>, i64)| -> Vec<Action> {
            let plan = |request| plan(&Observed { request, slices: &slices, claims: &[], now: at(*now) });
            request.iter().map(plan).collect()
        };
        let apply = |state: &mut (Option<ResourcePoolStatusRequest>, i64), action| match action {
            Action::Wait(left) => state.1 += i64::try_from(left.as_secs()).unwrap(),
            Action::Delete => state.0 = None,
            Action::Answer(status) => {
                let request = state.0.as_mut().unwrap();
                assert!(request.status.replace(*status).is_none(), "answered twice");
            }
        };
        let (left, _) = converges(planned, apply, (Some(request(json!({}))), 0), 4).unwrap();
        prop_assert!(left.is_none());
    }
}
