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
        assert!(id.starts_with("fake://"), "{id}");
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

#[test]
fn init_containers_run_in_order_and_sidecars_stay() {
    run(async {
        let setup = Setup::start().await;
        let second = Duration::from_secs(1);
        setup.node.script("first", [Program::exits(second, 1), Program::exits(second, 0)]);
        setup.node.script("last", [Program::exits(second, 0)]);
        let init = |name: &str| json!({ "name": name, "image": IMAGE });
        let sidecar = json!({ "name": "sidecar", "image": IMAGE, "restartPolicy": "Always" });
        setup
            .create(
                "web",
                json!({
                    "initContainers": [init("first"), sidecar, init("last")],
                    "containers": [{ "name": "c", "image": IMAGE }],
                }),
            )
            .await;
        let status = setup.until_status("web", is_ready).await;
        let starts = starts(&setup);
        assert_eq!(starts, ["first", "first", "sidecar", "last", "c"]);
        assert_eq!(setup.node.running(), ["sidecar", "c"]);
        let init = &status["initContainerStatuses"];
        assert_eq!(init[0]["restartCount"], 1);
        assert_eq!(init[0]["ready"], true);
        assert_eq!(init[1]["started"], true);
        assert_eq!(init[2]["state"]["terminated"]["reason"], "Completed");
        setup.node.take_calls();
        setup.delete("web", None).await;
        setup.until_gone("web").await;
        assert_eq!(named(&setup, "containers.stop "), ["c", "sidecar"]);
    });
}

#[test]
fn a_pod_that_does_not_listen_is_killed_after_its_grace() {
    run(async {
        let setup = Setup::start().await;
        setup.node.script("c", [Program::forever().ignores_stop()]);
        setup.create("web", json!({ "containers": [{ "name": "c", "image": IMAGE }] })).await;
        setup.until_status("web", is_ready).await;
        let before = tokio::time::Instant::now();
        setup.delete("web", Some(7)).await;
        setup.until_gone("web").await;
        let took = before.elapsed().as_secs();
        assert!((7..=9).contains(&took), "{took} s");
        assert_eq!(
            setup.events("web").await.last().map(String::as_str),
            Some("Killing: Stopping container c")
        );
    });
}

#[test]
fn a_kubelet_that_starts_again_adopts_what_runs() {
    run(async {
        let mut setup = Setup::start().await;
        setup.node.script("c", [Program::exits(Duration::from_secs(1), 1), Program::forever()]);
        setup.create("web", json!({ "containers": [{ "name": "c", "image": IMAGE }] })).await;
        let restarted = |it: &serde_json::Value| {
            is_ready(it) && it["containerStatuses"][0]["restartCount"] == 1
        };
        let before = setup.until_status("web", restarted).await;
        setup.create("gone", json!({ "containers": [{ "name": "other", "image": IMAGE }] })).await;
        setup.until_status("gone", is_ready).await;
        setup.stop_kubelet().await;
        setup.delete("gone", Some(0)).await;
        setup.node.take_calls();
        setup.start_kubelet().await;
        setup.until("the orphan is gone", async |_| setup.node.running() == ["c"]).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(starts(&setup), [""; 0]);
        let after = json!(setup.get("web").await.unwrap().status);
        assert_eq!(before, after);
        assert_eq!(setup.node.attached().len(), 1);
    });
}

#[test]
fn a_sandbox_that_dies_is_made_again() {
    run(async {
        let setup = Setup::start().await;
        setup.create("web", json!({ "containers": [{ "name": "c", "image": IMAGE }] })).await;
        setup.until_status("web", is_ready).await;
        let sandbox = node_api::Sandboxes::list(&setup.node).pop().unwrap();
        setup.node.kill_sandbox(&sandbox.id);
        let status = setup
            .until_status("web", |it| {
                is_ready(it) && it["containerStatuses"][0]["restartCount"] == 1
            })
            .await;
        assert_eq!(status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 137);
        let events = setup.events("web").await;
        assert!(events.iter().any(|it| it.starts_with("SandboxChanged: ")), "{events:#?}");
        assert_eq!(setup.node.attached().len(), 1);
    });
}

