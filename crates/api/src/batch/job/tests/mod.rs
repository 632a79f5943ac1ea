//! Manifest in; problems, defaults and cells out.

mod indexes;
mod policies;
mod status;
mod update;

use serde_json::{Value, json};

use super::Job;
use crate::kind::{Part, Resource};
use crate::testing::{check, check_created, check_row, created, defaulted};

/// With an uid, as the server gives one before anything else.
fn job(extra: Value) -> Value {
    let mut spec = json!({"template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "pi", "image": "perl:5"}],
    }}});
    spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    json!({
        "metadata": {"name": "pi", "uid": "u1", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": spec,
    })
}

fn indexed(extra: Value) -> Value {
    let mut spec = json!({"completionMode": "Indexed", "completions": 5});
    spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    job(spec)
}

#[test]
fn a_minimal_one_gets_every_default() {
    let default = |pointer, expected| check_created::<Job>(job(json!({})), pointer, expected);
    default("/spec/completions", json!(1));
    default("/spec/parallelism", json!(1));
    default("/spec/backoffLimit", json!(6));
    default("/spec/completionMode", json!("NonIndexed"));
    default("/spec/suspend", json!(false));
    default("/spec/manualSelector", json!(false));
    default("/spec/podReplacementPolicy", json!("TerminatingOrFailed"));
    default("/status", json!({}));
    check::<Job>(job(json!({})), &[]);
}

#[test]
fn some_defaults_follow_from_other_fields() {
    check_created::<Job>(job(json!({"parallelism": 3})), "/spec/completions", Value::Null);
    check_created::<Job>(job(json!({"completions": 3})), "/spec/parallelism", json!(1));
    let limited = indexed(json!({"backoffLimitPerIndex": 1}));
    check_created::<Job>(limited, "/spec/backoffLimit", json!(i32::MAX));
    let policy = json!({"rules": [{"action": "Count", "onPodConditions": [{"type": "A"}]}]});
    let manifest = job(json!({"podFailurePolicy": policy}));
    check_created::<Job>(manifest.clone(), "/spec/podReplacementPolicy", json!("Failed"));
    let pattern = "/spec/podFailurePolicy/rules/0/onPodConditions/0/status";
    check_created::<Job>(manifest, pattern, json!("True"));
    let mut labeled = job(json!({}));
    labeled["spec"]["template"]["metadata"] = json!({"labels": {"app": "pi"}});
    check_created::<Job>(labeled, "/metadata/labels", json!({"app": "pi"}));
}

#[test]
fn the_server_makes_labels_and_selector() {
    let made = |pointer, expected| check_created::<Job>(job(json!({})), pointer, expected);
    let labels = json!({
        "batch.kubernetes.io/controller-uid": "u1", "batch.kubernetes.io/job-name": "pi",
        "controller-uid": "u1", "job-name": "pi",
    });
    made("/spec/template/metadata/labels", labels.clone());
    made("/metadata/labels", labels);
    made("/spec/selector", json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u1"}}));
}

#[test]
fn who_selects_by_hand_says_all_of_it() {
    let manual = |selector: Value| {
        let mut manifest = job(json!({"manualSelector": true, "selector": selector}));
        manifest["spec"]["template"]["metadata"] = json!({"labels": {"app": "pi"}});
        manifest
    };
    let own = manual(json!({"matchLabels": {"app": "pi"}}));
    check_created::<Job>(own.clone(), "/spec/template/metadata/labels", json!({"app": "pi"}));
    check::<Job>(own, &[]);
    let mismatch = "spec.template.metadata.labels: Invalid value: {\"app\":\"pi\"}: `selector` does not match template `labels`";
    check::<Job>(manual(json!({"matchLabels": {"app": "e"}})), &[mismatch]);
    check::<Job>(manual(Value::Null), &["spec.selector: Required value", mismatch]);
    check::<Job>(manual(json!({})), &[]);
}

#[test]
fn labels_of_others_are_refused() {
    let mut manifest = job(json!({}));
    manifest["spec"]["template"]["metadata"] = json!({"labels": {"job-name": "other"}});
    let labels = "{\"batch.kubernetes.io/controller-uid\":\"u1\",\"batch.kubernetes.io/job-name\":\"pi\",\"controller-uid\":\"u1\",\"job-name\":\"other\"}";
    check::<Job>(
        manifest,
        &[&format!(
            "spec.template.metadata.labels[job-name]: Invalid value: {labels}: must be 'pi'"
        )],
    );
    let selector = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u2"}});
    let refused: Vec<String> = {
        let object = created::<Job>(job(json!({"selector": selector})));
        let mut errors = apimachinery::FieldErrors::new();
        object.validate_create(&mut errors);
        errors.iter().map(ToString::to_string).collect()
    };
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert!(refused[0].ends_with("`selector` not auto-generated"), "{refused:?}");
    assert!(refused[1].ends_with("`selector` does not match template `labels`"), "{refused:?}");
}

#[test]
fn numbers_are_not_negative() {
    let at_least_zero = |field: &str| {
        format!("spec.{field}: Invalid value: -1: must be greater than or equal to 0")
    };
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
    ] {
        check::<Job>(job(json!({field: -1})), &[&at_least_zero(field)]);
    }
    check::<Job>(
        indexed(json!({"backoffLimitPerIndex": -1, "maxFailedIndexes": -1})),
        &[&at_least_zero("backoffLimitPerIndex"), &at_least_zero("maxFailedIndexes")],
    );
}

