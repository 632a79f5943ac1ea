//! Manifest in; problems and cells out.

use serde_json::{Value, json};

use super::EndpointSlice;
use crate::kind::{Part, Resource as _};
use crate::testing::{check, check_row, check_update, created};

#[test]
fn addresses_are_of_the_type() {
    check::<EndpointSlice>(
        json!({"addressType": "IPv4", "endpoints": [{"addresses": ["fd00::1"]}, {"addresses": []}]}),
        &[
            "endpoints[0].addresses: Invalid value: \"fd00::1\": must be an IPv4 address",
            "endpoints[1].addresses: Required value: must contain at least 1 address",
        ],
    );
    check::<EndpointSlice>(json!({}), &["addressType: Required value"]);
}

#[test]
fn the_type_never_changes() {
    let stored = created::<EndpointSlice>(json!({"addressType": "IPv4"}));
    check_update(
        &stored,
        json!({"addressType": "IPv6"}),
        Part::Main,
        &["addressType: Invalid value: \"IPv6\": field is immutable"],
    );
}

#[test]
fn topology_of_v1beta1_goes_with_the_next_change_of_endpoints() {
    let slice = |zone: &str| {
        json!({
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.1"], "zone": zone, "deprecatedTopology": {"a": "b"}}],
        })
    };
    let topology = |it: &EndpointSlice| {
        it.endpoints.as_ref().and_then(|it| it[0].deprecated_topology.clone()).is_some()
    };
    let decoded = |it: Value| EndpointSlice::decode(it.to_string().as_bytes()).unwrap();
    assert!(!topology(&created::<EndpointSlice>(slice("x"))));

    let stored = decoded(slice("x"));
    let mut same = decoded(slice("x"));
    same.prepare_update(&stored, Part::Main);
    assert!(topology(&same));
    let mut moved = decoded(slice("y"));
    moved.prepare_update(&stored, Part::Main);
    assert!(!topology(&moved));
}

#[test]
fn the_row_shows_ports_and_addresses() {
    check_row::<EndpointSlice>(
        json!({"metadata": {"name": "s"}, "addressType": "IPv4", "ports": [{"port": 80}]}),
        "2026-01-01T00:00:00Z",
        json!(["s", "IPv4", "80", "<unset>", "<unknown>"]),
    );
}

#[test]
fn what_is_deprecated_is_said() {
    let slice = |type_: &str, address: &str| {
        created::<EndpointSlice>(json!({
            "metadata": {"name": "web"}, "addressType": type_,
            "endpoints": [{"addresses": [address]}],
        }))
    };
    let names = slice("FQDN", "example.com");
    assert_eq!(names.warnings(), ["spec.addressType: FQDN endpoints are deprecated"]);
    assert_eq!(names.update_warnings(&names, Part::Main), Vec::<String>::new());
    let upper = slice("IPv6", "FD00::1");
    let said = "endpoints[0].addresses[0]: IPv6 address \"FD00::1\" should be in RFC 5952 canonical format (\"fd00::1\")";
    assert_eq!(upper.warnings(), [said]);
    assert_eq!(upper.update_warnings(&upper, Part::Main), [said]);
}
