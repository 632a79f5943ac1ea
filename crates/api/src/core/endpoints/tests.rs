//! Manifest in; problems and cells out.

use serde_json::{Value, json};

use super::Endpoints;
use crate::kind::Resource as _;
use crate::testing::{check, check_row, created};

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

#[test]
fn addresses_in_old_forms_are_told_of_unless_the_controller_wrote_them() {
    let of = |labels: Value| {
        created::<Endpoints>(json!({
            "metadata": {"name": "web", "labels": labels},
            "subsets": [{"notReadyAddresses": [{"ip": "FD00::1"}]}],
        }))
        .warnings()
    };
    assert_eq!(
        of(json!({})),
        [
            "subsets[0].notReadyAddresses[0].ip: IPv6 address \"FD00::1\" should be in RFC 5952 canonical format (\"fd00::1\")"
        ]
    );
    let managed = json!({"endpoints.kubernetes.io/managed-by": "endpoint-controller"});
    assert_eq!(of(managed), Vec::<String>::new());
}