#[test]
fn pods_of_a_job_end() {
    let restarting = |policy: Value| {
        let mut manifest = job(json!({}));
        manifest["spec"]["template"]["spec"]["restartPolicy"] = policy;
        manifest
    };
    let required =
        "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"";
    check::<Job>(restarting(json!("OnFailure")), &[]);
    check::<Job>(restarting(json!("Always")), &[required]);
    check::<Job>(restarting(Value::Null), &[required]);
    check::<Job>(
        restarting(json!("Often")),
        &[
            "spec.template.spec.restartPolicy: Unsupported value: \"Often\": supported values: \"Always\", \"OnFailure\", \"Never\"",
            "spec.template.spec.restartPolicy: Unsupported value: \"Often\": supported values: \"OnFailure\", \"Never\"",
        ],
    );
}

#[test]
fn indexes_take_completions_and_their_bounds() {
    check::<Job>(
        job(json!({"completionMode": "Indexed", "parallelism": 100_001})),
        &[
            "spec.completions: Required value: when completion mode is Indexed",
            "spec.parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is Indexed",
        ],
    );
    check::<Job>(
        indexed(json!({"maxFailedIndexes": 6})),
        &[
            "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
            "spec.maxFailedIndexes: Invalid value: 6: must be less than or equal to completions",
        ],
    );
    let many = "when completions are above 100000 and used with backoff limit per index";
    check::<Job>(
        indexed(json!({
            "completions": 200_000, "parallelism": 10_001, "backoffLimitPerIndex": 1,
            "maxFailedIndexes": 100_001,
        })),
        &[
            "spec.maxFailedIndexes: Invalid value: 100001: must be less than or equal to 100000",
            &format!(
                "spec.parallelism: Invalid value: 10001: must be less than or equal to 10000 {many}"
            ),
            &format!(
                "spec.maxFailedIndexes: Invalid value: 100001: must be less than or equal to 10000 {many}"
            ),
        ],
    );
    check::<Job>(
        indexed(json!({"completions": 100_001, "backoffLimitPerIndex": 1})),
        &[
            "spec.maxFailedIndexes: Required value: must be specified when completions is above 100000",
        ],
    );
    check::<Job>(
        job(json!({"backoffLimitPerIndex": 1, "maxFailedIndexes": 1})),
        &[
            "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
            "spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode",
        ],
    );
    check::<Job>(
        job(json!({"completionMode": "Random"})),
        &[
            "spec.completionMode: Unsupported value: \"Random\": supported values: \"NonIndexed\", \"Indexed\"",
        ],
    );
}

#[test]
fn the_last_pod_of_an_indexed_job_has_a_name() {
    let named = |n_bytes: usize| {
        let mut manifest = indexed(json!({"completions": 100}));
        manifest["metadata"]["name"] = json!("a".repeat(n_bytes));
        manifest
    };
    check::<Job>(named(60), &[]);
    let name = "a".repeat(61);
    check::<Job>(
        named(61),
        &[&format!(
            "metadata.name: Invalid value: \"{name}\": will not able to create pod with invalid DNS label: {name}-99"
        )],
    );
}

