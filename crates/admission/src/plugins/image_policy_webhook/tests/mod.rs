//! Settings, questions and answers. What is asked over the wire is tested with the API server.

mod fields;

use std::path::Path;
use std::time::Duration;

use api::core::Pod;
use serde_json::{Value, json};

use super::Backend;
use super::review::{self, Spec};
use crate::configuration::Configuration;
use crate::plugins::fixture::decode;

const KUBECONFIG: &str = "\
current-context: c
clusters: [{name: k, cluster: {server: 'https://images.example.com/review'}}]
contexts: [{name: c, context: {cluster: k, user: u}}]
users: [{name: u, user: {token: secret}}]
";

fn backend(policy: &str, kubeconfig: &'static str) -> Result<Backend, String> {
    let list = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n\
                - {name: ImagePolicyWebhook, path: p.yaml}\n";
    let policy = policy.to_owned();
    let configuration = Configuration::load(Path::new("/etc/a.yaml"), move |path| match path {
        _ if path == Path::new("/etc/a.yaml") => Ok(list.to_owned()),
        _ if path == Path::new("/etc/p.yaml") => Ok(policy.clone()),
        _ if path == Path::new("/k") => Ok(kubeconfig.to_owned()),
        _ => Err(std::io::ErrorKind::NotFound.into()),
    });
    let made = configuration.and_then(|it| Backend::new(&it));
    made.map_err(|err| stdx::error_chain(&err).to_string())
}

#[test]
fn times_are_upstreams_in_its_units_and_bounds() {
    let check = |fields: &str, expected: [u64; 3]| {
        let text = format!("imagePolicy:\n  kubeConfigFile: /k\n{fields}");
        let policy = backend(&text, KUBECONFIG).map(|it| it.policy).expect("settings");
        let found = [policy.allow_for, policy.deny_for, policy.retry_backoff];
        assert_eq!(found, expected.map(Duration::from_millis), "{fields}");
    };
    check("", [300_000, 30_000, 500]);
    check("  allowTTL: 0\n  denyTTL: 0\n  retryBackoff: 0\n", [300_000, 30_000, 500]);
    check("  allowTTL: -1\n  denyTTL: -1\n  retryBackoff: -1\n", [0, 0, 0]);
    check("  allowTTL: 1800\n  denyTTL: 1\n  retryBackoff: 7\n", [1_800_000, 1_000, 7]);
}

#[test]
fn a_bad_file_is_named_with_line_and_field() {
    let check = |policy: &str, kubeconfig: &'static str, parts: &[&str]| {
        let err = backend(policy, kubeconfig).err().expect("it is bad");
        for part in parts {
            assert!(err.contains(part), "{part:?} in: {err}");
        }
    };
    let good = "imagePolicy:\n  kubeConfigFile: /k\n";
    let place = |line: u8, field: &str| format!("/etc/p.yaml, line {line}, field {field:?}");
    let allow = format!("{good}  allowTTL: 1801\n");
    let text = "valid value is between 1s and 30m0s, got 1801s";
    check(&allow, KUBECONFIG, &[&place(3, "allowTTL"), text]);
    let backoff = format!("{good}  retryBackoff: 300001\n");
    let text = "valid value is between 1ns and 5m0s, got 300001ms";
    check(&backoff, KUBECONFIG, &[&place(3, "retryBackoff"), text]);
    check(&format!("{good}  denyTtl: 1\n"), KUBECONFIG, &[&place(3, "denyTtl")]);
    check("imagePolicy: {kubeConfigFile: /gone}", KUBECONFIG, &["reading /gone"]);
    check(good, "users: [", &["/k, line"]);
    check(good, "users: []", &["/k: users: the kubeconfig has no current-context"]);
    check(
        good,
        "current-context: c\nclusters: [{name: k, cluster: {server: 'http://h'}}]\ncontexts: [{name: c, context: {cluster: k}}]\n",
        &["/k: clusters[].cluster.server: \"http://h\" is no https URL"],
    );
}

fn pod(annotations: &Value) -> Pod {
    decode(&json!({
        "metadata": {"name": "web", "namespace": "ns", "annotations": annotations},
        "spec": {
            "containers": [{"name": "a", "image": "one"}, {"name": "b", "image": "two"}],
            "initContainers": [{"name": "c", "image": "three"}],
            "ephemeralContainers": [{"name": "d", "image": "four"}],
        },
    }))
}

#[test]
fn a_question_has_the_images_and_what_is_said_to_the_policy() {
    let annotations = json!({"alpha.image-policy.k8s.io/ticket": "7", "other.example.com/x": "y"});
    let pod = pod(&annotations);
    let question: Value =
        serde_json::from_slice(&Spec::new(&pod, "", "ns").question()).expect("JSON");
    let expected = json!({
        "kind": "ImageReview", "apiVersion": "imagepolicy.k8s.io/v1alpha1",
        "metadata": {}, "status": {},
        "spec": {
            "containers": [{"image": "one"}, {"image": "two"}, {"image": "three"}],
            "annotations": {"alpha.image-policy.k8s.io/ticket": "7"}, "namespace": "ns",
        },
    });
    assert_eq!(question, expected);
    let below: Value =
        serde_json::from_slice(&Spec::new(&pod, "ephemeralcontainers", "ns").key()).expect("JSON");
    assert_eq!(below["containers"], json!([{"image": "four"}]));
}

#[test]
fn an_answer_is_an_image_review_and_silence_is_no() {
    let said = |status: Value| {
        let whole = json!({
            "apiVersion": "imagepolicy.k8s.io/v1alpha1", "kind": "ImageReview", "status": status,
        });
        let answer = review::answer(whole.to_string().as_bytes()).expect("an answer");
        review::refusal(&answer)
    };
    assert_eq!(said(json!({"allowed": true, "reason": "whatever"})), None);
    let text = "image policy webhook backend denied one or more images: too old";
    assert_eq!(said(json!({"allowed": false, "reason": "too old"})).as_deref(), Some(text));
    let text = "one or more images rejected by webhook backend";
    assert_eq!(said(json!({})).as_deref(), Some(text));
    assert_eq!(said(Value::Null).as_deref(), Some(text));
    for other in ["<html>", "{}", r#"{"kind":"Status","apiVersion":"v1"}"#] {
        assert!(review::answer(other.as_bytes()).is_err(), "{other}");
    }
}
