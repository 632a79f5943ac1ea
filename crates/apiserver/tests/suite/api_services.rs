//! APIServices: who serves which group and version, as versions come and go.

use std::sync::Arc;
use std::time::Duration;

use api::Resource as _;
use api::apiextensions::CustomResourceDefinition;
use api::apiregistration::APIService;
use apiserver::Config;
use client::{Api, DeleteOptions};
use kvstore::memory::Memory;
use serde_json::json;
use stdx::World;

use crate::harness::{self, Harness};

const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

fn services(harness: &Harness) -> Api<APIService> {
    harness.client.api::<APIService>()
}

/// How it is managed, and whether it is there: `onstart True (Local)`.
fn shown(service: &APIService) -> String {
    let labels = service.metadata.labels.as_ref();
    let managed = labels.and_then(|it| it.get(MANAGED)).map_or("", String::as_str);
    let conditions = service.status.as_ref().and_then(|it| it.conditions.as_ref());
    let condition = &conditions.expect("conditions")[0];
    assert_eq!(condition.type_, "Available");
    let reason = condition.reason.as_deref().unwrap_or_default();
    format!("{managed} {} ({reason})", condition.status)
}

fn definition() -> CustomResourceDefinition {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    });
    CustomResourceDefinition::decode(definition.to_string().as_bytes()).expect("a definition")
}

async fn settle() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}

#[tokio::test(start_paused = true)]
async fn each_version_that_is_built_in_has_one_from_the_start() {
    let (memory, config) = (Arc::new(Memory::new()), Config::default());
    let harness = harness::try_start_over(World::simulated(1), memory, config).await;
    let harness = harness.expect("the server starts");
    let services = services(&harness);
    for name in ["v1.", "v1.apps", "v2.autoscaling", "v1.resource.k8s.io"] {
        let service = services.get("", name).await.expect(name);
        assert_eq!(shown(&service), "onstart True (Local)", "{name}");
    }
    let refused = services.get("", "v1beta1.resource.k8s.io").await.expect_err("not served");
    assert!(refused.is_not_found());
    let apps = services.get("", "v1.apps").await.expect("found");
    let spec = apps.spec.as_ref().expect("a spec");
    assert_eq!((spec.group_priority_minimum, spec.version_priority), (17_800, 15));
}

#[tokio::test(start_paused = true)]
async fn what_definitions_add_has_one_for_as_long() {
    let harness = harness::start(World::simulated(1)).await;
    let definitions = harness.client.api::<CustomResourceDefinition>();
    definitions.create(definition()).await.expect("created");
    settle().await;
    let services = services(&harness);
    let service = services.get("", "v1.example.com").await.expect("made");
    assert_eq!(shown(&service), "true True (Local)");
    // It comes back, other than those of built-in versions.
    for name in ["v1.example.com", "v1.apps"] {
        services.delete("", name, DeleteOptions::default()).await.expect("deleted");
    }
    settle().await;
    services.get("", "v1.example.com").await.expect("made again");
    assert!(services.get("", "v1.apps").await.expect_err("gone").is_not_found());
    definitions.delete("", "widgets.example.com", DeleteOptions::default()).await.expect("deleted");
    settle().await;
    assert!(services.get("", "v1.example.com").await.expect_err("gone").is_not_found());
}

#[tokio::test(start_paused = true)]
async fn a_start_puts_right_what_is_managed_and_leaves_the_rest() {
    let store = Arc::new(Memory::new());
    let first = harness::start_over(World::simulated(1), store.clone()).await;
    let all = services(&first);
    let write = |name: &str, managed: &str| {
        let (version, group) = name.split_once('.').expect("a name");
        let service = json!({
            "metadata": {"name": name, "labels": {MANAGED: managed}},
            "spec": {"group": group, "version": version, "groupPriorityMinimum": 7, "versionPriority": 7},
        });
        APIService::decode(service.to_string().as_bytes()).expect("an APIService")
    };
    all.create(write("v7.apps", "onstart")).await.expect("created");
    all.create(write("v8.apps", "no")).await.expect("created");
    let mut apps = (*all.get("", "v1.apps").await.expect("found")).clone();
    apps.spec.as_mut().expect("a spec").version_priority = 7;
    all.update(apps).await.expect("updated");
    settle().await;
    first.tasks.shutdown(Duration::from_secs(5)).await.expect("stopped");

    let second = harness::start_over(World::simulated(2), store).await;
    let all = services(&second);
    assert!(all.get("", "v7.apps").await.expect_err("nobody serves it").is_not_found());
    all.get("", "v8.apps").await.expect("not ours");
    let apps = all.get("", "v1.apps").await.expect("found");
    assert_eq!(apps.spec.as_ref().expect("a spec").version_priority, 15);
}

#[tokio::test(start_paused = true)]
async fn what_another_server_should_serve_is_said_not_to_be_there() {
    let harness = harness::start(World::simulated(1)).await;
    let services = services(&harness);
    let service = json!({
        "metadata": {"name": "v1.metrics.example.com"},
        "spec": {
            "group": "metrics.example.com", "version": "v1",
            "groupPriorityMinimum": 100, "versionPriority": 10, "insecureSkipTLSVerify": true,
            "service": {"namespace": "default", "name": "metrics"},
        },
    });
    let service = APIService::decode(service.to_string().as_bytes()).expect("an APIService");
    services.create(service).await.expect("created");
    settle().await;
    let found = services.get("", "v1.metrics.example.com").await.expect("found");
    assert_eq!(shown(&found), " False (ServiceNotFound)");
    // It becomes what its spec makes it.
    let mut local = (*found).clone();
    let spec = local.spec.as_mut().expect("a spec");
    spec.service = None;
    spec.insecure_skip_tls_verify = None;
    services.update(local).await.expect("updated");
    settle().await;
    let found = services.get("", "v1.metrics.example.com").await.expect("found");
    assert_eq!(shown(&found), " True (Local)");
}
