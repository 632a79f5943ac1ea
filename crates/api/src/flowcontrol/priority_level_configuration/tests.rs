//! Manifest in; problems, defaults or cells out.

use serde_json::{Value, json};

use super::PriorityLevelConfiguration;
use crate::flowcontrol::bootstrap;
use crate::kind::{Part, Resource};
use crate::testing::{check, check_created, check_row, check_update, created, defaulted};

fn level(spec: Value) -> Value {
    json!({"metadata": {"name": "reports"}, "spec": spec})
}

fn limited(fields: Value) -> Value {
    let mut limited = json!({"limitResponse": {"type": "Reject"}});
    limited.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap_or_default());
    level(json!({"type": "Limited", "limited": limited}))
}

fn queuing(queuing: Value) -> Value {
    limited(json!({"limitResponse": {"type": "Queue", "queuing": queuing}}))
}

#[test]
fn numbers_that_are_left_out_are_filled_in() {
    let made = |manifest: Value, at: &str, expected: Value| {
        check_created::<PriorityLevelConfiguration>(manifest, at, expected);
    };
    made(limited(json!({})), "/spec/limited/nominalConcurrencyShares", json!(30));
    made(
        limited(json!({"nominalConcurrencyShares": 0})),
        "/spec/limited/nominalConcurrencyShares",
        json!(0),
    );
    made(limited(json!({})), "/spec/limited/lendablePercent", json!(0));
    made(
        queuing(json!({"queues": 0})),
        "/spec/limited/limitResponse/queuing",
        json!({"handSize": 8, "queueLengthLimit": 50, "queues": 64}),
    );
    made(
        level(json!({"type": "Exempt", "exempt": {}})),
        "/spec/exempt",
        json!({"lendablePercent": 0, "nominalConcurrencyShares": 0}),
    );
}

#[test]
fn a_level_is_limited_unless_it_is_the_exempt_one() {
    check::<PriorityLevelConfiguration>(limited(json!({})), &[]);
    let only = "must be 'Exempt' if and only if `name` is 'exempt'";
    check::<PriorityLevelConfiguration>(
        level(json!({"type": "Exempt"})),
        &[&format!("spec.type: Invalid value: \"Exempt\": {only}")],
    );
    check::<PriorityLevelConfiguration>(level(json!({})), &["spec.type: Required value"]);
    check::<PriorityLevelConfiguration>(
        level(json!({"type": "Slow"})),
        &["spec.type: Unsupported value: \"Slow\": supported values: \"Exempt\", \"Limited\""],
    );
    check::<PriorityLevelConfiguration>(
        level(json!({"type": "Limited", "exempt": {}})),
        &[
            "spec.exempt: Forbidden: must be nil if the type is Limited",
            "spec.limited: Required value: must not be empty when type is Limited",
        ],
    );
}

#[test]
fn shares_and_percents_have_bounds() {
    check::<PriorityLevelConfiguration>(
        limited(json!({
            "nominalConcurrencyShares": -1, "lendablePercent": 101, "borrowingLimitPercent": -5,
        })),
        &[
            "spec.limited.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer",
            "spec.limited.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive",
            "spec.limited.borrowingLimitPercent: Invalid value: -5: if specified, must be a non-negative integer",
        ],
    );
}

#[test]
fn requests_that_are_too_many_wait_or_go() {
    let at = "spec.limited.limitResponse";
    let response = |it: Value| limited(json!({"limitResponse": it}));
    check::<PriorityLevelConfiguration>(
        response(json!({"type": "Queue"})),
        &[&format!(
            "{at}.queuing: Required value: must not be empty if limited.limitResponse.type is Limited"
        )],
    );
    check::<PriorityLevelConfiguration>(
        response(json!({"type": "Reject", "queuing": {}})),
        &[&format!(
            "{at}.queuing: Forbidden: must be nil if limited.limitResponse.type is not Limited"
        )],
    );
    check::<PriorityLevelConfiguration>(
        response(json!({"type": "Sing"})),
        &[&format!(
            "{at}.type: Unsupported value: \"Sing\": supported values: \"Queue\", \"Reject\""
        )],
    );
    check::<PriorityLevelConfiguration>(
        response(json!({})),
        &[&format!("{at}.type: Required value")],
    );
}

