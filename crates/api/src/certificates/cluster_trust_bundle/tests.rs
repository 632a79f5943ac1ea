//! Manifest in; problems or cells out.

use serde_json::{Value, json};

use super::{ClusterTrustBundle, v1alpha1};
use crate::kind::{Part, Resource};
use crate::testing::{check, check_row, check_update, created, defaulted};
use crate::version::Version;

const AUTHORITY: &str = include_str!("../../../testdata/authority.pem");
const OTHER: &str = include_str!("../../../testdata/other-authority.pem");
const LEAF: &str = include_str!("../../../testdata/leaf.pem");
const REQUEST: &str = include_str!("../../../testdata/request.pem");

fn bundle(name: &str, signer: &str, anchors: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"signerName": signer, "trustBundle": anchors}})
}

#[test]
fn a_bundle_of_a_signer_is_named_after_it() {
    check::<ClusterTrustBundle>(bundle("web", "", AUTHORITY), &[]);
    check::<ClusterTrustBundle>(
        bundle("example.org:signer:web", "example.org/signer", AUTHORITY),
        &[],
    );
    check::<ClusterTrustBundle>(
        bundle("a:b", "", AUTHORITY),
        &[
            "metadata.name: Invalid value: \"a:b\": ClusterTrustBundle without signer name must not have \":\" in its name",
        ],
    );
    check::<ClusterTrustBundle>(
        bundle("web", "example.org/signer", AUTHORITY),
        &[
            "metadata.name: Invalid value: \"web\": ClusterTrustBundle for signerName example.org/signer must be named with prefix example.org:signer:",
        ],
    );
}

#[test]
fn anchors_are_authorities_each_there_once() {
    let at = "spec.trustBundle: Invalid value: \"<value omitted>\":";
    let anchors = |text: &str, expected: &[String]| {
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check::<ClusterTrustBundle>(bundle("web", "", text), &expected);
    };
    anchors(&format!("{AUTHORITY}{OTHER}"), &[]);
    anchors("", &[format!("{at} at least one trust anchor must be provided")]);
    anchors(
        &format!("{AUTHORITY}{OTHER}{AUTHORITY}"),
        &[format!("{at} duplicate trust anchor (indices [0 2])")],
    );
    let garbage = AUTHORITY.replace("MII", "AAA");
    let headed = AUTHORITY.replace("CERTIFICATE-----\nMII", "CERTIFICATE-----\na: b\n\nMII");
    anchors(
        &format!("{REQUEST}{headed}{garbage}{LEAF}{AUTHORITY}"),
        &[
            format!("{at} entry 0 has bad block type: CERTIFICATE REQUEST"),
            format!("{at} entry 1 has PEM block headers"),
            format!("{at} entry 2 does not parse as X.509"),
            format!("{at} entry 3 does not have the CA bit set"),
        ],
    );
    anchors(
        &"x".repeat(1024 * 1024 + 1),
        &["spec.trustBundle: Too long: may not be more than 1048576 bytes".to_owned()],
    );
}

#[test]
fn a_signer_stays_and_anchors_that_stay_are_not_read_again() {
    let stored = created::<ClusterTrustBundle>(bundle("web", "", "of long ago"));
    check_update(&stored, bundle("web", "", "of long ago"), Part::Main, &[]);
    check_update(&stored, bundle("web", "", AUTHORITY), Part::Main, &[]);
    check_update(
        &stored,
        bundle("web", "", "of today"),
        Part::Main,
        &[
            "spec.trustBundle: Invalid value: \"<value omitted>\": at least one trust anchor must be provided",
        ],
    );
    let stored = created::<ClusterTrustBundle>(bundle("a.org:b:web", "a.org/b", AUTHORITY));
    check_update(
        &stored,
        bundle("web", "", AUTHORITY),
        Part::Main,
        &["spec.signerName: Invalid value: \"\": field is immutable"],
    );
}

#[test]
fn bundles_are_found_and_shown_by_their_signer() {
    let now = "2024-01-02T03:05:05Z";
    check_row::<ClusterTrustBundle>(bundle("web", "", AUTHORITY), now, json!(["web", "<none>"]));
    let of = bundle("a.org:b:web", "a.org/b", AUTHORITY);
    check_row::<ClusterTrustBundle>(of.clone(), now, json!(["a.org:b:web", "a.org/b"]));
    let fields = created::<ClusterTrustBundle>(of).fields();
    assert_eq!(fields, [("spec.signerName", "a.org/b".to_owned())]);
}

#[test]
fn the_alpha_version_says_the_same() {
    let stored = created::<ClusterTrustBundle>(bundle("a.org:b:web", "a.org/b", AUTHORITY));
    let alpha: v1alpha1::ClusterTrustBundle = Version::<ClusterTrustBundle>::from_hub(&stored);
    assert_eq!(Version::<ClusterTrustBundle>::into_hub(alpha), stored);
    let of = bundle("a.org:b:web", "a.org/b", AUTHORITY);
    let json = defaulted::<v1alpha1::ClusterTrustBundle>(of).encode();
    let read = ClusterTrustBundle::convert_stored("certificates.k8s.io/v1alpha1", &json);
    assert_eq!(ClusterTrustBundle::decode(&read.unwrap().unwrap()).unwrap(), stored);
}