#[test]
fn what_cannot_run_says_why() {
    run(async {
        let setup = Setup::start().await;
        let waits = |reason: &'static str| {
            move |it: &serde_json::Value| {
                it["containerStatuses"][0]["state"]["waiting"]["reason"] == reason
            }
        };
        let image = |image: &str| json!({ "containers": [{ "name": "c", "image": image }] });
        setup.create("absent", image("registry.test/absent:1")).await;
        setup.until_status("absent", waits("ErrImagePull")).await;
        let status = setup.until_status("absent", waits("ImagePullBackOff")).await;
        let message =
            status["containerStatuses"][0]["state"]["waiting"]["message"].as_str().unwrap();
        assert!(
            message
                .starts_with("Back-off pulling image \"registry.test/absent:1\": ErrImagePull: "),
            "{message}"
        );
        setup.node.serve_image("registry.test/absent:1", Default::default()).unwrap();
        setup.until_status("absent", is_ready).await;
        let never = json!({ "containers": [{ "name": "c", "image": "registry.test/b:1", "imagePullPolicy": "Never" }] });
        setup.create("never", never).await;
        setup.until_status("never", waits("ErrImageNeverPull")).await;
        let env = json!([{ "name": "A", "valueFrom": { "configMapKeyRef": { "name": "later", "key": "k" } } }]);
        let spec = json!({ "containers": [{ "name": "c", "image": IMAGE, "env": env }] });
        setup.create("config", spec).await;
        let status = setup.until_status("config", waits("CreateContainerConfigError")).await;
        let message = &status["containerStatuses"][0]["state"]["waiting"]["message"];
        assert_eq!(message, "configmap \"later\" not found");
        create_config_map(&setup, "later").await;
        setup.until_status("config", is_ready).await;
        setup
            .create(
                "big",
                json!({ "containers": [{ "name": "c", "image": IMAGE,
            "resources": { "requests": { "cpu": "64" } } }] }),
            )
            .await;
        let status = setup.until_status("big", phase("Failed")).await;
        assert_eq!(status["reason"], "OutOfcpu");
        assert_eq!(
            status["message"],
            "Pod was rejected: Node didn't have enough resource: cpu, requested: 64000, used: 0, capacity: 4000"
        );
    });
}

