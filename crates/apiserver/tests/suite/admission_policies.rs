//! Admission policies and their bindings: who may give them which parameters.

use api::rbac::{ClusterRole, ClusterRoleBinding};
use api::{Dynamic, Resource as _};
use apimachinery::{ApiError, GroupVersionResource, User};
use client::Client;
use serde_json::{Value, json};
use stdx::World;

use crate::harness::{self, Harness};

const GROUP: &str = "admissionregistration.k8s.io";

/// Somebody who may write policies and bindings, and what else is said.
async fn writer(harness: &Harness, name: &str, also: Value) -> Client {
    let mut rules = vec![json!({"apiGroups": [GROUP], "resources": ["*"], "verbs": ["*"]})];
    rules.extend(also.as_array().cloned().unwrap_or_default());
    let role = json!({"metadata": {"name": name}, "rules": rules});
    let role = ClusterRole::decode(role.to_string().as_bytes()).expect("a role");
    harness.client.api::<ClusterRole>().create(role).await.expect("created");
    let binding = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
    });
    let binding = ClusterRoleBinding::decode(binding.to_string().as_bytes()).expect("a binding");
    harness.client.api::<ClusterRoleBinding>().create(binding).await.expect("created");
    harness.server.client(User::new(name, &["system:authenticated"]), "test")
}

async fn create(client: &Client, plural: &str, object: Value) -> Result<(), ApiError> {
    let api = client.dynamic(GroupVersionResource::new(GROUP, "v1", plural));
    api.create(Dynamic::from_value(object).expect("an object")).await.map(drop)
}

fn policy(name: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "matchConstraints": {"resourceRules": [{
                "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"],
            }]},
            "validations": [{"expression": "true"}],
        },
    })
}

fn binding(name: &str, policy: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {
            "policyName": policy, "validationActions": ["Deny"],
            "paramRef": {"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"},
        },
    })
}

#[tokio::test(start_paused = true)]
async fn nobody_lets_a_policy_read_what_they_may_not() {
    let harness = harness::start(World::simulated(1)).await;
    let bob = writer(&harness, "bob", json!([])).await;
    let (policies, bindings) = ("validatingadmissionpolicies", "validatingadmissionpolicybindings");
    let refused = create(&bob, policies, policy("p")).await.expect_err("no right to read");
    assert_eq!(refused.code(), 422);
    let why = "spec.paramKind: Forbidden: user &{bob  [system:authenticated] map[]} must have \"get\" permission on all objects of the referenced paramKind (kind=ConfigMap, apiVersion=v1)";
    assert!(refused.message().contains(why), "{refused}");

    let read = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]);
    let eve = writer(&harness, "eve", read).await;
    create(&eve, policies, policy("p")).await.expect("created");
    create(&eve, bindings, binding("b", "p")).await.expect("created");

    let refused = create(&bob, bindings, binding("c", "p")).await.expect_err("no right to read");
    let why = "does not have \"get\" permission on the object referenced by paramRef";
    assert!(refused.message().contains(why), "{refused}");
    let refused = create(&eve, bindings, binding("d", "none")).await.expect_err("of what kind?");
    let why = "spec.paramRef: Forbidden: unable to get policy none to determine minimum required permissions";
    assert!(refused.message().contains(why), "{refused}");
    create(&harness.client, bindings, binding("d", "none")).await.expect("whoever may all");
}
