//! A network that breaks: what the node and the pods' events say.

use client::Client;
use k8s_openapi::api::core::v1::Node;
use node_api::Sandboxes as _;
use serde_json::json;

use crate::setup::{IMAGE, Setup, is_ready, run};

/// (status, reason, message) of the node's readiness.
async fn readiness(client: &Client) -> [String; 3] {
    let node = client.api::<Node>().get("", "n1").await.unwrap();
    let status = json!(node.status);
    let conditions = status["conditions"].as_array().unwrap().clone();
    let ready = conditions.into_iter().find(|it| it["type"] == "Ready").unwrap();
    ["status", "reason", "message"].map(|it| ready[it].as_str().unwrap_or_default().to_owned())
}

#[test]
fn the_node_is_not_ready_until_the_network_is_mended() {
    run(async {
        let setup = Setup::start().await;
        setup.create("web", json!({ "containers": [{ "name": "c", "image": IMAGE }] })).await;
        setup.until_status("web", is_ready).await;
        let becomes = async |what: &str, expected: &str| {
            setup.until(what, async |it: &Client| readiness(it).await[0] == expected).await;
        };
        becomes("the node is Ready", "True").await;

        setup.node.set_network_fault(Some("its bridge is gone"));
        becomes("the node is not Ready", "False").await;
        let [_, reason, message] = readiness(setup.admin()).await;
        assert_eq!(reason, "KubeletNotReady");
        assert_eq!(
            message,
            "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady \
             message:its bridge is gone"
        );
        setup.node.set_network_fault(None);
        becomes("the node is Ready again", "True").await;
        let events = setup.events("n1").await;
        let changes: Vec<_> = events.iter().filter(|it| it.contains("status is now")).collect();
        assert_eq!(
            changes,
            [
                "NodeNotReady: Node n1 status is now: NodeNotReady",
                "NodeReady: Node n1 status is now: NodeReady"
            ]
        );
    });
}

#[test]
fn a_pod_that_lost_its_network_has_an_event_then_and_when_it_is_mended() {
    run(async {
        let setup = Setup::start().await;
        setup.create("web", json!({ "containers": [{ "name": "c", "image": IMAGE }] })).await;
        setup.until_status("web", is_ready).await;
        let sandbox = setup.node.list().remove(0).id;
        setup.node.lose_network(&sandbox, "its link veth1 is gone");
        setup
            .until("the node says which pod", async |it: &Client| {
                readiness(it).await[2].ends_with("message:pod default/web: its link veth1 is gone")
            })
            .await;
        setup.node.mend_network(&sandbox);
        setup
            .until("the node is Ready", async |it: &Client| readiness(it).await[0] == "True")
            .await;
        let events = setup.events("web").await;
        let about: Vec<_> = events.iter().filter(|it| it.starts_with("Network")).collect();
        assert_eq!(
            about,
            [
                "NetworkNotReady: network is not ready: its link veth1 is gone",
                "NetworkReady: Connected to the network again (its link veth1 is gone)"
            ]
        );
    });
}
