//! Manifest in; problems out.

use serde_json::{Value, json};

use super::SelfSubjectAccessReview;
use crate::testing::{check, check_created};

#[test]
fn it_asks_about_a_resource_or_a_path() {
    let resource = json!({"verb": "get", "resource": "pods", "namespace": "default"});
    check::<SelfSubjectAccessReview>(json!({"spec": {"resourceAttributes": resource}}), &[]);
    let path = json!({"path": "/healthz", "verb": "get"});
    check::<SelfSubjectAccessReview>(json!({"spec": {"nonResourceAttributes": path}}), &[]);
    check::<SelfSubjectAccessReview>(
        json!({"spec": {}}),
        &[
            "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ],
    );
    check::<SelfSubjectAccessReview>(
        json!({"spec": {"resourceAttributes": resource, "nonResourceAttributes": path}}),
        &[
            "spec.nonResourceAttributes: Invalid value: {\"Path\":\"/healthz\",\"Verb\":\"get\"}: cannot be specified in combination with resourceAttributes",
        ],
    );
}

#[test]
fn its_selectors_are_checked() {
    check::<SelfSubjectAccessReview>(
        json!({"spec": {"resourceAttributes": {"labelSelector": {}}}}),
        &[
            "spec.resourceAttributes.labelSelector.requirements: Required value: when spec.resourceAttributes.labelSelector is specified, requirements or rawSelector is required",
        ],
    );
}

#[test]
fn it_has_no_metadata_and_no_answer_of_its_own() {
    let of = |metadata: Value| json!({"metadata": metadata, "spec": {"resourceAttributes": {}}});
    check::<SelfSubjectAccessReview>(of(json!({"labels": {}})), &[]);
    check::<SelfSubjectAccessReview>(
        of(json!({"name": "a"})),
        &["metadata: Invalid value: {\"name\":\"a\"}: must be empty"],
    );
    let answered = json!({"spec": {"resourceAttributes": {}}, "status": {"allowed": true}});
    check_created::<SelfSubjectAccessReview>(answered, "/status/allowed", json!(false));
}
