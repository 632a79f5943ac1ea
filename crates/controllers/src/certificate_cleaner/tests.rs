//! A request and the time in, a verdict out.

use api::certificates::CertificateSigningRequest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;

use super::plan::plan;
use crate::expiry::Verdict;

/// Ends in 2126.
const CERTIFICATE: &str = include_str!("../../../api/testdata/authority.pem");
const HOUR: i64 = 3600;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// Created in second 0. `state`: `Condition@second`, and `+` with a certificate.
fn request(state: &str) -> CertificateSigningRequest {
    let conditions: Vec<_> = state
        .split(' ')
        .filter_map(|it| it.split_once('@'))
        .map(|(type_, second)| {
            let time = at(second.parse().unwrap()).to_string();
            json!({"type": type_, "status": "True", "lastUpdateTime": time})
        })
        .collect();
    let certificate = state.contains('+').then(|| STANDARD.encode(CERTIFICATE.as_bytes()));
    let mut request = json!({
        "metadata": {"name": "one", "creationTimestamp": at(0).to_string()},
        "spec": {"request": "", "signerName": "example.org/x"},
        "status": {"conditions": conditions, "certificate": certificate},
    });
    if state.contains('!') {
        request["metadata"]["deletionTimestamp"] = json!(at(0).to_string());
    }
    serde_json::from_value(request).unwrap()
}

fn check(state: &str, now: i64, expected: &str) {
    assert_eq!(format!("{:?}", plan(&request(state), at(now))), expected, "{state} at {now}");
}

proptest! {
    #[test]
    fn a_request_goes_when_its_wait_is_over_and_not_before(
        decisions in prop::collection::vec(
            (prop::sample::select(vec!["Approved", "Denied", "Failed", "Blessed"]), 0..200_000_i64),
            0..4,
        ),
        is_issued: bool,
        now in 0..400_000_i64,
    ) {
        let words = decisions.iter().map(|(kind, second)| format!("{kind}@{second}"));
        let words = words.chain(is_issued.then(|| "+".to_owned())).collect::<Vec<_>>();
        let request = request(&words.join(" "));
        let verdict = plan(&request, at(now));
        prop_assert_eq!(&verdict, &plan(&request, at(now)));
        match verdict {
            Verdict::Wait(left) => {
                let end = now + i64::try_from(left.as_secs()).unwrap();
                prop_assert_eq!(plan(&request, at(end)), Verdict::Delete);
                prop_assert_ne!(plan(&request, at(end - 1)), Verdict::Delete);
            }
            // It stays as it is, whatever time it is.
            other => prop_assert_eq!(plan(&request, at(now + 1)), other),
        }
    }
}

#[test]
fn what_nobody_decided_goes_after_a_day() {
    check("", HOUR, "Wait(82800s)");
    check("", 24 * HOUR, "Delete");
    check("!", 24 * HOUR, "Keep");
}

#[test]
fn what_was_decided_goes_an_hour_later() {
    for state in ["Denied@100", "Approved@50 Failed@100", "Approved@100 +"] {
        check(state, 200, "Wait(3500s)");
        check(state, 100 + HOUR, "Delete");
    }
}

#[test]
fn who_is_to_sign_has_a_day() {
    check("Approved@100", 100 + HOUR, "Wait(82800s)");
    check("Approved@100", 100 + 24 * HOUR, "Delete");
}

#[test]
fn a_certificate_that_has_ended_is_of_no_use() {
    // Long after its end, whenever it was approved.
    let late = at(100_000_000_000).as_second();
    check(&format!("Approved@{late} +"), late, "Delete");
}

#[test]
fn conditions_that_nobody_knows_keep_it() {
    check("Blessed@0", 1000 * HOUR, "Keep");
}
