//! Namespaces that come with something of everything and go again, whatever is under way in them.

use client::{Client, DeleteOptions};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, PersistentVolumeClaim, Service};
use serde_json::json;
use stdx::Random;
use testkit::History;

use crate::objects::{create, deploy, template};

const TENANTS: [&str; 2] = ["tenant-a", "tenant-b"];

async fn is_there(admin: &Client, name: &str) -> bool {
    match admin.api::<Namespace>().get("", name).await {
        Ok(_) => true,
        Err(err) if err.is_not_found() => false,
        Err(err) => panic!("{err}"),
    }
}

async fn move_in(admin: &Client, name: &str) {
    create::<Namespace>(admin, &json!({"metadata": {"name": name}})).await;
    let own = |object: &str| json!({"name": object, "namespace": name});
    create::<ConfigMap>(admin, &json!({"metadata": own("settings")})).await;
    let spec =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    create::<PersistentVolumeClaim>(admin, &json!({"metadata": own("data"), "spec": spec})).await;
    let spec = json!({"selector": {"app": "web"}, "ports": [{"port": 80}]});
    create::<Service>(admin, &json!({"metadata": own("web"), "spec": spec})).await;
    deploy(admin, name, "web", 2, template("web", "", "Always")).await;
    let spec = json!({
        "replicas": 1, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
        "template": template("db", "", "Always"),
    });
    create::<StatefulSet>(admin, &json!({"metadata": own("db"), "spec": spec})).await;
    let spec = json!({"completions": 2, "template": template("work", "after=15", "Never")});
    create::<Job>(admin, &json!({"metadata": own("work"), "spec": spec})).await;
}

async fn move_out(admin: &Client, name: &str) {
    admin.api::<Namespace>().delete("", name, DeleteOptions::default()).await.unwrap();
}

/// One who is there goes, if he is not on his way; one who is not comes.
pub(crate) async fn change(admin: &Client, random: &Random) {
    let name = TENANTS[random.below(2) as usize];
    match is_there(admin, name).await {
        true => move_out(admin, name).await,
        false => move_in(admin, name).await,
    }
}

pub(crate) async fn calm(admin: &Client) {
    for name in TENANTS {
        if is_there(admin, name).await {
            move_out(admin, name).await;
        }
    }
}

pub(crate) async fn missing(admin: &Client) -> Vec<String> {
    let mut left = Vec::new();
    for name in TENANTS {
        if is_there(admin, name).await {
            let namespace = admin.api::<Namespace>().get("", name).await.unwrap();
            left.push(format!("{name}: {}", json!(namespace.status)));
        }
    }
    left
}

pub(crate) fn violations(history: &History) -> Vec<String> {
    TENANTS.iter().flat_map(|it| testkit::remains(history, it)).collect()
}
