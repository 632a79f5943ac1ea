//! Manifest in; problems and cells out.

use serde_json::json;

use super::Endpoints;
use crate::testing::{check, check_row};

#[test]
fn addresses_are_reachable() {
    check::<Endpoints>(
        json!({"subsets": [{"addresses": [{"ip": "0.0.0.0"}]}, {}]}),
        &[
            "subsets[0].addresses[0].ip: Invalid value: \"0.0.0.0\": may not be unspecified (0.0.0.0 or ::)",
            "subsets[1]: Required value: must specify `addresses` or `notReadyAddresses`",
        ],
    );
}

#[test]
fn the_row_shows_three() {
    let addresses: Vec<_> = (1..=5).map(|it| json!({"ip": format!("10.0.0.{it}")})).collect();
    check_row::<Endpoints>(
        json!({"metadata": {"name": "e"}, "subsets": [{"addresses": addresses, "ports": [{"port": 80}]}]}),
        "2026-01-01T00:00:00Z",
        json!(["e", "10.0.0.1:80,10.0.0.2:80,10.0.0.3:80 + 2 more...", "<unknown>"]),
    );
}
