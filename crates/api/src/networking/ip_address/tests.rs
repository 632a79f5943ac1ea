//! Manifest in; problems or cells out.

use serde_json::{Value, json};

use super::{IPAddress, v1beta1};
use crate::kind::{Part, Resource};
use crate::testing::{check, check_row, check_update, created, defaulted};
use crate::version::Version;

fn address(name: &str, parent: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"parentRef": parent}})
}

fn web() -> Value {
    json!({"resource": "services", "namespace": "default", "name": "web"})
}

#[test]
fn a_name_is_an_address_in_its_canonical_form() {
    check::<IPAddress>(address("10.0.0.1", web()), &[]);
    check::<IPAddress>(address("2001:db8::1", web()), &[]);
    for (name, why) in [
        ("web", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
        ("010.0.0.1", "must not have leading 0s"),
        ("2001:DB8::1", "must be in canonical form (\"2001:db8::1\")"),
    ] {
        let expected = format!("metadata.name: Invalid value: {name:?}: {why}");
        check::<IPAddress>(address(name, web()), &[&expected]);
    }
}

#[test]
fn an_address_is_somebodys() {
    check::<IPAddress>(
        json!({"metadata": {"name": "10.0.0.1"}, "spec": {}}),
        &["spec.parentRef: Required value"],
    );
    check::<IPAddress>(
        address("10.0.0.1", json!({})),
        &["spec.parentRef.resource: Required value", "spec.parentRef.name: Required value"],
    );
    check::<IPAddress>(address("10.0.0.1", json!(null)), &["spec.parentRef: Required value"]);
    check::<IPAddress>(
        address("10.0.0.1", json!({"resource": "a/b", "namespace": "c/d"})),
        &[
            "spec.parentRef.resource: Invalid value: \"a/b\": may not contain '/'",
            "spec.parentRef.name: Required value",
            "spec.parentRef.namespace: Invalid value: \"c/d\": may not contain '/'",
        ],
    );
    let stored = created::<IPAddress>(address("10.0.0.1", web()));
    check_update(
        &stored,
        address("10.0.0.1", json!({"resource": "services", "name": "other"})),
        Part::Main,
        &[
            "spec.parentRef: Invalid value: {\"name\":\"other\",\"resource\":\"services\"}: field is immutable",
        ],
    );
    check_update(&stored, address("10.0.0.1", web()), Part::Main, &[]);
}

#[test]
fn columns_show_whose_it_is() {
    let row = |parent: Value, cell: &str| {
        check_row::<IPAddress>(
            address("10.0.0.1", parent),
            "2024-01-02T03:05:05Z",
            json!(["10.0.0.1", cell]),
        );
    };
    row(web(), "services/default/web");
    row(
        json!({"group": "example.org", "resource": "Gateways", "name": "a"}),
        "gateways.example.org/a",
    );
}

#[test]
fn the_beta_version_says_the_same() {
    let stored = created::<IPAddress>(address("10.0.0.1", web()));
    let beta: v1beta1::IPAddress = Version::<IPAddress>::from_hub(&stored);
    assert_eq!(Version::<IPAddress>::into_hub(beta), stored);
    let json = defaulted::<v1beta1::IPAddress>(address("10.0.0.1", web())).encode();
    let read = IPAddress::convert_stored("networking.k8s.io/v1beta1", &json).unwrap().unwrap();
    assert_eq!(IPAddress::decode(&read).unwrap(), stored);
    assert!(IPAddress::convert_stored("networking.k8s.io/v2", &json).is_none());
}
