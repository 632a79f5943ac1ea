//! The levels and schemas of flow control that every cluster has.

use std::sync::Arc;
use std::time::Duration;

use api::Resource as _;
use api::flowcontrol::{FlowSchema, PriorityLevelConfiguration};
use apiserver::Config;
use client::{DeleteOptions, ListOptions, PatchKind};
use features::RuntimeConfig;
use serde_json::json;
use stdx::World;

use crate::harness::{self, Harness};

async fn settled() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

async fn schema(harness: &Harness, name: &str) -> Arc<FlowSchema> {
    settled().await;
    harness.client.api::<FlowSchema>().get("", name).await.expect("it is there")
}

fn dangling(schema: &FlowSchema) -> Vec<(String, String)> {
    let conditions = schema.status.iter().flat_map(|it| it.conditions.iter().flatten());
    let of = |it: Option<&String>| it.cloned().unwrap_or_default();
    conditions.map(|it| (of(it.type_.as_ref()), of(it.status.as_ref()))).collect()
}

fn pair(status: &str) -> Vec<(String, String)> {
    vec![("Dangling".to_owned(), status.to_owned())]
}

#[tokio::test(start_paused = true)]
async fn every_cluster_starts_with_them() {
    let harness = harness::start(World::simulated(1)).await;
    settled().await;
    let schemas = harness.client.api::<FlowSchema>().list("", ListOptions::default()).await;
    let schemas = schemas.expect("listed").items;
    assert_eq!(schemas.len(), 11);
    for stored in schemas {
        let schema = FlowSchema::decode(&stored.bytes).expect("a schema");
        assert_eq!(dangling(&schema), pair("False"), "{:?}", schema.metadata.name);
    }
    let levels = harness.client.api::<PriorityLevelConfiguration>();
    assert_eq!(levels.list("", ListOptions::default()).await.expect("listed").items.len(), 8);
}

#[tokio::test(start_paused = true)]
async fn what_is_deleted_or_changed_is_made_right_again() {
    let harness = harness::start(World::simulated(1)).await;
    let schemas = harness.client.api::<FlowSchema>();
    let first = schema(&harness, "exempt").await;
    schemas.delete("", "exempt", DeleteOptions::default()).await.expect("deleted");
    let second = schema(&harness, "exempt").await;
    assert_ne!(first.metadata.uid, second.metadata.uid);
    assert_eq!(first.spec, second.spec);

    let change = json!({"spec": {"matchingPrecedence": 7}}).to_string();
    let patch =
        |name: &'static str| schemas.patch("", name, PatchKind::Merge, change.clone().into());
    let refused = patch("catch-all").await.expect_err("it is fixed");
    assert!(refused.message().contains("spec of 'catch-all' must equal the fixed value"));
    // A suggested one is the server's until somebody says otherwise.
    patch("probes").await.expect("changed");
    let probes = schema(&harness, "probes").await;
    assert_eq!(probes.spec.as_ref().and_then(|it| it.matching_precedence), Some(2));
    let own = json!({"metadata": {"annotations": {"apf.kubernetes.io/autoupdate-spec": "false"}}});
    let own = own.to_string();
    schemas.patch("", "probes", PatchKind::Merge, own.into()).await.expect("changed");
    patch("probes").await.expect("changed");
    let probes = schema(&harness, "probes").await;
    assert_eq!(probes.spec.as_ref().and_then(|it| it.matching_precedence), Some(7));
}

#[tokio::test(start_paused = true)]
async fn a_schema_says_whether_its_level_is_there() {
    let harness = harness::start(World::simulated(1)).await;
    let manifest = json!({
        "metadata": {"name": "reports"},
        "spec": {"priorityLevelConfiguration": {"name": "reports"}},
    });
    let object = FlowSchema::decode(manifest.to_string().as_bytes()).expect("a schema");
    harness.client.api::<FlowSchema>().create(object).await.expect("created");
    assert_eq!(dangling(schema(&harness, "reports").await.as_ref()), pair("True"));
    let manifest = json!({
        "metadata": {"name": "reports"},
        "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}},
    });
    let level = PriorityLevelConfiguration::decode(manifest.to_string().as_bytes());
    let levels = harness.client.api::<PriorityLevelConfiguration>();
    levels.create(level.expect("a level")).await.expect("created");
    assert_eq!(dangling(schema(&harness, "reports").await.as_ref()), pair("False"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_that_was_deleted_does_not_come_back_with_its_condition() {
    let harness = harness::start(World::simulated(1)).await;
    let schemas = harness.client.api::<FlowSchema>();
    for n in 0..500 {
        let name = format!("short-lived-{n}");
        let manifest = json!({
            "metadata": {"name": name},
            "spec": {"priorityLevelConfiguration": {"name": "global-default"}},
        });
        let object = FlowSchema::decode(manifest.to_string().as_bytes()).expect("a schema");
        schemas.create(object).await.expect("created");
        schemas.delete("", &name, DeleteOptions::default()).await.expect("deleted");
    }
    let listed = schemas.list("", ListOptions::default()).await.expect("listed").items;
    let names: Vec<&str> = listed.iter().map(|it| it.meta.key.name.as_str()).collect();
    assert_eq!(listed.len(), 11, "{names:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_without_the_group_starts_without_them() {
    let flag = "flowcontrol.apiserver.k8s.io/v1=false";
    let runtime_config = RuntimeConfig::parse(flag).expect("a flag");
    let config = Config { runtime_config, ..Config::default() };
    let memory = Arc::new(kvstore::memory::Memory::new());
    let harness = harness::try_start_over(World::simulated(1), memory, config).await;
    let harness = harness.expect("the server starts");
    settled().await;
    let listed = harness.client.api::<FlowSchema>().list("", ListOptions::default()).await;
    assert!(listed.is_err());
}
