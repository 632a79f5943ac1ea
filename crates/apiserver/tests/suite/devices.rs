//! Claims to devices: what they need of their namespace, who may write their status, and since when
//! devices are tainted.

use std::sync::Arc;

use api::core::Namespace;
use api::rbac::{ClusterRole, ClusterRoleBinding};
use api::{Dynamic, Resource as _, Stored};
use apimachinery::{ApiError, GroupVersionResource, User};
use client::{DynamicApi, ListOptions, PatchKind};
use serde_json::{Value, json};
use stdx::World;

use crate::harness::{self, Harness};

fn api(harness: &Harness, version: &str, plural: &str) -> DynamicApi {
    harness.client.dynamic(GroupVersionResource::new("resource.k8s.io", version, plural))
}

fn object(value: &Value) -> Dynamic {
    Dynamic::from_value(value.clone()).expect("an object")
}

fn claim(name: &str, is_admin: bool) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": [
            {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "adminAccess": is_admin}},
        ]}},
    })
}

#[tokio::test(start_paused = true)]
async fn devices_of_others_are_for_namespaces_that_may_have_them() {
    let harness = harness::start(World::simulated(1)).await;
    let claims = api(&harness, "v1", "resourceclaims");
    let refused = claims.create(object(&claim("a", true))).await.expect_err("no label");
    let why = "spec.devices.requests[0].adminAccess: Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace";
    assert!(refused.message().contains(why), "{refused}");
    claims.create(object(&claim("b", false))).await.expect("created");
    let label = json!({"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}});
    let namespaces = harness.client.api::<Namespace>();
    let patched = namespaces.patch("", "default", PatchKind::Merge, label.to_string().into()).await;
    patched.expect("labelled");
    claims.create(object(&claim("a", true))).await.expect("created");
}

async fn patch(api: &DynamicApi, status: &Value) -> Result<Arc<Stored>, ApiError> {
    api.patch_status("default", "a", PatchKind::Merge, status.to_string().into()).await
}

#[tokio::test(start_paused = true)]
async fn an_allocation_is_for_those_to_write_who_bind() {
    let harness = harness::start(World::simulated(1)).await;
    let claims = api(&harness, "v1", "resourceclaims");
    claims.create(object(&claim("a", false))).await.expect("created");
    let role = json!({"metadata": {"name": "bob"}, "rules": [
        {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/status"], "verbs": ["*"]},
    ]});
    let role = ClusterRole::decode(role.to_string().as_bytes()).expect("a role");
    harness.client.api::<ClusterRole>().create(role).await.expect("created");
    let binding = json!({
        "metadata": {"name": "bob"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "bob"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}],
    });
    let binding = ClusterRoleBinding::decode(binding.to_string().as_bytes()).expect("a binding");
    harness.client.api::<ClusterRoleBinding>().create(binding).await.expect("created");
    let bob = harness.server.client(User::new("bob", &["system:authenticated"]), "test");
    let theirs = bob.dynamic(GroupVersionResource::new("resource.k8s.io", "v1", "resourceclaims"));
    let device = json!({"driver": "gpu.example.com", "pool": "node-a", "device": "gpu-0"});
    let mut result = device.clone();
    result["request"] = json!("gpu");
    let allocate = json!({"status": {"allocation": {"devices": {"results": [result]}}}});
    let refused = patch(&theirs, &allocate).await.expect_err("no right to bind");
    let why = "status.allocation: Forbidden: changing status.allocation or status.reservedFor requires resource=\"resourceclaims/binding\", verb=\"patch\" permission: resourceclaims.resource.k8s.io is forbidden: User \"bob\" cannot patch resource \"resourceclaims/binding\" in API group \"resource.k8s.io\" at the cluster scope";
    assert!(refused.message().contains(why), "{refused}");
    patch(&claims, &allocate).await.expect("allocated");
    let speak = json!({"status": {"devices": [device]}});
    let refused = patch(&theirs, &speak).await.expect_err("no driver");
    let why = "status.devices: Forbidden: changing status.devices requires resource=\"resourceclaims/driver\", verb=\"[arbitrary-node:patch]\" permission";
    assert!(refused.message().contains(why), "{refused}");
    patch(&claims, &speak).await.expect("spoken");
}

async fn n_found(api: &DynamicApi, selector: &str) -> usize {
    let field_selector = Some(selector.to_owned());
    let options = ListOptions { field_selector, ..ListOptions::default() };
    api.list("", options).await.expect("a list").items.len()
}

#[tokio::test(start_paused = true)]
async fn taints_are_there_since_they_were_written() {
    let harness = harness::start(World::simulated(1)).await;
    let slices = api(&harness, "v1", "resourceslices");
    let slice = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"},
        "spec": {
            "driver": "gpu.example.com", "nodeName": "node-a",
            "pool": {"name": "node-a", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", "taints": [{"key": "hot", "effect": "NoSchedule"}]}],
        },
    });
    let created = slices.create(object(&slice)).await.expect("created");
    let created: Value = serde_json::from_slice(&created.bytes).expect("JSON");
    let since = &created["spec"]["devices"][0]["taints"][0]["timeAdded"];
    assert_eq!(since, &created["metadata"]["creationTimestamp"]);
    assert!(since.is_string());
    assert_eq!(n_found(&slices, "spec.nodeName=node-a,spec.driver=gpu.example.com").await, 1);
    assert_eq!(n_found(&slices, "spec.nodeName=node-b").await, 0);
}

#[tokio::test(start_paused = true)]
async fn older_versions_are_served_to_who_asks_for_them() {
    let plain = harness::start(World::simulated(1)).await;
    let refused = api(&plain, "v1beta1", "resourceclaims").get("default", "a").await;
    assert!(refused.expect_err("not served").is_not_found());
    let store = Arc::new(kvstore::memory::Memory::new());
    let config = harness::everything();
    let harness = harness::try_start_over(World::simulated(1), store, config).await;
    let harness = harness.expect("the server starts");
    api(&harness, "v1", "resourceclaims")
        .create(object(&claim("a", false)))
        .await
        .expect("created");
    let found = api(&harness, "v1beta1", "resourceclaims").get("default", "a").await;
    let found: Value = serde_json::from_slice(&found.expect("found").bytes).expect("JSON");
    assert_eq!(found["apiVersion"], "resource.k8s.io/v1beta1");
    let request = &found["spec"]["devices"]["requests"][0];
    assert_eq!(request["deviceClassName"], "gpu.example.com");
    assert_eq!((&request["count"], &request["exactly"]), (&json!(1), &Value::Null));
}
