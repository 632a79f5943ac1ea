//! The Node object: who removes it sees it again.

use client::{Client, DeleteOptions};
use k8s_openapi::api::core::v1::Node;

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
        let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
        setup.until("it is registered again", async |it: &Client| is_another(&uid(it).await)).await;
        assert!(tokio::time::Instant::now() < deadline, "it took longer than a lease lasts");
    });
}
