//! A request and the time in, a verdict out.

use api::certificates::PodCertificateRequest;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;

use super::plan::plan;
use crate::expiry::Verdict;

/// Made in second 100.
fn check(now: i64, is_deleting: bool, expected: &str) {
    let at = |second: i64| Timestamp::from_second(second).unwrap();
    let mut request = PodCertificateRequest::default();
    request.metadata.creation_timestamp = Some(Time(at(100)));
    request.metadata.deletion_timestamp = is_deleting.then(|| Time(at(100)));
    assert_eq!(format!("{:?}", plan(&request, at(now))), expected);
}

#[test]
fn a_request_goes_after_a_quarter_of_an_hour() {
    check(100, false, "Wait(900s)");
    check(999, false, "Wait(1s)");
    check(1000, false, "Delete");
    check(1_000_000, false, "Delete");
    check(1000, true, "Keep");
}

proptest! {
    #[test]
    fn a_request_goes_when_its_wait_is_over_and_not_before(created in -5000..5000_i64, now in 0..5000_i64) {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let mut request = PodCertificateRequest::default();
        request.metadata.creation_timestamp = Some(Time(at(created)));
        let verdict = plan(&request, at(now));
        prop_assert_eq!(&verdict, &plan(&request, at(now)));
        if let Verdict::Wait(left) = verdict {
            let end = now + i64::try_from(left.as_secs()).unwrap();
            prop_assert_eq!(end, created + 900);
            prop_assert_eq!(plan(&request, at(end)), Verdict::Delete);
        } else {
            prop_assert_eq!(verdict, Verdict::Delete);
            prop_assert!(created + 900 <= now);
        }
    }
}
