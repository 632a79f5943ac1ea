//! A namespace with a quota, of which a Deployment, Jobs and ConfigMaps all want more.

use std::time::Duration;

use client::{Client, DeleteOptions, ListOptions, PatchKind};
use futures_util::future::join_all;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, ResourceQuota};
use serde_json::{Value, json};
use testkit::{Cluster, History};

use crate::objects::{create, deploy, list, template, unless_available};

const BOUNDED: &str = "kube-public";
const PODS_MAX: usize = 9;
/// With the one that every namespace has.
const MAPS_MAX: usize = 6;
const JOBS: usize = 3;
/// Of the Deployment: too much for the quota; and at last.
const WANTED: i32 = 14;
const MODEST: i32 = 6;

pub(crate) async fn make(cluster: &Cluster, script: &str) {
    let admin = &cluster.admin;
    let quota = json!({
        "metadata": {"name": "q", "namespace": BOUNDED},
        "spec": {"hard": {"pods": PODS_MAX.to_string(), "configmaps": MAPS_MAX.to_string()}},
    });
    create::<ResourceQuota>(admin, &quota).await;
    let is_counted =
        async |admin: &Client| used(admin).await == json!({"configmaps": "1", "pods": "0"});
    assert!(cluster.until(Duration::from_secs(60), is_counted).await, "{}", used(admin).await);
    deploy(admin, BOUNDED, "many", WANTED, template("many", script, "Always")).await;
    for index in 0..JOBS {
        let job = json!({
            "metadata": {"name": format!("job-{index}"), "namespace": BOUNDED},
            "spec": {
                "completions": 6, "parallelism": 3, "backoffLimit": 100_000,
                "completionMode": if index < 2 { "Indexed" } else { "NonIndexed" },
                "template": template("job", "after=15 fails=20", "Never"),
            },
        });
        create::<Job>(admin, &job).await;
    }
}

async fn used(admin: &Client) -> Value {
    let quota = admin.api::<ResourceQuota>().get(BOUNDED, "q").await.unwrap();
    json!(quota.status.as_ref().and_then(|it| it.used.clone()))
}

/// More ConfigMaps than there may be, all at once; and some of them go again.
pub(crate) async fn change(cluster: &Cluster, round: usize) {
    let api = cluster.admin.api::<ConfigMap>();
    let names: Vec<String> = (0..2 * MAPS_MAX).map(|it| format!("map-{round}-{it}")).collect();
    let maps = names.iter().map(|name| {
        let metadata = json!({"name": name, "namespace": BOUNDED});
        api.create(serde_json::from_value(json!({"metadata": metadata})).unwrap())
    });
    join_all(maps).await;
    let list = api.list(BOUNDED, ListOptions::default()).await.unwrap();
    for map in &list.items {
        let name = &map.meta.key.name;
        if name.starts_with("map-") && cluster.world.random.below(2) == 0 {
            api.delete(BOUNDED, name, DeleteOptions::default()).await.unwrap();
        }
    }
}

pub(crate) async fn calm(admin: &Client) {
    let body = json!({"spec": {"replicas": MODEST}}).to_string().into();
    let deployments = admin.api::<Deployment>();
    deployments.patch(BOUNDED, "many", PatchKind::Merge, body).await.unwrap();
}

pub(crate) async fn missing(admin: &Client) -> Vec<String> {
    let lacking = unless_available(admin, BOUNDED, "many", MODEST).await;
    let mut missing: Vec<String> = lacking.into_iter().collect();
    for job in list::<Job>(admin, BOUNDED).await {
        let status = job.status.unwrap_or_default();
        if !api::batch::job::conditions::is_finished(&status) {
            missing.push(format!("{:?}: {}", job.metadata.name, json!(status)));
        }
    }
    let maps = list::<ConfigMap>(admin, BOUNDED).await.len();
    let expected = json!({"configmaps": maps.to_string(), "pods": MODEST.to_string()});
    let used = used(admin).await;
    if used != expected {
        missing.push(format!("the quota says {used} in place of {expected}"));
    }
    missing
}

pub(crate) async fn violations(admin: &Client, history: &History) -> Vec<String> {
    let mut found = testkit::miscounted_jobs(admin, history, BOUNDED).await.unwrap();
    found.extend(testkit::pods_beyond(history, BOUNDED, PODS_MAX).unwrap());
    found.extend(testkit::objects_beyond(history, &format!("/configmaps/{BOUNDED}/"), MAPS_MAX));
    found
}
