//! Manifest in; problems and cells out.

use serde_json::json;

use super::EndpointSlice;
use crate::kind::Part;
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
fn the_row_shows_ports_and_addresses() {
    check_row::<EndpointSlice>(
        json!({"metadata": {"name": "s"}, "addressType": "IPv4", "ports": [{"port": 80}]}),
        "2026-01-01T00:00:00Z",
        json!(["s", "IPv4", "80", "<unset>", "<unknown>"]),
    );
}
