//! Volumes, claims, limits and the state of components: what the server adds to the rules of the
//! kinds.

use std::sync::Arc;

use api::Dynamic;
use apimachinery::GroupVersionResource;
use apiserver::Config;
use client::ListOptions;
use features::RuntimeConfig;
use serde_json::{Value, json};
use stdx::World;

use super::subresources::{connect, create};
use crate::harness;
use crate::harness::wire::Connection;

const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const RANGES: &str = "/api/v1/namespaces/default/limitranges";
const PODS: &str = "/api/v1/namespaces/default/pods";
const COMPONENTS: &str = "/api/v1/componentstatuses";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

fn claim(name: &str, size: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}},
    })
}

#[tokio::test]
async fn a_volume_says_since_when_it_has_been_in_its_phase() {
    let (_site, mut admin) = connect().await;
    let volume = json!({
        "metadata": {"name": "disk"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/data"},
        },
    });
    let created = create(&mut admin, VOLUMES, &volume).await;
    assert_eq!(created["status"]["phase"], "Pending");
    let first = created["status"]["lastPhaseTransitionTime"].clone();
    assert_eq!(first, created["metadata"]["creationTimestamp"]);
    let path = format!("{VOLUMES}/disk/status");
    let old = "2020-01-01T00:00:00Z";
    let own = json!({"status": {"phase": "Available", "lastPhaseTransitionTime": old}});
    let (code, written) = admin.call("PATCH", &path, &own).await;
    assert_eq!((code, &written["status"]["lastPhaseTransitionTime"]), (200, &json!(old)));
    // The client says what it read, and the phase is another: the time is now.
    let (_, written) = admin.call("PATCH", &path, &json!({"status": {"phase": "Bound"}})).await;
    let now = &written["status"]["lastPhaseTransitionTime"];
    assert!(now.is_string() && *now != json!(old), "{written}");
}

#[tokio::test]
async fn a_limit_range_without_a_name_gets_one() {
    let (_site, mut admin) = connect().await;
    let range = json!({"spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}});
    let created = create(&mut admin, RANGES, &range).await;
    let name = created["metadata"]["name"].as_str().unwrap_or_default();
    assert_eq!(name.split('-').count(), 5, "{name}");
    assert_eq!(admin.call("GET", &format!("{RANGES}/{name}"), &Value::Null).await.0, 200);
}

#[tokio::test]
async fn limits_hold_for_pods_and_claims_that_come_later() {
    let (_site, mut admin) = connect().await;
    let range = json!({"metadata": {"name": "small"}, "spec": {"limits": [
        {"type": "Container", "default": {"cpu": "500m"}, "max": {"cpu": "1"}},
        {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}},
    ]}});
    create(&mut admin, RANGES, &range).await;
    let pod = |name: &str, resources: Value| {
        json!({"metadata": {"name": name}, "spec": {
            "containers": [{"name": "a", "image": "i", "resources": resources}],
        }})
    };
    let created = create(&mut admin, PODS, &pod("given", json!({}))).await;
    let resources = &created["spec"]["containers"][0]["resources"];
    assert_eq!(*resources, json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "500m"}}));
    assert_eq!(created["status"]["qosClass"], "Burstable");
    let (code, refused) =
        admin.call("POST", PODS, &pod("large", json!({"limits": {"cpu": "2"}}))).await;
    assert_eq!(
        (code, &refused["message"]),
        (
            403,
            &json!(
                "pods \"large\" is forbidden: maximum cpu usage per Container is 1, but limit is 2"
            )
        )
    );
    assert_eq!(admin.call("POST", CLAIMS, &claim("large", "2Gi")).await.0, 403);
    create(&mut admin, CLAIMS, &claim("small", "1Gi")).await;
}

#[tokio::test]
async fn a_claim_gets_the_default_class_and_grows_if_that_allows_it() {
    let (_site, mut admin) = connect().await;
    for (name, grows) in [("fixed", false), ("grows", true)] {
        let annotations = json!({"storageclass.kubernetes.io/is-default-class": grows.to_string()});
        let class = json!({
            "metadata": {"name": name, "annotations": annotations},
            "provisioner": "disk.example.com", "allowVolumeExpansion": grows,
        });
        create(&mut admin, CLASSES, &class).await;
    }
    let created = create(&mut admin, CLAIMS, &claim("data", "1Gi")).await;
    assert_eq!(created["spec"]["storageClassName"], "grows");
    let mut fixed = claim("fixed", "1Gi");
    fixed["spec"]["storageClassName"] = json!("fixed");
    create(&mut admin, CLAIMS, &fixed).await;
    let larger = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    let (code, _) = admin.call("PATCH", &format!("{CLAIMS}/data"), &larger).await;
    assert_eq!(code, 422, "it is not bound yet");
    for (name, expected) in [("data", 200), ("fixed", 403)] {
        let path = format!("{CLAIMS}/{name}");
        let bound = json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}});
        assert_eq!(admin.call("PATCH", &format!("{path}/status"), &bound).await.0, 200);
        assert_eq!(admin.call("PATCH", &path, &larger).await.0, expected, "{name}");
    }
}

