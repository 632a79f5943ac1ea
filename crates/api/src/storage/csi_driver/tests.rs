//! Manifest in; problems, defaults, warnings or cells out.

use serde_json::{Value, json};

use super::CSIDriver;
use crate::kind::{Part, Resource};
use crate::testing::{check, check_created, check_row, check_update, created};

fn driver(spec: Value) -> Value {
    json!({"metadata": {"name": "disk.example.com"}, "spec": spec})
}

#[test]
fn what_a_driver_does_not_say_is_what_most_do() {
    check_created::<CSIDriver>(
        driver(json!({"volumeLifecycleModes": [], "preventPodSchedulingIfMissing": true})),
        "/spec",
        json!({
            "attachRequired": true,
            "podInfoOnMount": false,
            "storageCapacity": false,
            "fsGroupPolicy": "ReadWriteOnceWithFSType",
            "volumeLifecycleModes": ["Persistent"],
            "requiresRepublish": false,
            "seLinuxMount": false,
        }),
    );
}

#[test]
fn fields_have_known_values() {
    check::<CSIDriver>(
        driver(json!({
            "fsGroupPolicy": "Some", "volumeLifecycleModes": ["Persistent", "Eternal"],
            "nodeAllocatableUpdatePeriodSeconds": 9, "serviceAccountTokenInSecrets": true,
        })),
        &[
            "spec.fsGroupPolicy: Unsupported value: \"Some\": supported values: \"File\", \"None\", \"ReadWriteOnceWithFSType\"",
            "spec.volumeLifecycleModes: Unsupported value: \"Eternal\": supported values: \"Persistent\", \"Ephemeral\"",
            "spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or equal to 10 seconds",
            "spec.serviceAccountTokenInSecrets: Invalid value: true: serviceAccountTokenInSecrets is set but no tokenRequests are specified",
        ],
    );
}

#[test]
fn tokens_are_for_different_audiences_and_last_a_while() {
    let requests = |requests: Value| driver(json!({"tokenRequests": requests}));
    check::<CSIDriver>(requests(json!([{"audience": "", "expirationSeconds": 600}])), &[]);
    check::<CSIDriver>(
        requests(json!([
            {"audience": "a", "expirationSeconds": 599},
            {"audience": "a", "expirationSeconds": 1},
            {"audience": "b", "expirationSeconds": 4_294_967_297_i64},
        ])),
        &[
            "spec.tokenRequests[0].expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes",
            "spec.tokenRequests[1].audience: Duplicate value: \"a\"",
            "spec.tokenRequests[2].expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds",
        ],
    );
}

#[test]
fn how_volumes_come_and_go_does_not_change() {
    let stored = created::<CSIDriver>(driver(json!({})));
    let changed = driver(json!({"podInfoOnMount": true}));
    check_update(&stored, changed.clone(), Part::Main, &[]);
    assert!(created::<CSIDriver>(changed).is_new_generation(&stored));
    check_update(
        &stored,
        driver(json!({"attachRequired": false, "volumeLifecycleModes": ["Ephemeral"]})),
        Part::Main,
        &[
            "spec.attachedRequired: Invalid value: false: field is immutable",
            "spec.volumeLifecycleModes: Invalid value: [\"Ephemeral\"]: field is immutable",
        ],
    );
}

#[test]
fn tokens_outside_of_secrets_are_warned_of() {
    let warnings = |spec: Value| created::<CSIDriver>(driver(spec)).warnings().len();
    assert_eq!(warnings(json!({})), 0);
    assert_eq!(warnings(json!({"tokenRequests": [{"audience": ""}]})), 1);
    let decided =
        json!({"tokenRequests": [{"audience": ""}], "serviceAccountTokenInSecrets": false});
    assert_eq!(warnings(decided), 0);
}

#[test]
fn columns_show_what_it_needs() {
    let row = |spec: Value, expected: Value| {
        let mut manifest = driver(spec);
        manifest["metadata"]["creationTimestamp"] = json!("2024-01-02T03:04:05Z");
        check_row::<CSIDriver>(manifest, "2024-01-02T03:05:05Z", expected);
    };
    row(
        json!({}),
        json!(["disk.example.com", true, false, false, "<unset>", false, "Persistent", "60s"]),
    );
    row(
        json!({
            "attachRequired": false, "tokenRequests": [{"audience": "a"}, {"audience": "b"}],
            "volumeLifecycleModes": ["Persistent", "Ephemeral"],
        }),
        json!([
            "disk.example.com",
            false,
            false,
            false,
            "a,b",
            false,
            "Persistent,Ephemeral",
            "60s"
        ]),
    );
}

#[test]
fn the_generation_starts_with_the_first_change() {
    let mut manifest = driver(json!({}));
    manifest["metadata"]["generation"] = json!(1);
    check_created::<CSIDriver>(manifest, "/metadata/generation", Value::Null);
}