#[test]
fn a_hand_is_dealt_from_a_hash_of_sixty_bits() {
    let at = "spec.limited.limitResponse.queuing";
    check::<PriorityLevelConfiguration>(queuing(json!({"queues": 64, "handSize": 10})), &[]);
    check::<PriorityLevelConfiguration>(
        queuing(json!({"queues": 128, "handSize": 10})),
        &[&format!(
            "{at}.handSize: Invalid value: 10: required entropy bits of deckSize 128 and handSize 10 should not be greater than 60"
        )],
    );
    check::<PriorityLevelConfiguration>(
        queuing(json!({"queues": 4, "handSize": 5, "queueLengthLimit": -1})),
        &[
            &format!("{at}.queueLengthLimit: Invalid value: -1: must be positive"),
            &format!("{at}.handSize: Invalid value: 5: should not be greater than queues (4)"),
        ],
    );
    check::<PriorityLevelConfiguration>(
        queuing(json!({"queues": 10_000_001, "handSize": 1})),
        &[&format!("{at}.queues: Invalid value: 10000001: must not be greater than 10000000")],
    );
    check::<PriorityLevelConfiguration>(
        queuing(json!({"queues": -1, "handSize": -1})),
        &[
            &format!("{at}.queues: Invalid value: -1: must be positive"),
            &format!("{at}.handSize: Invalid value: -1: must be positive"),
        ],
    );
}

#[test]
fn mandatory_levels_are_what_they_are_but_for_what_the_exempt_count_for() {
    let manifest = |name: &str| -> Value {
        serde_json::from_slice(&bootstrap::mandatory_level(name).unwrap().encode()).unwrap()
    };
    let mut exempt = manifest("exempt");
    exempt["spec"]["exempt"]["lendablePercent"] = json!(50);
    check::<PriorityLevelConfiguration>(exempt, &[]);
    let mut catch_all = manifest("catch-all");
    catch_all["spec"]["limited"]["lendablePercent"] = json!(50);
    let mut errors = apimachinery::FieldErrors::new();
    created::<PriorityLevelConfiguration>(catch_all).validate_create(&mut errors);
    let problem = errors.iter().map(ToString::to_string).next().unwrap_or_default();
    assert!(problem.ends_with(": spec of 'catch-all' must equal the fixed value"), "{problem}");
}

#[test]
fn an_annotation_of_an_older_version_is_refused() {
    let name = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";
    let mut manifest = limited(json!({}));
    manifest["metadata"]["annotations"] = json!({name: ""});
    check::<PriorityLevelConfiguration>(
        manifest,
        &[&format!("metadata.annotations: Forbidden: annotation '{name}' is forbidden")],
    );
}

#[test]
fn the_status_is_written_alone() {
    let stored = created::<PriorityLevelConfiguration>(limited(json!({})));
    let mut manifest = level(json!({}));
    manifest["metadata"]["labels"] = json!({"a": "b"});
    manifest["status"] = json!({"conditions": [{"type": ""}]});
    let mut written = defaulted::<PriorityLevelConfiguration>(manifest.clone());
    written.prepare_update(&stored, Part::Status);
    assert_eq!((&written.spec, &written.metadata.labels), (&stored.spec, &None));
    let expected = ["status.conditions[0].type: Required value"];
    check_update(&stored, manifest, Part::Status, &expected);
}

#[test]
fn columns_show_the_queues() {
    let row = |mut manifest: Value, expected: Value| {
        manifest["metadata"]["creationTimestamp"] = json!("2024-01-02T03:04:05Z");
        check_row::<PriorityLevelConfiguration>(manifest, "2024-01-02T03:05:05Z", expected);
    };
    row(
        queuing(json!({"queues": 16, "handSize": 4, "queueLengthLimit": 20})),
        json!(["reports", "Limited", 30, 16, 4, 20, "60s"]),
    );
    row(limited(json!({})), json!(["reports", "Limited", 30, "<none>", "<none>", "<none>", "60s"]));
    row(
        level(json!({"type": "Exempt"})),
        json!(["reports", "Exempt", "<none>", "<none>", "<none>", "<none>", "60s"]),
    );
}
