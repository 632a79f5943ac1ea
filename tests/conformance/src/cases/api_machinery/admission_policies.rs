//! Admission policies and their bindings, as objects; what they do is not asked.

use anyhow::Result;
use serde_json::{Value, json};

use crate::cases::{Case, case};
use crate::operations::{Operations, Status};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-api-machinery] MutatingAdmissionPolicy [Privileged:ClusterAdmin] should support MutatingAdmissionPolicy API operations [Conformance]",
        mutating
    ),
    case!(
        "[sig-api-machinery] MutatingAdmissionPolicy [Privileged:ClusterAdmin] should support MutatingAdmissionPolicyBinding API operations [Conformance]",
        mutating_bindings
    ),
    case!(
        "[sig-api-machinery] ValidatingAdmissionPolicy [Privileged:ClusterAdmin] should support ValidatingAdmissionPolicy API operations [Conformance]",
        validating
    ),
    case!(
        "[sig-api-machinery] ValidatingAdmissionPolicy [Privileged:ClusterAdmin] should support ValidatingAdmissionPolicyBinding API operations [Conformance]",
        validating_bindings
    ),
];

const GROUP: &str = "admissionregistration.k8s.io/v1";

/// No binding makes it hold, so it holds nobody up.
fn deployments() -> Value {
    json!({ "resourceRules": [{
        "operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"],
    }] })
}

async fn mutating(scope: &Scope) -> Result<()> {
    let policies = Operations {
        group_version: GROUP,
        resource: "mutatingadmissionpolicies",
        kind: "MutatingAdmissionPolicy",
        is_namespaced: false,
        object: json!({ "spec": {
            "reinvocationPolicy": "Never",
            "matchConstraints": deployments(),
            "mutations": [{
                "patchType": "ApplyConfiguration",
                "applyConfiguration": { "expression": "Object{spec: Object.spec{replicas: 100}}" },
            }],
        } }),
        change: json!({ "spec": { "reinvocationPolicy": "IfNeeded" } }),
        status: None,
        names: None,
    };
    policies.check(scope).await
}

async fn mutating_bindings(scope: &Scope) -> Result<()> {
    let policy = scope.unique("no-policy");
    let bindings = Operations {
        group_version: GROUP,
        resource: "mutatingadmissionpolicybindings",
        kind: "MutatingAdmissionPolicyBinding",
        is_namespaced: false,
        object: json!({ "spec": { "policyName": policy } }),
        change: json!({ "spec": { "policyName": scope.unique("no-other-policy") } }),
        status: None,
        names: None,
    };
    bindings.check(scope).await
}

async fn validating(scope: &Scope) -> Result<()> {
    let condition = |kind: &str| {
        json!({ "conditions": [{
            "type": kind, "status": "False", "reason": "Conformance", "message": "of a test",
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        }] })
    };
    let policies = Operations {
        group_version: GROUP,
        resource: "validatingadmissionpolicies",
        kind: "ValidatingAdmissionPolicy",
        is_namespaced: false,
        object: json!({ "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": deployments(),
            "validations": [{ "expression": "object.spec.replicas <= 100" }],
        } }),
        change: json!({ "spec": { "failurePolicy": "Ignore" } }),
        status: Some(Status {
            values: [condition("Patched"), condition("Replaced")],
            takes_annotations: false,
        }),
        names: None,
    };
    policies.check(scope).await
}

async fn validating_bindings(scope: &Scope) -> Result<()> {
    let policy = scope.unique("no-policy");
    let bindings = Operations {
        group_version: GROUP,
        resource: "validatingadmissionpolicybindings",
        kind: "ValidatingAdmissionPolicyBinding",
        is_namespaced: false,
        object: json!({ "spec": { "policyName": policy, "validationActions": ["Deny"] } }),
        change: json!({ "spec": { "validationActions": ["Warn"] } }),
        status: None,
        names: None,
    };
    bindings.check(scope).await
}
