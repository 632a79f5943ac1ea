//! A request and the time in, what is done about it out.

use std::time::Duration;

use api::certificates::CertificateSigningRequest;
use api::certificates::certificate_signing_request::NODE_SINCE;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;

use super::plan::{Action, plan, terms};
use crate::certificates::{
    CertificateTerms, KUBE_APISERVER_CLIENT, KUBE_APISERVER_CLIENT_KUBELET, KUBELET_SERVING,
    LEGACY_UNKNOWN,
};

const NODE: &str = include_str!("../../../api/testdata/request.pem");
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// Of the node `web`, without other names. `state`: its conditions, and `+` where it is issued.
fn request(
    signer: &str,
    usages: &str,
    state: &str,
    seconds: Option<i32>,
) -> CertificateSigningRequest {
    let usages: Vec<&str> = usages.split(',').collect();
    let conditions: Vec<_> = state
        .split(' ')
        .filter(|it| !matches!(*it, "" | "+"))
        .map(|it| json!({"type": it, "status": "True"}))
        .collect();
    let certificate = state.contains('+').then(|| STANDARD.encode(b"x"));
    serde_json::from_value(json!({
        "metadata": {"name": "one"},
        "spec": {"request": STANDARD.encode(NODE.as_bytes()), "signerName": signer, "usages": usages, "expirationSeconds": seconds},
        "status": {"conditions": conditions, "certificate": certificate},
    }))
    .unwrap()
}

/// Looked at in second 10,000,000: the terms as seconds from then.
fn check(signer: &str, usages: &str, state: &str, seconds: Option<i32>, expected: &str) {
    let now = at(10_000_000);
    let found = match plan(&request(signer, usages, state, seconds), YEAR, now) {
        Action::Nothing => "-".to_owned(),
        Action::Fail(why) => why,
        Action::Sign(CertificateTerms { not_before, not_after, .. }) => {
            let from_now = |it: Timestamp| it.as_second() - now.as_second();
            format!("{}..{}", from_now(not_before), from_now(not_after))
        }
    };
    assert_eq!(found, expected, "{signer} {usages} {state}");
}

const CLIENT: &str = "digital signature,key encipherment,client auth";

#[test]
fn only_what_was_approved_and_is_open_is_signed() {
    let year = YEAR.as_secs() as i64 - 300;
    let check = |state: &str, expected: &str| {
        check(KUBE_APISERVER_CLIENT_KUBELET, CLIENT, state, None, expected);
    };
    check("", "-");
    check("Denied", "-");
    check("Approved Denied", "-");
    check("Approved Failed", "-");
    check("Approved +", "-");
    check("Approved", &format!("-300..{year}"));
}

#[test]
fn a_request_may_ask_for_less_time_but_not_for_more() {
    let check = |seconds: i32, expected: &str| {
        check(KUBE_APISERVER_CLIENT, "client auth", "Approved", Some(seconds), expected);
    };
    check(3600, "-300..3600");
    check(599, "-300..600");
    check(-5, "-300..600");
    check(8 * 3600, "-300..28500");
    check(i32::MAX, "-300..31535700");
}

#[test]
fn each_signer_takes_what_it_takes() {
    let approved = |signer: &str, usages: &str, expected: &str| {
        check(signer, usages, "Approved", Some(3600), expected);
    };
    let yes = "-300..3600";
    approved(KUBE_APISERVER_CLIENT_KUBELET, CLIENT, yes);
    approved(KUBE_APISERVER_CLIENT_KUBELET, "client auth,digital signature", yes);
    approved(
        KUBE_APISERVER_CLIENT_KUBELET,
        "client auth",
        "usages did not match [client auth digital signature key encipherment]",
    );
    approved(
        KUBELET_SERVING,
        "digital signature,server auth",
        "DNS or IP subjectAltName is required",
    );
    approved(KUBE_APISERVER_CLIENT, "client auth", yes);
    approved(
        KUBE_APISERVER_CLIENT,
        "client auth,server auth",
        "invalid usage for client certificate: server auth",
    );
    approved(
        KUBE_APISERVER_CLIENT,
        "digital signature",
        "missing required usage for client certificate: client auth",
    );
    approved(LEGACY_UNKNOWN, "any", yes);
}

#[test]
fn a_client_of_a_node_is_as_old_as_who_asked_for_it() {
    let check = |signer: &str, extra: Option<&str>, expected: Option<u64>| {
        let mut request = request(signer, "digital signature,client auth", "Approved", None);
        request.metadata.resource_version = Some("70".to_owned());
        request.spec.extra = extra.map(|it| [(NODE_SINCE.to_owned(), vec![it.to_owned()])].into());
        let Action::Sign(terms) = plan(&request, YEAR, at(10_000_000)) else {
            panic!("not signed");
        };
        assert_eq!(terms.since, expected, "{signer} {extra:?}");
    };
    check(KUBE_APISERVER_CLIENT_KUBELET, None, Some(70));
    check(KUBE_APISERVER_CLIENT_KUBELET, Some("7"), Some(7));
    check(KUBE_APISERVER_CLIENT, Some("7"), None);
}

#[test]
fn nothing_holds_for_longer_than_the_authority() {
    let wish = || CertificateTerms {
        usages: Vec::new(),
        not_before: at(700),
        not_after: at(2000),
        since: None,
    };
    let end = |authority: i64| {
        let terms = terms(wish(), at(authority), at(1000));
        terms
            .map(|it| it.not_after.as_second())
            .map_err(|it| it.split(':').next().unwrap().to_owned())
    };
    assert_eq!(end(5000), Ok(2000));
    assert_eq!(end(1500), Ok(1500));
    let past = "refusing to sign a certificate that expired in the past".to_owned();
    assert_eq!(end(1000), Err(past));
    assert_eq!(end(700), Err("the signer has expired".to_owned()));
}

proptest! {
    #[test]
    fn whatever_is_asked_for_is_within_bounds(
        seconds in any::<i32>(),
        max in 0_u64..1 << 40,
        now in 0_i64..1 << 33,
    ) {
        let request = request(KUBE_APISERVER_CLIENT, "client auth", "Approved", Some(seconds));
        let max = Duration::from_secs(max);
        let Action::Sign(terms) = plan(&request, max, at(now)) else { panic!("not signed") };
        prop_assert!(terms.not_before < at(now));
        let most = max.max(Duration::from_secs(600));
        let given = Duration::try_from(terms.not_after.duration_since(at(now))).unwrap_or_default();
        prop_assert!(given <= most);
        prop_assert_eq!(plan(&request, max, at(now)), Action::Sign(terms));
    }
}
