//! Manifest in; problems out.

use serde_json::{Value, json};

use super::LocalSubjectAccessReview;
use crate::testing::{check, check_created};

#[test]
fn it_asks_about_its_own_namespace() {
    let of = |namespace: &str| {
        json!({
            "metadata": {"namespace": "shop"},
            "spec": {"user": "jane", "resourceAttributes": {"namespace": namespace, "verb": "get"}},
        })
    };
    check::<LocalSubjectAccessReview>(of("shop"), &[]);
    check::<LocalSubjectAccessReview>(
        of("other"),
        &[
            "spec.resourceAttributes.namespace: Invalid value: \"other\": must match metadata.namespace",
        ],
    );
    check::<LocalSubjectAccessReview>(
        of(""),
        &["spec.resourceAttributes.namespace: Invalid value: \"\": must match metadata.namespace"],
    );
}

#[test]
fn it_does_not_ask_about_paths_or_about_nobody() {
    check::<LocalSubjectAccessReview>(
        json!({"metadata": {"namespace": "shop"}, "spec": {"nonResourceAttributes": {"path": "/x"}}}),
        &[
            "spec.user: Invalid value: \"\": at least one of user or group must be specified",
            "spec.nonResourceAttributes: Invalid value: {\"Path\":\"/x\",\"Verb\":\"\"}: disallowed on this kind of request",
        ],
    );
}

#[test]
fn its_metadata_is_a_namespace_alone_and_it_has_no_answer_of_its_own() {
    let of = |metadata: Value| {
        json!({
            "metadata": metadata,
            "spec": {"groups": ["a"], "resourceAttributes": {"namespace": "shop"}},
            "status": {"allowed": true},
        })
    };
    let metadata = json!({"name": "a", "namespace": "shop"});
    let expected =
        format!("metadata: Invalid value: {metadata}: must be empty except for namespace");
    check::<LocalSubjectAccessReview>(of(metadata), &[&expected]);
    let plain = of(json!({"namespace": "shop"}));
    check::<LocalSubjectAccessReview>(plain.clone(), &[]);
    check_created::<LocalSubjectAccessReview>(plain, "/status/allowed", json!(false));
}
