//! What pods are made from beside ConfigMaps and Secrets: handlers of the runtime, images as volumes,
//! files that other containers wrote, trust bundles.

use std::time::Duration;

use k8s_openapi::api::certificates::v1beta1::ClusterTrustBundle;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::node::v1::RuntimeClass;
use node_api::fake::Program;
use node_api::images::ImageConfig;
use node_api::volumes::Volume;
use node_api::{Containers, PodUid, Sandboxes};
use serde_json::{Value, json};

use crate::setup::{IMAGE, Setup, is_ready, run};

async fn class(setup: &Setup, name: &str, handler: &str) {
    let overhead = json!({ "podFixed": { "cpu": "250m", "memory": "64Mi" } });
    let class = json!({ "metadata": { "name": name }, "handler": handler, "overhead": overhead });
    let class: RuntimeClass = serde_json::from_value(class).unwrap();
    setup.admin().api::<RuntimeClass>().create(class).await.unwrap();
}

/// Whether an event with this reason ends so.
async fn is_told(setup: &Setup, pod: &str, reason: &str, end: &str) -> bool {
    let events = setup.events(pod).await;
    events.iter().any(|it| it.starts_with(reason) && it.ends_with(end))
}

#[test]
fn a_class_names_the_handler_of_the_sandbox_and_its_overhead() {
    run(async {
        let setup = Setup::start().await;
        class(&setup, "quick", "fake").await;
        let containers = json!([{ "name": "c", "image": IMAGE }]);
        setup.create("web", json!({ "containers": containers, "runtimeClassName": "quick" })).await;
        setup.until_status("web", is_ready).await;
        let sandbox = Sandboxes::list(&setup.node).pop().unwrap().config;
        assert_eq!(sandbox.runtime_handler, "fake");
        assert_eq!(sandbox.overhead.cpu_shares, Some(256));
        assert_eq!(sandbox.overhead.memory_limit, Some(64 << 20));
        let node = setup.admin().api::<Node>().get("", "n1").await.unwrap();
        let handlers = json!(node.status.as_ref().unwrap().runtime_handlers);
        let handler = |name: &str| {
            let features = json!({ "recursiveReadOnlyMounts": true, "userNamespaces": false });
            json!({ "name": name, "features": features })
        };
        assert_eq!(handlers, json!([handler(""), handler("fake")]));
    });
}

#[test]
fn a_handler_that_the_runtime_has_not_is_told_of_and_tried_again() {
    run(async {
        let setup = Setup::start().await;
        class(&setup, "slow", "kata").await;
        let containers = json!([{ "name": "c", "image": IMAGE }]);
        setup.create("web", json!({ "containers": containers, "runtimeClassName": "slow" })).await;
        setup
            .until("the event is there", async |_| {
                let end = "Failed to create pod sandbox: RuntimeHandler \"kata\" not supported";
                is_told(&setup, "web", "FailedCreatePodSandBox", end).await
            })
            .await;
        // The runtime is set up for it, and the pod goes on.
        setup.node.add_handler("kata");
        setup.until_status("web", is_ready).await;
    });
}

fn content_volume(policy: &str) -> Value {
    json!({
        "containers": [{ "name": "c", "image": IMAGE, "volumeMounts": [
            { "name": "content", "mountPath": "/content", "subPath": "docs" }] }],
        "volumes": [{ "name": "content", "image": {
            "reference": "shop.example/content:1", "pullPolicy": policy } }],
    })
}

#[test]
fn an_image_is_pulled_for_a_volume_and_mounted_by_the_runtime() {
    run(async {
        let setup = Setup::start().await;
        let offered = setup.node.serve_image("shop.example/content:1", ImageConfig::default());
        let image = offered.unwrap().id;
        setup.create("web", content_volume("IfNotPresent")).await;
        setup.until_status("web", is_ready).await;
        let container = Containers::list(&setup.node, None).pop().unwrap();
        let mount = container.config.mounts.into_iter().find(|it| it.image.is_some()).unwrap();
        let mounted = mount.image.unwrap();
        assert_eq!((mounted.image, mounted.sub_path.as_str()), (image.clone(), "docs"));
        assert!(mount.read_only && mount.container_path == "/content");
        assert!(is_told(&setup, "web", "Pulling", "\"shop.example/content:1\"").await);
        // As long as a container has it mounted, it stays.
        let removed = node_api::Images::remove(&setup.node, image.as_str()).await;
        assert!(removed.unwrap_err().to_string().contains("used by a container"));
    });
}

