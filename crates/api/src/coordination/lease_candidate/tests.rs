//! Manifest in; problems or cells out.

use serde_json::{Value, json};

use super::{LeaseCandidate, v1alpha2};
use crate::kind::{Part, Resource};
use crate::testing::{check, check_row, check_update, created, defaulted};
use crate::version::Version;

fn candidate(fields: Value) -> Value {
    let mut spec = json!({
        "leaseName": "scheduler", "binaryVersion": "1.36.4", "emulationVersion": "1.36.0",
        "strategy": "OldestEmulationVersion",
    });
    spec.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap_or_default());
    json!({"metadata": {"name": "a"}, "spec": spec})
}

#[test]
fn versions_are_semantic_and_none_emulates_a_later_one() {
    check::<LeaseCandidate>(candidate(json!({})), &[]);
    check::<LeaseCandidate>(candidate(json!({"binaryVersion": "1.36.0"})), &[]);
    let late = "must be greater than or equal to `emulationVersion`";
    check::<LeaseCandidate>(
        candidate(json!({"binaryVersion": "1.35.9"})),
        &[&format!("spec.binaryVersion: Invalid value: \"1.35.9\": {late}")],
    );
    check::<LeaseCandidate>(
        candidate(json!({"binaryVersion": "v1.36"})),
        &[
            "spec.binaryVersion: Invalid value: \"v1.36\": must be a valid semantic version",
            &format!("spec.binaryVersion: Invalid value: \"v1.36\": {late}"),
        ],
    );
    check::<LeaseCandidate>(
        candidate(json!({"binaryVersion": "", "leaseName": ""})),
        &["spec.leaseName: Required value", "spec.binaryVersion: Required value"],
    );
}

#[test]
fn the_oldest_emulation_can_only_be_picked_if_there_is_one() {
    check::<LeaseCandidate>(
        candidate(json!({"emulationVersion": ""})),
        &[
            "spec.emulationVersion: Required value: must be specified when `strategy` is 'OldestEmulationVersion'",
        ],
    );
    check::<LeaseCandidate>(
        candidate(json!({"emulationVersion": "", "strategy": "example.org/mine"})),
        &[],
    );
    check::<LeaseCandidate>(candidate(json!({"strategy": ""})), &["spec.strategy: Required value"]);
    check::<LeaseCandidate>(
        candidate(json!({"strategy": "Loudest"})),
        &[
            "spec.strategy.strategy: Unsupported value: \"Loudest\": supported values: \"OldestEmulationVersion\"",
        ],
    );
}

#[test]
fn a_name_may_be_a_key() {
    let mut named = candidate(json!({}));
    named["metadata"]["name"] = json!("Host_7.a-b");
    check::<LeaseCandidate>(named.clone(), &[]);
    named["metadata"]["name"] = json!("a:b");
    let mut errors = apimachinery::FieldErrors::new();
    created::<LeaseCandidate>(named).validate(&mut errors);
    let problems: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].starts_with("metadata.name: Invalid value: \"a:b\": a valid config key"));
}

#[test]
fn a_candidate_stays_with_its_lease() {
    let stored = created::<LeaseCandidate>(candidate(json!({})));
    check_update(&stored, candidate(json!({"binaryVersion": "1.37.0"})), Part::Main, &[]);
    check_update(
        &stored,
        candidate(json!({"leaseName": "other"})),
        Part::Main,
        &["spec.leaseName: Invalid value: \"other\": field is immutable"],
    );
}

#[test]
fn columns_show_the_versions() {
    let mut manifest = candidate(json!({}));
    manifest["metadata"]["creationTimestamp"] = json!("2024-01-02T03:04:05Z");
    check_row::<LeaseCandidate>(
        manifest,
        "2024-01-02T03:05:05Z",
        json!(["a", "scheduler", "1.36.4", "1.36.0", "60s"]),
    );
}

#[test]
fn the_alpha_version_says_the_same() {
    let stored = created::<LeaseCandidate>(candidate(json!({})));
    let alpha: v1alpha2::LeaseCandidate = Version::<LeaseCandidate>::from_hub(&stored);
    assert_eq!(Version::<LeaseCandidate>::into_hub(alpha), stored);
    let json = defaulted::<v1alpha2::LeaseCandidate>(candidate(json!({}))).encode();
    let read = LeaseCandidate::convert_stored("coordination.k8s.io/v1alpha2", &json);
    assert_eq!(LeaseCandidate::decode(&read.unwrap().unwrap()).unwrap(), stored);
}