async fn components(admin: &mut Connection) -> Vec<String> {
    let (code, list) = admin.call("GET", COMPONENTS, &Value::Null).await;
    assert_eq!((code, &list["kind"]), (200, &json!("ComponentStatusList")), "{list}");
    assert_eq!(list["metadata"], json!({}));
    let items = list["items"].as_array().expect("items");
    let shown = items.iter().map(|it| {
        let condition = &it["conditions"][0];
        assert_eq!(condition["type"], "Healthy");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        [&it["metadata"]["name"], &condition["status"], &condition["message"]].map(text).join(" ")
    });
    shown.collect()
}

#[tokio::test]
async fn components_are_as_their_leases_say() {
    let (site, mut admin) = connect().await;
    assert_eq!(
        components(&mut admin).await,
        [
            "controller-manager False nobody holds the Lease kube-system/kube-controller-manager",
            "etcd-0 True ok",
            "scheduler False nobody holds the Lease kube-system/kube-scheduler",
        ]
    );
    let namespace = json!({"metadata": {"name": "kube-system"}});
    let _ = admin.call("POST", "/api/v1/namespaces", &namespace).await;
    let renewed = site.harness.world.clock.now();
    let lease = |name: &str, renewed: String| {
        let spec =
            json!({"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": renewed});
        json!({"metadata": {"name": name}, "spec": spec})
    };
    let now = format!("{renewed:.6}");
    create(&mut admin, LEASES, &lease("kube-scheduler", now)).await;
    let old = "2020-01-01T00:00:00.000000Z".to_owned();
    create(&mut admin, LEASES, &lease("kube-controller-manager", old)).await;
    assert_eq!(
        components(&mut admin).await,
        [
            "controller-manager False the Lease kube-system/kube-controller-manager was last renewed at 2020-01-01T00:00:00Z",
            "etcd-0 True ok",
            "scheduler True ok",
        ]
    );
}

#[tokio::test]
async fn components_are_read_and_never_written() {
    let (_site, mut admin) = connect().await;
    let (head, body) = admin.send("GET", &format!("{COMPONENTS}/etcd-0"), &[], &Value::Null).await;
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!((head.status.as_u16(), &body["kind"]), (200, &json!("ComponentStatus")));
    assert_eq!(head.headers["warning"], "299 - \"v1 ComponentStatus is deprecated in v1.19+\"");
    let (code, body) = admin.call("GET", &format!("{COMPONENTS}/other"), &Value::Null).await;
    assert_eq!((code, &body["message"]), (404, &json!("componentstatus \"other\" not found")));
    let selected = format!("{COMPONENTS}?fieldSelector=metadata.name%3Detcd-0");
    let (_, list) = admin.call("GET", &selected, &Value::Null).await;
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
    let (_, list) = admin.call("GET", &format!("{COMPONENTS}?labelSelector=a"), &Value::Null).await;
    assert_eq!(list["items"], json!([]));
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let (_, table) = admin.get(COMPONENTS, table).await;
    assert_eq!(table["rows"][1]["cells"], json!(["etcd-0", "Healthy", "ok", ""]));
    let (code, _) = admin.call("POST", COMPONENTS, &json!({"metadata": {"name": "a"}})).await;
    assert_eq!(code, 405);
    let (code, _) = admin.call("DELETE", &format!("{COMPONENTS}/etcd-0"), &Value::Null).await;
    assert_eq!(code, 405);
}

#[tokio::test(start_paused = true)]
async fn a_beta_version_is_served_to_those_who_ask_for_it() {
    let beta = GroupVersionResource::new("storage.k8s.io", "v1beta1", "volumeattributesclasses");
    let stable = GroupVersionResource::new("storage.k8s.io", "v1", "volumeattributesclasses");
    for (flag, is_served) in [("", false), ("storage.k8s.io/v1beta1=true", true)] {
        let runtime_config = RuntimeConfig::parse(flag).expect("a flag");
        let config = Config { runtime_config, ..Config::default() };
        let store = Arc::new(kvstore::memory::Memory::new());
        let server = harness::try_start_over(World::simulated(1), store, config).await;
        let server = server.expect("the server starts");
        let list = server.client.dynamic(beta.clone()).list("", ListOptions::default()).await;
        assert_eq!(list.is_ok(), is_served, "{flag}");
        if !is_served {
            continue;
        }
        let class = json!({
            "apiVersion": "storage.k8s.io/v1beta1", "kind": "VolumeAttributesClass",
            "metadata": {"name": "gold"}, "driverName": "d", "parameters": {"iops": "1"},
        });
        let class = Dynamic::from_value(class).expect("an object");
        server.client.dynamic(beta.clone()).create(class).await.expect("created");
        let read = server.client.dynamic(stable.clone()).get("", "gold").await.expect("found");
        let read: Value = serde_json::from_slice(&read.bytes).expect("JSON");
        assert_eq!(
            (&read["apiVersion"], &read["driverName"]),
            (&json!("storage.k8s.io/v1"), &json!("d"))
        );
    }
}