#[test]
fn others_may_manage_it() {
    check::<Job>(job(json!({"managedBy": "example.com/queue/batch"})), &[]);
    let form = "must be a domain-prefixed path (such as \"acme.io/foo\")";
    check::<Job>(job(json!({"managedBy": ""})), &["spec.managedBy: Required value"]);
    check::<Job>(
        job(json!({"managedBy": "mine"})),
        &[&format!("spec.managedBy: Invalid value: \"mine\": {form}")],
    );
    check::<Job>(
        job(json!({"managedBy": format!("example.com/{}", "a".repeat(60))})),
        &["spec.managedBy: Too long: may not be more than 63 bytes"],
    );
}

#[test]
fn warnings_say_what_may_surprise() {
    let warnings = |manifest| created::<Job>(manifest).warnings();
    assert!(warnings(job(json!({}))).is_empty());
    let many = "spec: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail";
    let manifest = indexed(json!({"completions": 100_001, "parallelism": 10_001}));
    assert_eq!(warnings(manifest), [many]);
    let mut manifest = job(json!({}));
    manifest["metadata"]["name"] = json!("p.i");
    let named = created::<Job>(manifest);
    assert_eq!(named.warnings().len(), 1);
    assert!(named.update_warnings(&named, Part::Main).is_empty());
    assert!(named.update_warnings(&named, Part::Status).is_empty());
}

#[test]
fn jobs_are_selected_by_how_many_succeeded() {
    let mut manifest = job(json!({}));
    manifest["status"] = json!({"succeeded": 4});
    let fields = defaulted::<Job>(manifest).fields();
    assert_eq!(fields, [("status.successful", "4".to_owned())]);
    assert_eq!(Job::field_names(), [("status.successful", "status.successful")]);
}

#[test]
fn the_row_shows_state_and_duration() {
    let row = |spec: Value, status: Value, expected: [&str; 3]| {
        let mut manifest = created::<Job>(job(spec)).encode();
        let mut tree: Value = serde_json::from_slice(&manifest).unwrap();
        tree["status"] = status;
        manifest.clear();
        let [state, completions, duration] = expected;
        check_row::<Job>(
            tree,
            "2026-01-01T00:01:00Z",
            json!([
                "pi",
                state,
                completions,
                duration,
                "60s",
                "pi",
                "perl:5",
                "batch.kubernetes.io/controller-uid=u1"
            ]),
        );
    };
    let is = |type_: &str| json!([{"type": type_, "status": "True"}]);
    row(json!({}), json!({}), ["Running", "0/1", ""]);
    row(
        json!({"completions": 3}),
        json!({"succeeded": 1, "startTime": "2026-01-01T00:00:10Z"}),
        ["Running", "1/3", "50s"],
    );
    row(
        json!({"parallelism": 4}),
        json!({"succeeded": 1, "conditions": is("Complete"),
            "startTime": "2026-01-01T00:00:10Z", "completionTime": "2026-01-01T00:00:15Z"}),
        ["Complete", "1/1 of 4", "5s"],
    );
    row(
        json!({"parallelism": 1}),
        json!({"conditions": is("Suspended")}),
        ["Suspended", "0/1", ""],
    );
    for state in ["Failed", "FailureTarget", "SuccessCriteriaMet"] {
        row(json!({}), json!({"conditions": is(state)}), [state, "0/1", ""]);
    }
}

#[test]
fn several_problems_are_told_of_in_upstreams_order() {
    let template =
        json!({"spec": {"restartPolicy": "Always", "containers": [{"name": "pi", "image": ""}]}});
    check::<Job>(
        job(json!({
            "parallelism": -1,
            "activeDeadlineSeconds": -1,
            "backoffLimit": -1,
            "ttlSecondsAfterFinished": -1,
            "completionMode": "Other",
            "podReplacementPolicy": "Other",
            "template": template,
        })),
        &[
            "spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
            "spec.activeDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0",
            "spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0",
            "spec.ttlSecondsAfterFinished: Invalid value: -1: must be greater than or equal to 0",
            "spec.completionMode: Unsupported value: \"Other\": supported values: \"NonIndexed\", \"Indexed\"",
            "spec.podReplacementPolicy: Unsupported value: \"Other\": supported values: \"Failed\", \"TerminatingOrFailed\"",
            "spec.template.spec.containers[0].image: Required value",
            "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"",
        ],
    );
}
