//! Claims, volumes and classes of their attributes are not deleted under those who use them: with
//! admission and all controllers, under paused time.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use api::Resource;
use client::{Client, DeleteOptions, ListOptions, PatchKind};
use k8s_openapi::api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use serde_json::{Value, json};
use testkit::{Cluster, Options};

const MINUTE: Duration = Duration::from_secs(60);

fn run<T>(simulation: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(simulation)
}

async fn start() -> Cluster {
    Cluster::start(Options { seed: 11, nodes: 1 }).await.unwrap()
}

async fn create<T: Resource>(admin: &Client, object: Value) {
    let object = T::decode(object.to_string().as_bytes()).unwrap();
    admin.api::<T>().create(object).await.unwrap();
}

async fn delete<T: Resource>(admin: &Client, namespace: &str, name: &str) {
    admin.api::<T>().delete(namespace, name, DeleteOptions::default()).await.unwrap();
}

async fn finalizers<T: Resource>(admin: &Client, namespace: &str, name: &str) -> Vec<String> {
    let object = admin.api::<T>().get(namespace, name).await.unwrap();
    object.metadata().finalizers.clone().unwrap_or_default()
}

async fn is_there<T: Resource>(admin: &Client, namespace: &str, name: &str) -> bool {
    match admin.api::<T>().get(namespace, name).await {
        Ok(_) => true,
        Err(err) if err.is_not_found() => false,
        Err(err) => panic!("{err}"),
    }
}

async fn goes<T: Resource>(cluster: &Cluster, namespace: &str, name: &str) {
    let is_gone = async |admin: &Client| !is_there::<T>(admin, namespace, name).await;
    assert!(cluster.until(MINUTE, is_gone).await, "{} {name} is still there", T::FACTS.kind);
}

/// It is on its way, and stays so for as long as one cares to wait.
async fn stays<T: Resource>(cluster: &Cluster, namespace: &str, name: &str) {
    tokio::time::sleep(10 * MINUTE).await;
    let object = cluster.admin.api::<T>().get(namespace, name).await.unwrap();
    assert!(object.metadata().deletion_timestamp.is_some(), "nobody deletes {name}");
}

/// What is told of objects of a kind.
async fn told(admin: &Client, kind: &str) -> Vec<String> {
    let events = admin.api::<Event>().list("", ListOptions::default()).await.unwrap();
    let events = events.items.iter().map(|it| it.shared::<Event>().unwrap());
    let about = events.filter(|it| it.involved_object.kind.as_deref() == Some(kind));
    let text = |it: &Option<String>| it.clone().unwrap_or_default();
    let of_use = about.filter(|it| it.reason.as_deref() == Some("InUse"));
    of_use.map(|it| format!("{}: {}", text(&it.involved_object.name), text(&it.message))).collect()
}

fn claim(name: &str, class: Option<&str>) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
            "volumeAttributesClassName": class,
        },
    })
}

/// Without a node it waits for ever: nothing binds claims here.
fn pod(name: &str, node: Option<&str>, claim: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "nodeName": node, "containers": [{"name": "main", "image": "xebec.local/toolbox"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
        },
    })
}

#[test]
fn a_claim_goes_when_no_pod_with_a_node_has_it() {
    run(async {
        let cluster = start().await;
        let admin = &cluster.admin;
        for name in ["used", "wanted"] {
            create::<PersistentVolumeClaim>(admin, claim(name, None)).await;
            let held = finalizers::<PersistentVolumeClaim>(admin, "default", name).await;
            assert_eq!(held, ["kubernetes.io/pvc-protection"]);
        }
        create::<Pod>(admin, pod("runs", Some("sim-0"), "used")).await;
        create::<Pod>(admin, pod("waits", None, "wanted")).await;
        for name in ["used", "wanted"] {
            delete::<PersistentVolumeClaim>(admin, "default", name).await;
        }
        goes::<PersistentVolumeClaim>(&cluster, "default", "wanted").await;
        stays::<PersistentVolumeClaim>(&cluster, "default", "used").await;
        let why = "used: it is deleted when nothing uses it any more; pods: runs";
        assert_eq!(told(admin, "PersistentVolumeClaim").await, [why]);
        delete::<Pod>(admin, "default", "runs").await;
        goes::<PersistentVolumeClaim>(&cluster, "default", "used").await;
        cluster.stop().await.unwrap();
    });
}

#[test]
fn a_claim_that_was_made_before_anybody_protected_it_is_protected() {
    run(async {
        let cluster = start().await;
        let admin = &cluster.admin;
        create::<PersistentVolumeClaim>(admin, claim("old", None)).await;
        let body = json!({"metadata": {"finalizers": null}}).to_string().into();
        let claims = admin.api::<PersistentVolumeClaim>();
        claims.patch("default", "old", PatchKind::Merge, body).await.unwrap();
        let is_held = async |admin: &Client| {
            !finalizers::<PersistentVolumeClaim>(admin, "default", "old").await.is_empty()
        };
        assert!(cluster.until(MINUTE, is_held).await);
        cluster.stop().await.unwrap();
    });
}

async fn set_phase(admin: &Client, phase: &str) {
    let body = json!({"status": {"phase": phase}}).to_string().into();
    let volumes = admin.api::<PersistentVolume>();
    volumes.patch_status("", "disk", PatchKind::Merge, body).await.unwrap();
}

#[test]
fn a_volume_goes_when_it_is_not_bound_any_more() {
    run(async {
        let cluster = start().await;
        let admin = &cluster.admin;
        let volume = json!({
            "metadata": {"name": "disk"},
            "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "csi": {"driver": "example.com", "volumeHandle": "1"},
                "claimRef": {"namespace": "default", "name": "data"},
            },
        });
        create::<PersistentVolume>(admin, volume).await;
        let held = finalizers::<PersistentVolume>(admin, "", "disk").await;
        assert_eq!(held, ["kubernetes.io/pv-protection"]);
        set_phase(admin, "Bound").await;
        delete::<PersistentVolume>(admin, "", "disk").await;
        stays::<PersistentVolume>(&cluster, "", "disk").await;
        let why = "disk: it is deleted when nothing uses it any more; claims: default/data";
        assert_eq!(told(admin, "PersistentVolume").await, [why]);
        set_phase(admin, "Released").await;
        goes::<PersistentVolume>(&cluster, "", "disk").await;
        cluster.stop().await.unwrap();
    });
}

#[test]
fn a_class_of_attributes_goes_when_nothing_names_it() {
    run(async {
        let cluster = start().await;
        let admin = &cluster.admin;
        let class = json!({
            "metadata": {"name": "gold"}, "driverName": "example.com", "parameters": {"iops": "9"},
        });
        create::<VolumeAttributesClass>(admin, class).await;
        let held = finalizers::<VolumeAttributesClass>(admin, "", "gold").await;
        assert_eq!(held, ["kubernetes.io/vac-protection"]);
        create::<PersistentVolumeClaim>(admin, claim("data", Some("gold"))).await;
        // Until the cache has the claim: this controller looks nowhere else, as upstream's.
        tokio::time::sleep(MINUTE).await;
        delete::<VolumeAttributesClass>(admin, "", "gold").await;
        stays::<VolumeAttributesClass>(&cluster, "", "gold").await;
        let who = "claims and volumes: default/data";
        let why = format!("gold: it is deleted when nothing uses it any more; {who}");
        assert_eq!(told(admin, "VolumeAttributesClass").await, [why]);
        delete::<PersistentVolumeClaim>(admin, "default", "data").await;
        goes::<VolumeAttributesClass>(&cluster, "", "gold").await;
        cluster.stop().await.unwrap();
    });
}
