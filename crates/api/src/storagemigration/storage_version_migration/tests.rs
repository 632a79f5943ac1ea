//! Manifest in; problems or cells out.

use serde_json::{Value, json};

use super::StorageVersionMigration;
use crate::kind::{Part, Resource};
use crate::testing::{check, check_row, check_update, created, defaulted};

fn migration(group: &str, resource: &str) -> Value {
    json!({
        "metadata": {"name": "m"},
        "spec": {"resource": {"group": group, "resource": resource}},
    })
}

fn with_status(conditions: &[&str], version: &str) -> Value {
    let mut manifest = migration("apps", "deployments");
    let condition = |kind: &&str| {
        json!({
            "type": kind, "status": "True", "reason": "R", "message": "",
            "lastTransitionTime": "2024-01-02T03:04:05Z",
        })
    };
    let conditions: Vec<Value> = conditions.iter().map(condition).collect();
    manifest["status"] = json!({"conditions": conditions, "resourceVersion": version});
    manifest
}

#[test]
fn it_is_of_one_resource() {
    check::<StorageVersionMigration>(migration("apps", "deployments"), &[]);
    check::<StorageVersionMigration>(migration("", "secrets"), &[]);
    check::<StorageVersionMigration>(
        json!({"metadata": {"name": "m"}}),
        &["spec.resource.resource: Required value: resource is required to be set"],
    );
    let stored = created::<StorageVersionMigration>(migration("", "secrets"));
    check_update(
        &stored,
        migration("", "pods"),
        Part::Main,
        &[
            "spec: Invalid value: {\"resource\":{\"group\":\"\",\"resource\":\"pods\"}}: field is immutable",
        ],
    );
    assert!(stored.warnings().is_empty());
}

#[test]
fn an_end_is_one_and_stays() {
    let stored = defaulted::<StorageVersionMigration>(with_status(&["Succeeded"], "7"));
    check_update(&stored, with_status(&["Succeeded"], "7"), Part::Status, &[]);
    let problems = |manifest: Value| {
        let mut errors = apimachinery::FieldErrors::new();
        let written = defaulted::<StorageVersionMigration>(manifest);
        written.validate_update(&stored, Part::Status, &mut errors);
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let found = problems(with_status(&["Succeeded", "Failed"], "07"));
    assert_eq!(
        found[..2],
        [
            "status.resourceVersion: Invalid value: \"07\": resource version is not well formed: 07",
            "status.resourceVersion: Invalid value: \"07\": field is immutable",
        ]
    );
    let both = "Both success and failed conditions cannot be true at the same time";
    assert!(found[2].ends_with(both), "{found:?}");
    let found = problems(with_status(&["Running"], "7"));
    assert_eq!(found.len(), 1, "{found:?}");
    let back = "Success condition cannot be set to false once it is true";
    assert!(found[0].ends_with(back), "{found:?}");
}

#[test]
fn columns_show_how_far_it_is() {
    let now = "2024-01-02T03:05:05Z";
    check_row::<StorageVersionMigration>(
        with_status(&["Running"], "7"),
        now,
        json!(["m", "deployments.apps", "Running"]),
    );
    check_row::<StorageVersionMigration>(
        migration("", "secrets"),
        now,
        json!(["m", "secrets", "Unknown"]),
    );
}