#[test]
fn volumes_wait_for_what_they_are_made_from_and_follow_it() {
    run(async {
        let setup = Setup::start().await;
        let pod = setup
            .create(
                "web",
                json!({
                    "automountServiceAccountToken": true,
                    "volumes": [{ "name": "v", "configMap": { "name": "settings" } }],
                    "containers": [{ "name": "c", "image": IMAGE,
                        "volumeMounts": [{ "name": "v", "mountPath": "/v" }] }],
                }),
            )
            .await;
        setup
            .until_status("web", |it| {
                it["containerStatuses"][0]["state"]["waiting"]["reason"] == "ContainerCreating"
            })
            .await;
        let events = setup.events("web").await;
        let expected = "FailedMount: MountVolume.SetUp failed for volume \"v\" : configmap \"settings\" not found";
        assert_eq!(events.first().map(String::as_str), Some(expected));
        create_config_map(&setup, "settings").await;
        setup.until_status("web", is_ready).await;
        let uid = node_api::PodUid::new(pod.metadata.uid.clone().unwrap());
        let content = |setup: &Setup| match setup.node.volume(&uid, "v") {
            Some(node_api::volumes::Volume::Files { files, .. }) => {
                String::from_utf8(files["k"].content.to_vec()).unwrap()
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(content(&setup), "value");
        let body = bytes::Bytes::from(r#"{"data":{"k":"changed"}}"#);
        setup
            .admin()
            .api::<k8s_openapi::api::core::v1::ConfigMap>()
            .patch("default", "settings", client::PatchKind::Merge, body)
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(content(&setup), "changed");
    });
}

#[test]
fn a_pod_that_is_too_old_is_ended() {
    run(async {
        let setup = Setup::start().await;
        setup.create("web", json!({ "activeDeadlineSeconds": 20, "containers": [{ "name": "c", "image": IMAGE }] })).await;
        setup.until_status("web", is_ready).await;
        let status = setup.until_status("web", phase("Failed")).await;
        assert_eq!(status["reason"], "DeadlineExceeded");
        setup.until("nothing runs", async |_| setup.node.running().is_empty()).await;
    });
}

#[test]
fn static_pods_follow_their_folder_and_show_in_the_api() {
    run(async {
        let setup = Setup::start().await;
        let file = setup.folder.path().join("manifests/web.yaml");
        let manifest = |policy: &str| {
            format!(
                "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\nspec:\n  restartPolicy: {policy}\n  containers:\n  - name: c\n    image: {IMAGE}\n"
            )
        };
        std::fs::write(&file, manifest("Always")).unwrap();
        let first = setup.until_status("web-n1", is_ready).await;
        let mirror = setup.get("web-n1").await.unwrap();
        assert_eq!(mirror.metadata.owner_references.as_ref().unwrap()[0].kind, "Node");
        // Deleting the mirror changes nothing on the node.
        setup.delete("web-n1", Some(0)).await;
        let again = setup.until_status("web-n1", is_ready).await;
        assert_eq!(
            first["containerStatuses"][0]["containerID"],
            again["containerStatuses"][0]["containerID"]
        );
        std::fs::write(&file, manifest("OnFailure")).unwrap();
        setup
            .until_status("web-n1", |it| {
                is_ready(it)
                    && it["containerStatuses"][0]["containerID"]
                        != again["containerStatuses"][0]["containerID"]
            })
            .await;
        std::fs::remove_file(&file).unwrap();
        setup.until_gone("web-n1").await;
        setup.until("nothing runs", async |_| setup.node.running().is_empty()).await;
    });
}

#[test]
fn the_node_registers_and_an_idle_kubelet_only_renews_its_lease() {
    run(async {
        let setup = Setup::start().await;
        setup.create("web", json!({ "containers": [{ "name": "c", "image": IMAGE }] })).await;
        setup.until_status("web", is_ready).await;
        let node =
            setup.admin().api::<k8s_openapi::api::core::v1::Node>().get("", "n1").await.unwrap();
        let node = json!(node);
        let conditions = node["status"]["conditions"].as_array().unwrap();
        let ready = conditions.iter().find(|it| it["type"] == "Ready").unwrap();
        assert_eq!(ready["message"], "kubelet is posting ready status");
        assert_eq!(node["spec"]["podCIDR"], "10.244.0.0/24");
        assert_eq!(node["status"]["capacity"]["memory"], "8Gi");
        assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], "n1");
        tokio::time::sleep(Duration::from_secs(120)).await;
        setup.node.take_calls();
        let before = setup.cluster.history().await.unwrap();
        tokio::time::sleep(Duration::from_secs(100)).await;
        let after = setup.cluster.history().await.unwrap();
        let writes = after.writes_since(&before);
        assert_eq!(writes.keys().collect::<Vec<_>>(), ["leases/kube-node-lease"], "{writes:?}");
        assert_eq!(setup.node.take_calls(), [""; 0]);
    });
}

async fn create_config_map(setup: &Setup, name: &str) {
    let object =
        json!({ "metadata": { "name": name, "namespace": "default" }, "data": { "k": "value" } });
    let object: k8s_openapi::api::core::v1::ConfigMap = serde_json::from_value(object).unwrap();
    setup.admin().api().create(object).await.unwrap();
}

fn starts(setup: &Setup) -> Vec<String> {
    named(setup, "containers.start ")
}

/// The containers' names in calls that start so.
fn named(setup: &Setup, call: &str) -> Vec<String> {
    let calls = setup.node.calls();
    // `containers.stop default/web c 30s`
    let labels = calls.iter().filter_map(|it| it.strip_prefix(call)?.split(' ').nth(1));
    labels.map(str::to_owned).collect()
}
