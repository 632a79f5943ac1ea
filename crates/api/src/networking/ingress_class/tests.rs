//! Manifest in; problems, defaults or cells out.

use serde_json::{Value, json};

use super::IngressClass;
use crate::kind::{Part, Resource};
use crate::testing::{check, check_created, check_row, check_update, created};

fn class(spec: Value) -> Value {
    json!({"metadata": {"name": "edge"}, "spec": spec})
}

fn with_parameters(parameters: Value) -> Value {
    class(json!({"controller": "example.org/edge", "parameters": parameters}))
}

#[test]
fn a_controller_has_a_domain() {
    check::<IngressClass>(class(json!({"controller": "example.org/edge/v1"})), &[]);
    check::<IngressClass>(class(json!({})), &["spec.controller: Required value"]);
    for name in ["edge", "/edge", "example.org/"] {
        check::<IngressClass>(
            class(json!({"controller": name})),
            &[&format!(
                "spec.controller: Invalid value: {name:?}: must be a domain-prefixed path (such as \"acme.io/foo\")"
            )],
        );
    }
    check::<IngressClass>(
        class(json!({"controller": "example.org/a b"})),
        &[
            "spec.controller: Invalid value: \"a b\": Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')",
        ],
    );
    check::<IngressClass>(
        class(json!({"controller": format!("example.org/{}", "a".repeat(240))})),
        &["spec.controller: Too long: may not be more than 250 bytes"],
    );
}

#[test]
fn a_controller_stays() {
    let stored = created::<IngressClass>(class(json!({"controller": "example.org/edge"})));
    check_update(
        &stored,
        class(json!({"controller": "example.org/other"})),
        Part::Main,
        &["spec.controller: Invalid value: \"example.org/other\": field is immutable"],
    );
    let other = with_parameters(json!({"kind": "Settings", "name": "a"}));
    check_update(&stored, other.clone(), Part::Main, &[]);
    assert!(created::<IngressClass>(other).is_new_generation(&stored));
}

#[test]
fn parameters_are_of_the_cluster_unless_they_say_otherwise() {
    let plain = json!({"kind": "Settings", "name": "a"});
    check_created::<IngressClass>(
        with_parameters(plain.clone()),
        "/spec/parameters/scope",
        json!("Cluster"),
    );
    check::<IngressClass>(with_parameters(plain), &[]);
    let at = "spec.parameters";
    check::<IngressClass>(
        with_parameters(json!({"kind": "a/b", "name": "", "scope": "Node"})),
        &[
            &format!("{at}.kind: Invalid value: \"a/b\": may not contain '/'"),
            &format!("{at}.name: Required value"),
            &format!(
                "{at}.scope: Unsupported value: \"Node\": supported values: \"Cluster\", \"Namespace\""
            ),
        ],
    );
    check::<IngressClass>(
        with_parameters(json!({"kind": "Settings", "name": "a", "scope": "Namespace"})),
        &[&format!("{at}.namespace: Required value: `parameters.scope` is set to 'Namespace'")],
    );
    check::<IngressClass>(
        with_parameters(json!({"kind": "Settings", "name": "a", "namespace": "default"})),
        &[&format!("{at}.namespace: Forbidden: `parameters.scope` is set to 'Cluster'")],
    );
}

#[test]
fn columns_mark_the_default() {
    check_row::<IngressClass>(
        json!({
            "metadata": {
                "name": "edge",
                "creationTimestamp": "2024-01-02T03:04:05Z",
                "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"},
            },
            "spec": {"controller": "example.org/edge"},
        }),
        "2024-01-02T03:05:05Z",
        json!(["edge (default)", "example.org/edge", "<none>", "60s"]),
    );
    let mut other = with_parameters(json!({"apiGroup": "a.org", "kind": "Settings", "name": "b"}));
    other["metadata"]["creationTimestamp"] = json!("2024-01-02T03:04:05Z");
    check_row::<IngressClass>(
        other,
        "2024-01-02T03:05:05Z",
        json!(["edge", "example.org/edge", "Settings.a.org/b", "60s"]),
    );
}
