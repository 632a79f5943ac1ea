//! Manifest in; problems out.

use serde_json::json;

use super::SubjectAccessReview;
use crate::testing::check;

#[test]
fn a_review_asks_one_thing_about_somebody() {
    check::<SubjectAccessReview>(json!({"spec": {"user": "a", "resourceAttributes": {}}}), &[]);
    check::<SubjectAccessReview>(
        json!({"spec": {}}),
        &[
            "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
            "spec.user: Invalid value: \"\": at least one of user or group must be specified",
        ],
    );
}

#[test]
fn a_review_does_not_ask_about_a_resource_and_a_path() {
    check::<SubjectAccessReview>(
        json!({"spec": {"user": "a", "resourceAttributes": {}, "nonResourceAttributes": {"path": "/x"}}}),
        &[
            "spec.nonResourceAttributes: Invalid value: {\"Path\":\"/x\",\"Verb\":\"\"}: cannot be specified in combination with resourceAttributes",
        ],
    );
}

#[test]
fn selectors_are_texts_or_requirements() {
    let of = |selectors: serde_json::Value| json!({"spec": {"groups": ["a"], "resourceAttributes": selectors}});
    check::<SubjectAccessReview>(
        of(json!({
            "fieldSelector": {"requirements": [{"key": "", "operator": "In"}, {"key": "a", "operator": "New"}]},
            "labelSelector": {"rawSelector": "a", "requirements": [{"key": "-", "operator": "Exists", "values": ["-"]}]},
        })),
        &[
            "spec.resourceAttributes.fieldSelector.requirements[0].key: Required value: must be specified",
            "spec.resourceAttributes.fieldSelector.requirements[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
            "spec.resourceAttributes.labelSelector.rawSelector: Invalid value: \"a\": may not specified at the same time as requirements",
            "spec.resourceAttributes.labelSelector.requirements[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            "spec.resourceAttributes.labelSelector.requirements[0].key: Invalid value: \"-\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            "spec.resourceAttributes.labelSelector.requirements[0].values[0]: Invalid value: \"-\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        ],
    );
    check::<SubjectAccessReview>(
        of(json!({"fieldSelector": {}})),
        &[
            "spec.resourceAttributes.fieldSelector.requirements: Required value: when spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required",
        ],
    );
}

#[test]
fn a_review_has_no_metadata() {
    let of = |metadata: serde_json::Value| json!({"metadata": metadata, "spec": {"user": "a", "resourceAttributes": {}}});
    check::<SubjectAccessReview>(of(json!({"labels": {}, "name": ""})), &[]);
    for metadata in [
        json!({"name": "a"}),
        json!({"uid": "u"}),
        json!({"finalizers": ["a.b/c"]}),
        json!({"namespace": "a"}),
    ] {
        let expected = format!("metadata: Invalid value: {metadata}: must be empty");
        check::<SubjectAccessReview>(of(metadata), &[&expected]);
    }
}
