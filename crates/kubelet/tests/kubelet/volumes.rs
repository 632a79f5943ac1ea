//! Volumes that have a long way: verb by verb, in order, after failures and restarts too.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use node_api::volumes::Needs;
use serde_json::{Value, json};

use crate::setup::{IMAGE, Setup, is_ready, run};

fn pod() -> Value {
    json!({
        "containers": [{ "name": "c", "image": IMAGE }],
        "volumes": [{ "name": "data", "emptyDir": {} }],
    })
}

/// The verbs that the node was asked for, and the start and stop of containers.
fn calls(setup: &Setup) -> Vec<String> {
    let calls = setup.node.calls().into_iter();
    let calls = calls.filter_map(|it| it.split(' ').next().map(str::to_owned));
    calls
        .filter(|it| {
            it.starts_with("volumes.")
                || it.starts_with("containers.st")
                || it.starts_with("sandboxes.stop")
        })
        .collect()
}

async fn leave(setup: &Setup) {
    setup.delete("web", Some(1)).await;
    setup.until_gone("web").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
}

#[test]
fn a_volume_comes_and_goes_step_by_step() {
    run(async {
        let setup = Setup::start().await;
        setup.node.set_volume_needs(Needs { attach: true, stage: true });
        setup.create("web", pod()).await;
        setup.until_status("web", is_ready).await;
        leave(&setup).await;
        assert_eq!(
            calls(&setup),
            [
                "volumes.attach",
                "volumes.stage",
                "volumes.publish",
                "containers.start",
                "containers.stop",
                "sandboxes.stop",
                "volumes.unpublish",
                "volumes.unstage",
                "volumes.detach",
                "volumes.tear_down",
            ]
        );
    });
}

#[test]
fn a_pod_waits_for_its_volume_and_its_deletion_until_the_volume_is_gone() {
    run(async {
        let setup = Setup::start().await;
        setup.node.set_volume_needs(Needs { attach: false, stage: true });
        let refused = || node_api::Error::Refused("not now".to_owned());
        setup.node.fail("volumes.stage", 1, refused);
        setup.create("web", pod()).await;
        setup.until_status("web", is_ready).await;
        setup.node.fail("volumes.unstage", 1, refused);
        leave(&setup).await;
        assert_eq!(
            calls(&setup),
            [
                "volumes.stage",
                "volumes.stage",
                "volumes.publish",
                "containers.start",
                "containers.stop",
                "sandboxes.stop",
                "volumes.unpublish",
                "volumes.unstage",
                "volumes.unstage",
                "volumes.tear_down",
            ]
        );
        let events = setup.events("web").await;
        let expected = "FailedMount: MountVolume.SetUp failed for volume \"data\" : not now";
        assert!(events.iter().any(|it| it == expected), "{events:#?}");
    });
}

#[test]
fn what_is_in_a_volume_changes_in_place() {
    run(async {
        let setup = Setup::start().await;
        setup.node.set_volume_needs(Needs { attach: true, stage: true });
        let config_map = |color: &str| -> ConfigMap {
            let meta = json!({ "name": "settings", "namespace": "default" });
            serde_json::from_value(json!({ "metadata": meta, "data": { "color": color } })).unwrap()
        };
        let config_maps = setup.admin().api::<ConfigMap>();
        config_maps.create(config_map("red")).await.unwrap();
        let mut spec = pod();
        spec["volumes"] = json!([{ "name": "data", "configMap": { "name": "settings" } }]);
        setup.create("web", spec).await;
        setup.until_status("web", is_ready).await;
        setup.node.take_calls();
        config_maps.update(config_map("blue")).await.unwrap();
        setup.until("the change is there", async |_| !setup.node.calls().is_empty()).await;
        assert_eq!(calls(&setup), ["volumes.publish"]);
    });
}

#[test]
fn a_new_kubelet_takes_down_what_an_earlier_one_brought_up() {
    run(async {
        let mut setup = Setup::start().await;
        setup.node.set_volume_needs(Needs { attach: true, stage: true });
        setup.create("web", pod()).await;
        setup.until_status("web", is_ready).await;
        setup.stop_kubelet().await;
        setup.node.take_calls();
        setup.delete("web", Some(1)).await;
        setup.start_kubelet().await;
        setup.until_gone("web").await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let calls = calls(&setup);
        let down: Vec<&String> = calls.iter().filter(|it| it.starts_with("volumes.")).collect();
        assert_eq!(
            down,
            ["volumes.unpublish", "volumes.unstage", "volumes.detach", "volumes.tear_down"]
        );
    });
}
