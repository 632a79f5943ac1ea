//! Manifest in; problems or cells out.

use serde_json::{Value, json};

use super::{ServiceCIDR, v1beta1};
use crate::kind::{Part, Resource};
use crate::testing::{check, check_created, check_row, check_update, created, defaulted};
use crate::version::Version;

fn range(cidrs: Value) -> Value {
    json!({"metadata": {"name": "more"}, "spec": {"cidrs": cidrs}})
}

#[test]
fn there_is_one_range_of_each_family_at_most() {
    check::<ServiceCIDR>(range(json!(["10.0.0.0/24"])), &[]);
    check::<ServiceCIDR>(range(json!(["fd00::/112", "10.0.0.0/24"])), &[]);
    check::<ServiceCIDR>(
        range(json!([])),
        &["spec.cidrs: Required value: at least one CIDR required"],
    );
    check::<ServiceCIDR>(
        range(json!(["10.0.0.0/24", "10.1.0.0/24"])),
        &[
            "spec.cidrs: Invalid value: [\"10.0.0.0/24\",\"10.1.0.0/24\"]: may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64",
        ],
    );
    check::<ServiceCIDR>(
        range(json!(["10.0.0.0/24", "10.1.0.0/24", "fd00::/112"])),
        &[
            "spec.cidrs: Invalid value: {\"cidrs\":[\"10.0.0.0/24\",\"10.1.0.0/24\",\"fd00::/112\"]}: may only hold up to 2 values",
        ],
    );
    check::<ServiceCIDR>(
        range(json!(["10.0.0.1/24", "FD00::/112"])),
        &[
            "spec.cidrs[0]: Invalid value: \"10.0.0.1/24\": must not have bits set beyond the prefix length",
            "spec.cidrs[1]: Invalid value: \"FD00::/112\": must be in canonical form (\"fd00::/112\")",
        ],
    );
}

#[test]
fn a_range_of_the_other_family_may_be_added_and_no_more() {
    let stored = created::<ServiceCIDR>(range(json!(["10.0.0.0/24"])));
    let update = |cidrs: Value, expected: &[&str]| {
        check_update(&stored, range(cidrs), Part::Main, expected);
    };
    update(json!(["10.0.0.0/24"]), &[]);
    update(json!(["10.0.0.0/24", "fd00::/112"]), &[]);
    update(
        json!(["10.1.0.0/24"]),
        &["spec.cidrs[0]: Invalid value: \"10.1.0.0/24\": field is immutable"],
    );
    update(
        json!(["10.0.0.0/24", "fd00::1/112"]),
        &[
            "spec.cidrs[1]: Invalid value: \"fd00::1/112\": must not have bits set beyond the prefix length",
        ],
    );
    update(json!([]), &["spec.cidrs: Invalid value: []: field is immutable"]);
}

#[test]
fn the_status_is_written_alone() {
    let condition = json!({
        "type": "Ready", "status": "True", "reason": "Free", "message": "",
        "lastTransitionTime": "2024-01-02T03:04:05Z",
    });
    let mut manifest = range(json!(["10.0.0.0/24"]));
    manifest["status"] = json!({"conditions": [condition]});
    check_created::<ServiceCIDR>(manifest.clone(), "/status", json!({}));
    let stored = created::<ServiceCIDR>(manifest.clone());
    manifest["metadata"]["labels"] = json!({"a": "b"});
    manifest["spec"] = json!({"cidrs": []});
    let mut written = defaulted::<ServiceCIDR>(manifest.clone());
    written.prepare_update(&stored, Part::Status);
    assert_eq!((&written.spec, &written.metadata.labels), (&stored.spec, &None));
    assert!(written.status.unwrap().conditions.is_some());
    check_update(&stored, manifest, Part::Status, &[]);
}

#[test]
fn columns_show_the_ranges() {
    check_row::<ServiceCIDR>(
        json!({
            "metadata": {"name": "more", "creationTimestamp": "2024-01-02T03:04:05Z"},
            "spec": {"cidrs": ["10.0.0.0/24", "fd00::/112"]},
        }),
        "2024-01-02T03:05:05Z",
        json!(["more", "10.0.0.0/24,fd00::/112", "60s"]),
    );
}

#[test]
fn the_beta_version_says_the_same() {
    let stored = created::<ServiceCIDR>(range(json!(["10.0.0.0/24"])));
    let beta: v1beta1::ServiceCIDR = Version::<ServiceCIDR>::from_hub(&stored);
    assert_eq!(Version::<ServiceCIDR>::into_hub(beta), stored);
    let json = defaulted::<v1beta1::ServiceCIDR>(range(json!(["10.0.0.0/24"]))).encode();
    let read = ServiceCIDR::convert_stored("networking.k8s.io/v1beta1", &json).unwrap().unwrap();
    assert_eq!(ServiceCIDR::decode(&read).unwrap(), stored);
}
