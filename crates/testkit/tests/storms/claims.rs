//! A StatefulSet with claims, which grows and shrinks, and goes at last or does not; what becomes of
//! the claims is for its policy to say. Its pods are never scheduled: nobody binds claims here.

use client::{Client, DeleteOptions};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use serde_json::{Value, json};
use stdx::Random;
use testkit::History;

use crate::objects::{OPEN, create, list, patch, template};

const SIZE_MAX: u64 = 5;
const SIZE: usize = 3;
const CLAIMS: &str = "/persistentvolumeclaims/kube-system/data-store-";

pub(crate) async fn make(admin: &Client, random: &Random) {
    let policy = || if random.below(2) == 0 { "Delete" } else { "Retain" };
    let retention = json!({"whenScaled": policy(), "whenDeleted": policy()});
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let store = json!({
        "metadata": {"name": "store", "namespace": OPEN},
        "spec": {
            "replicas": SIZE, "serviceName": "store", "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": "store"}}, "template": template("store", "", "Always"),
            "persistentVolumeClaimRetentionPolicy": retention, "volumeClaimTemplates": [claim],
        },
    });
    create::<StatefulSet>(admin, &store).await;
}

async fn resize(admin: &Client, size: u64) {
    patch::<StatefulSet>(admin, "store", json!({"spec": {"replicas": size}})).await;
}

pub(crate) async fn change(admin: &Client, random: &Random) {
    resize(admin, random.below(SIZE_MAX + 1)).await;
}

pub(crate) async fn calm(admin: &Client, random: &Random) {
    resize(admin, SIZE as u64).await;
    if random.below(2) == 0 {
        let options = DeleteOptions::default();
        admin.api::<StatefulSet>().delete(OPEN, "store", options).await.unwrap();
    }
}

/// The set, if it is there.
async fn set(admin: &Client) -> Option<Value> {
    match admin.api::<StatefulSet>().get(OPEN, "store").await {
        Ok(set) => Some(json!(*set)),
        Err(err) if err.is_not_found() => None,
        Err(err) => panic!("{err}"),
    }
}

pub(crate) async fn missing(admin: &Client) -> Vec<String> {
    let wanted = set(admin).await.map_or(0, |_| SIZE);
    let label = |it: &Pod| it.metadata.labels.as_ref().and_then(|it| it.get("app").cloned());
    let pods = list::<Pod>(admin, OPEN).await;
    let n_pods = pods.iter().filter(|it| label(it).as_deref() == Some("store")).count();
    (n_pods != wanted).then(|| format!("store has {n_pods} pods of {wanted}")).into_iter().collect()
}

/// What is there of claims of a set that lives is said elsewhere.
pub(crate) async fn violations(admin: &Client, history: &History) -> Vec<String> {
    let policies = policies(history);
    let mut found = Vec::new();
    if policies == ("Retain".to_owned(), "Retain".to_owned()) {
        found.extend(testkit::deletions(history, CLAIMS));
    }
    let left = list::<PersistentVolumeClaim>(admin, OPEN).await.len();
    if set(admin).await.is_none() {
        let is_right = match policies.1.as_str() {
            "Delete" => left == 0,
            _ if policies.0 == "Delete" => left <= SIZE,
            _ => true,
        };
        if !is_right {
            found.push(format!("{left} claims are left of a set with {policies:?}"));
        }
    }
    found
}

/// When scaled and when deleted, as the set said first.
fn policies(history: &History) -> (String, String) {
    let mut states = history.values("/statefulsets/kube-system/store");
    let set: Value = serde_json::from_slice(states.next().unwrap()).unwrap();
    let policy = &set["spec"]["persistentVolumeClaimRetentionPolicy"];
    let text = |name: &str| policy[name].as_str().unwrap().to_owned();
    (text("whenScaled"), text("whenDeleted"))
}
