//! The Node object: who removes it sees it again, and who writes it does not keep the node from doing
//! so.

use std::time::Duration;

use client::{Client, DeleteOptions, PatchKind};
use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use crate::setup::{Setup, run};

#[test]
fn a_node_that_somebody_removed_is_registered_again() {
    run(async {
        let setup = Setup::start().await;
        let uid = async |it: &Client| {
            let node = it.api::<Node>().get("", "n1").await.ok();
            node.and_then(|it| it.metadata.uid.clone())
        };
        setup.until("it is registered", async |it: &Client| uid(it).await.is_some()).await;
        let admin = setup.admin();
        let before = uid(admin).await;
        admin.api::<Node>().delete("", "n1", DeleteOptions::default()).await.unwrap();
        let is_another = |it: &Option<String>| it.is_some() && *it != before;
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        setup.until("it is registered again", async |it: &Client| is_another(&uid(it).await)).await;
        assert!(tokio::time::Instant::now() < deadline, "it took longer than a lease lasts");
    });
}

/// As when a node joins: whoever gives it a range, a role and a network writes it all at once.
#[test]
fn what_changes_is_said_at_once_though_others_write_the_node_meanwhile() {
    run(async {
        let setup = Setup::start().await;
        let is_ready = async |it: &Client| {
            let node = it.api::<Node>().get("", "n1").await.unwrap();
            let status = json!(node.status);
            let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == "True")
        };
        setup.until("it is Ready", async |it: &Client| is_ready(it).await).await;
        setup.node.set_network_fault(Some("its bridge is gone"));
        let changed = tokio::time::Instant::now();
        for n in 0..100 {
            let patch = json!({ "metadata": { "annotations": { "n": n.to_string() } } });
            let nodes = setup.admin().api::<Node>();
            nodes.patch("", "n1", PatchKind::Merge, patch.to_string().into()).await.unwrap();
        }
        setup.until("it is not Ready", async |it: &Client| !is_ready(it).await).await;
        assert!(changed.elapsed() < Duration::from_secs(5), "{:?}", changed.elapsed());
    });
}