#[test]
fn a_volume_whose_image_cannot_be_had_keeps_its_containers_waiting() {
    run(async {
        let setup = Setup::start().await;
        let waiting = |status: &Value| {
            let waiting = &status["containerStatuses"][0]["state"]["waiting"];
            (waiting["reason"].clone(), waiting["message"].clone())
        };
        setup.create("never", content_volume("Never")).await;
        let message =
            "Container image \"shop.example/content:1\" is not present with pull policy of Never";
        let never = (json!("ErrImageNeverPull"), json!(message));
        setup.until_status("never", |it| waiting(it) == never).await;
        setup.create("web", content_volume("Always")).await;
        setup.until_status("web", |it| waiting(it).0 == "ErrImagePull").await;
        let status = setup.until_status("web", |it| waiting(it).0 == "ImagePullBackOff").await;
        let message = waiting(&status).1.as_str().unwrap().to_owned();
        assert!(message.starts_with("Back-off pulling image \"shop.example/content:1\": "));
        assert!(is_told(&setup, "web", "BackOff", "image \"shop.example/content:1\"").await);
        setup.node.serve_image("shop.example/content:1", ImageConfig::default()).unwrap();
        setup.until_status("web", is_ready).await;
    });
}

#[test]
fn a_container_starts_with_what_another_wrote_for_it() {
    run(async {
        let setup = Setup::start().await;
        let source = json!({ "volumeName": "env", "path": "app.env", "key": "COLOR" });
        let spec = json!({
            "initContainers": [{ "name": "writer", "image": IMAGE }],
            "containers": [{ "name": "c", "image": IMAGE,
                "env": [{ "name": "COLOR", "valueFrom": { "fileKeyRef": source } }] }],
            "volumes": [{ "name": "env", "emptyDir": {} }],
        });
        setup.node.script("writer", [Program::exits(Duration::from_secs(1), 0)]);
        let pod = setup.create("web", spec).await;
        let waits = |reason: &'static str, message: &'static str| {
            move |status: &Value| {
                let waiting = &status["containerStatuses"][0]["state"]["waiting"];
                waiting["reason"] == reason
                    && waiting["message"].as_str().unwrap_or_default().starts_with(message)
            }
        };
        let config = "CreateContainerConfigError";
        setup.until_status("web", waits(config, "couldn't parse env file")).await;
        let uid = PodUid::new(pod.metadata.uid.clone().unwrap());
        setup.node.write_file(&uid, "env", "app.env", "SIZE='7'\n");
        let missing = "environment variable key \"COLOR\" not found in file";
        setup.until_status("web", waits(config, missing)).await;
        setup.node.write_file(&uid, "env", "app.env", "SIZE='7'\nCOLOR='red' # it is\n");
        setup.until_status("web", is_ready).await;
        let started = Containers::list(&setup.node, None).pop().unwrap();
        let color = ("COLOR".to_owned(), "red".to_owned());
        assert!(started.config.env.contains(&color), "{:?}", started.config.env);
    });
}

#[test]
fn trust_bundles_are_followed_while_a_pod_has_them() {
    run(async {
        let setup = Setup::start().await;
        let bundles = setup.admin().api::<ClusterTrustBundle>();
        let authority = |name: &str| {
            let world = &setup.cluster.world;
            let made = authn::pki::Authority::create(name, world.clock.now(), &world.random);
            made.unwrap().certificate_pem().to_owned()
        };
        let bundle = |name: &str, pem: &str| -> ClusterTrustBundle {
            let spec = json!({ "trustBundle": pem });
            serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).unwrap()
        };
        let source = json!({ "name": "roots", "path": "ca.pem" });
        let spec = json!({
            "containers": [{ "name": "c", "image": IMAGE }],
            "volumes": [{ "name": "trust", "projected": { "sources": [
                { "clusterTrustBundle": source }] } }],
        });
        let pod = setup.create("web", spec).await;
        setup
            .until("the event is there", async |_| {
                let end = "clustertrustbundle.certificates.k8s.io \"roots\" not found";
                is_told(&setup, "web", "FailedMount", end).await
            })
            .await;
        let (one, two) = (authority("one"), authority("two"));
        let created = bundles.create(bundle("roots", &one)).await.unwrap().object().unwrap();
        setup.until_status("web", is_ready).await;
        let uid = PodUid::new(pod.metadata.uid.clone().unwrap());
        let shown = || match setup.node.volume(&uid, "trust") {
            Some(Volume::Files { files, .. }) => {
                String::from_utf8(files["ca.pem"].content.to_vec()).unwrap()
            }
            other => panic!("{other:?}"),
        };
        let n_certificates = |text: &str| text.matches("BEGIN CERTIFICATE").count();
        assert_eq!(n_certificates(&shown()), 1);
        let mut changed = ClusterTrustBundle::clone(&created);
        changed.spec.trust_bundle = format!("{one}{two}");
        bundles.update(changed).await.unwrap();
        setup.until("both are there", async |_| n_certificates(&shown()) == 2).await;
    });
}
