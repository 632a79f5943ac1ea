//! Manifest in; problems and cells out.

use serde_json::json;

use super::ControllerRevision;
use crate::kind::Part;
use crate::testing::{check, check_row, check_update, created};

#[test]
fn a_revision_has_an_object_as_its_data() {
    check::<ControllerRevision>(json!({"data": {"a": [1]}, "revision": 1}), &[]);
    check::<ControllerRevision>(json!({"data": {}, "revision": 0}), &[]);
    check::<ControllerRevision>(
        json!({"revision": -1}),
        &[
            "revision: Invalid value: -1: must be greater than or equal to 0",
            "data: Required value: data is mandatory",
        ],
    );
    check::<ControllerRevision>(
        json!({"data": null, "revision": 1}),
        &["data: Required value: data is mandatory"],
    );
    for data in [json!("a"), json!(1), json!([])] {
        check::<ControllerRevision>(
            json!({"data": data, "revision": 1}),
            &["data: Required value: data must be a valid JSON object"],
        );
    }
}

#[test]
fn the_data_never_changes_but_its_number_does() {
    let stored = created::<ControllerRevision>(json!({"data": {"a": 1}, "revision": 1}));
    check_update(&stored, json!({"data": {"a": 1}, "revision": 7}), Part::Main, &[]);
    check_update(
        &stored,
        json!({"data": {"a": 2}, "revision": 1}),
        Part::Main,
        &["data: Invalid value: {\"a\":2}: field is immutable"],
    );
}

#[test]
fn the_row_names_the_controller() {
    let owner = |is_controller: bool| {
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u",
            "controller": is_controller})
    };
    let row = |owner, expected: &str| {
        check_row::<ControllerRevision>(
            json!({
                "metadata": {"name": "db-1", "ownerReferences": [owner],
                    "creationTimestamp": "2026-01-01T00:00:00Z"},
                "data": {}, "revision": 2,
            }),
            "2026-01-01T00:00:05Z",
            json!(["db-1", expected, 2, "5s"]),
        );
    };
    row(owner(true), "statefulset.apps/db");
    row(owner(false), "<none>");
}
