//! Manifest in; problems or cells out.

use serde_json::{Value, json};

use super::CSINode;
use crate::kind::Part;
use crate::testing::{check, check_row, check_update, created};

fn node(drivers: Value) -> Value {
    json!({"metadata": {"name": "node-a"}, "spec": {"drivers": drivers}})
}

#[test]
fn a_driver_has_a_name_and_says_what_it_calls_the_node() {
    check::<CSINode>(node(json!([])), &[]);
    check::<CSINode>(
        node(
            json!([{"name": "disk.example.com", "nodeID": "n", "allocatable": {"count": 8}, "topologyKeys": ["a/zone"]}]),
        ),
        &[],
    );
    check::<CSINode>(
        node(
            json!([{"name": "a", "nodeID": "", "allocatable": {"count": -1}}, {"name": "a", "nodeID": "n"}]),
        ),
        &[
            "spec.drivers[0].nodeID: Required value",
            "spec.drivers[0].allocatable.count: Invalid value: -1: must be greater than or equal to 0",
            "spec.drivers[1].name: Duplicate value: \"a\"",
        ],
    );
    let long = "n".repeat(257);
    check::<CSINode>(
        node(json!([{"name": "a", "nodeID": long, "topologyKeys": ["k", "k"]}])),
        &[
            &format!(
                "spec.drivers[0].nodeID: Invalid value: \"{long}\": must be 256 characters or less"
            ),
            "spec.drivers[0]: Duplicate value: \"k\"",
        ],
    );
}

#[test]
fn a_driver_changes_how_many_volumes_it_takes_and_nothing_else() {
    let driver = |id: &str, count: i32| {
        node(json!([{"name": "a", "nodeID": id, "allocatable": {"count": count}}]))
    };
    let stored = created::<CSINode>(driver("n", 1));
    check_update(&stored, driver("n", 2), Part::Main, &[]);
    check_update(&stored, node(json!([])), Part::Main, &[]);
    let changed = created::<CSINode>(driver("m", 1));
    let mut errors = apimachinery::FieldErrors::new();
    super::validation::validate_update(&changed, &stored, &mut errors);
    let said: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("spec.drivers: Invalid value"), "{said:?}");
    assert!(said[0].ends_with("field is immutable"), "{said:?}");
}

#[test]
fn columns_count_the_drivers() {
    check_row::<CSINode>(
        json!({
            "metadata": {"name": "node-a", "creationTimestamp": "2024-01-02T03:04:05Z"},
            "spec": {"drivers": [{"name": "a", "nodeID": "n"}]},
        }),
        "2024-01-02T03:05:05Z",
        json!(["node-a", 1, "60s"]),
    );
}
