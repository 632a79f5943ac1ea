//! The life of pods: start, restart, end.

use std::time::Duration;

use node_api::fake::Program;
use serde_json::json;

use crate::setup::{IMAGE, Setup, is_ready, phase, run};

#[test]
fn a_pod_of_one_container_runs_and_is_removed() {
    run(async {
        let setup = Setup::start().await;
        setup.create("web", json!({ "containers": [{ "name": "c", "image": IMAGE }] })).await;
        let status = setup.until_status("web", is_ready).await;
        assert_eq!(status["phase"], "Running");
        assert_eq!(status["hostIP"], "192.0.2.1");
        assert!(status["podIP"].is_string(), "{status:#}");
        assert_eq!(status["containerStatuses"][0]["restartCount"], 0);
        assert!(status["containerStatuses"][0]["state"]["running"].is_object());
        let id = status["containerStatuses"][0]["containerID"].as_str().unwrap().to_owned();
        assert!(id.starts_with("xebec://"), "{id}");
        assert_eq!(setup.node.running(), ["c"]);
        assert_eq!(
            setup.events("web").await,
            [
                "Pulled: Container image \"xebec.local/toolbox:1\" already present on machine and can be accessed by the pod",
                "Created: Container created",
                "Started: Container started",
            ]
        );
        setup.delete("web", None).await;
        setup.until_gone("web").await;
        assert!(setup.node.running().is_empty());
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(setup.node.attached().is_empty());
        let cgroups: Vec<String> = setup.node.cgroups().into_keys().collect();
        assert_eq!(cgroups, ["kubepods", "kubepods/besteffort", "kubepods/burstable"]);
    });
}

#[test]
fn a_container_that_keeps_failing_waits_ever_longer() {
    run(async {
        let setup = Setup::start().await;
        setup.node.script("c", [Program::exits(Duration::from_secs(1), 3)]);
        setup.create("web", json!({ "containers": [{ "name": "c", "image": IMAGE }] })).await;
        let status = setup
            .until_status("web", |it| {
                it["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
            })
            .await;
        let container = &status["containerStatuses"][0];
        assert_eq!(container["lastState"]["terminated"]["exitCode"], 3);
        assert_eq!(container["restartCount"], 1);
        assert_eq!(status["phase"], "Running");
        let message = container["state"]["waiting"]["message"].as_str().unwrap();
        assert!(message.starts_with("back-off 10s restarting failed container=c pod=web_default("));
        setup.until_status("web", |it| it["containerStatuses"][0]["restartCount"] == 4).await;
    });
}

#[test]
fn a_pod_that_shall_not_restart_ends_with_its_containers() {
    run(async {
        let setup = Setup::start().await;
        let spec =
            || json!({ "restartPolicy": "Never", "containers": [{ "name": "c", "image": IMAGE }] });
        setup.node.script("c", [Program::exits(Duration::from_secs(1), 0)]);
        setup.create("good", spec()).await;
        let status = setup.until_status("good", phase("Succeeded")).await;
        assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["reason"], "Completed");
        setup.node.script("c", [Program::exits(Duration::from_secs(1), 2)]);
        setup.create("bad", spec()).await;
        let status = setup.until_status("bad", phase("Failed")).await;
        assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["reason"], "Error");
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(setup.node.attached().is_empty());
        setup.delete("good", None).await;
        setup.until_gone("good").await;
    });
}
