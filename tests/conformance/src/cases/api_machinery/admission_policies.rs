//! Admission policies and their bindings: as objects, and what they do to Deployments of one
//! namespace.

use anyhow::Result;
use serde_json::{Value, json};

use crate::cases::{Case, case};
use crate::expect::{refused, same, says};
use crate::operations::{Operations, Status};
use crate::scope::{Scope, named};

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-api-machinery] MutatingAdmissionPolicy [Privileged:ClusterAdmin] should mutate a Deployment [Conformance]",
        mutates
    ),
    case!(
        "[sig-api-machinery] MutatingAdmissionPolicy [Privileged:ClusterAdmin] should mutate a Deployment with annotations [Conformance]",
        annotates
    ),
    case!(
        "[sig-api-machinery] ValidatingAdmissionPolicy [Privileged:ClusterAdmin] should allow expressions to refer variables. [Conformance]",
        refers_to_variables
    ),
    case!(
        "[sig-api-machinery] ValidatingAdmissionPolicy [Privileged:ClusterAdmin] should validate against a Deployment [Conformance]",
        validates
    ),
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

/// Deployments of the case's namespace alone.
fn own_deployments(scope: &Scope) -> Value {
    let mut constraints = deployments();
    constraints["namespaceSelector"] =
        json!({ "matchLabels": { "kubernetes.io/metadata.name": scope.namespace } });
    constraints
}

fn deployment(scope: &Scope, name: &str, replicas: i64) -> Value {
    json!({ "metadata": named(scope, name), "spec": {
        "replicas": replicas,
        "selector": { "matchLabels": { "app": name } },
        "template": {
            "metadata": { "labels": { "app": name } },
            "spec": { "containers": [{ "name": "main", "image": "example.com/image:1" }] },
        },
    } })
}

/// A policy of this kind, `Mutating` or `Validating`, and its binding.
async fn bind(scope: &Scope, kind: &str, mut spec: Value, mut binding: Value) -> Result<()> {
    spec["matchConstraints"] = own_deployments(scope);
    let name = scope.unique("policy");
    let policies = scope.all(GROUP, &format!("{kind}admissionpolicies"));
    policies.create(&json!({ "metadata": named(scope, &name), "spec": spec })).await?;
    binding["policyName"] = json!(name);
    let bindings = scope.all(GROUP, &format!("{kind}admissionpolicybindings"));
    bindings.create(&json!({ "metadata": named(scope, &name), "spec": binding })).await?;
    Ok(())
}

/// Tries until the policy holds, which servers may take a while to notice.
async fn until_refused(scope: &Scope, replicas: i64) -> Result<String> {
    let apps = scope.own("apps/v1", "deployments");
    let dry_run = [("dryRun", "All")];
    let attempt = deployment(scope, "attempt", replicas);
    let refusal = scope
        .until("the policy refuses a Deployment", async || {
            refused("a Deployment", apps.create_with(&attempt, &dry_run).await, 422)
        })
        .await?;
    Ok(refusal.message().to_owned())
}

async fn validates(scope: &Scope) -> Result<()> {
    let spec = json!({ "validations": [
        { "expression": "object.spec.replicas > 1", "messageExpression": "'wants ' + string(2)" },
        { "expression": "namespaceObject.metadata.name == object.metadata.namespace" },
    ] });
    bind(scope, "validating", spec, json!({ "validationActions": ["Deny"] })).await?;
    let said = until_refused(scope, 1).await?;
    says("the refusal", &said, &["ValidatingAdmissionPolicy", "denied request: wants 2"])?;
    let apps = scope.own("apps/v1", "deployments");
    apps.create(&deployment(scope, "replicated", 2)).await?;
    Ok(())
}

async fn refers_to_variables(scope: &Scope) -> Result<()> {
    let spec = json!({
        "variables": [
            { "name": "replicas", "expression": "object.spec.replicas" },
            { "name": "is_odd", "expression": "int(variables.replicas) % 2 == 1" },
        ],
        "validations": [
            { "expression": "variables.replicas > 1" },
            { "expression": "variables.is_odd" },
        ],
    });
    bind(scope, "validating", spec, json!({ "validationActions": ["Deny"] })).await?;
    says("the refusal", &until_refused(scope, 1).await?, &["variables.replicas > 1"])?;
    says("the refusal", &until_refused(scope, 4).await?, &["variables.is_odd"])?;
    scope.own("apps/v1", "deployments").create(&deployment(scope, "odd", 3)).await?;
    Ok(())
}

/// Deployments as they come out, once the policy holds.
async fn mutated(scope: &Scope, expression: &str, pointer: &str, expected: Value) -> Result<()> {
    let configuration = json!({ "expression": expression });
    let mutation =
        json!({ "patchType": "ApplyConfiguration", "applyConfiguration": configuration });
    let spec = json!({ "reinvocationPolicy": "Never", "mutations": [mutation] });
    bind(scope, "mutating", spec, json!({})).await?;
    let apps = scope.own("apps/v1", "deployments");
    let attempt = deployment(scope, "attempt", 1);
    scope
        .until("the policy changes a Deployment", async || {
            let made = apps.create_with(&attempt, &[("dryRun", "All")]).await?;
            same("what the policy sets", made.pointer(pointer), Some(&expected))
        })
        .await
}

async fn mutates(scope: &Scope) -> Result<()> {
    let expression = "Object{spec: Object.spec{replicas: object.spec.replicas + 100}}";
    mutated(scope, expression, "/spec/replicas", json!(101)).await
}

async fn annotates(scope: &Scope) -> Result<()> {
    let expression = "Object{metadata: Object.metadata{annotations: {'seen': 'by ' + \
                      string(request.operation)}}}";
    mutated(scope, expression, "/metadata/annotations/seen", json!("by CREATE")).await
}
