//! Objects that several have, and how they are read and written.

use api::Resource;
use client::{Client, ListOptions, PatchKind};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

/// Where StatefulSets, a DaemonSet, a CronJob and others are that no quota bounds.
pub(crate) const OPEN: &str = "kube-system";

pub(crate) fn template(app: &str, script: &str, restart: &str) -> Value {
    let told = json!({"simulator.xebec.local/containers": script});
    let annotations = if script.is_empty() { Value::Null } else { told };
    json!({
        "metadata": {"labels": {"app": app}, "annotations": annotations},
        "spec": {
            "restartPolicy": restart,
            "containers": [{"name": "main", "image": "xebec.local/toolbox"}],
        },
    })
}

pub(crate) async fn create<T: Resource>(admin: &Client, object: &Value) {
    let object = T::decode(object.to_string().as_bytes()).unwrap();
    admin.api::<T>().create(object).await.unwrap();
}

/// Of an object in [`OPEN`].
pub(crate) async fn patch<T: Resource>(admin: &Client, name: &str, patch: Value) {
    let body = patch.to_string().into();
    admin.api::<T>().patch(OPEN, name, PatchKind::Merge, body).await.unwrap();
}

pub(crate) async fn deploy(
    admin: &Client,
    namespace: &str,
    app: &str,
    replicas: i32,
    template: Value,
) {
    let deployment = json!({
        "metadata": {"name": app, "namespace": namespace},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": app}}, "template": template,
        },
    });
    create::<Deployment>(admin, &deployment).await;
}

/// Why a Deployment has not so many available pods and no others.
pub(crate) async fn unless_available(
    admin: &Client,
    namespace: &str,
    name: &str,
    replicas: i32,
) -> Option<String> {
    let deployment = admin.api::<Deployment>().get(namespace, name).await.unwrap();
    let status = deployment.status.clone().unwrap_or_default();
    let counts = (status.available_replicas, status.replicas);
    (counts != (Some(replicas), Some(replicas))).then(|| format!("{name}: {}", json!(status)))
}

pub(crate) async fn list<T: Resource>(admin: &Client, namespace: &str) -> Vec<T> {
    let list = admin.api::<T>().list(namespace, ListOptions::default()).await.unwrap();
    list.items.iter().map(|it| T::clone(&it.shared().unwrap())).collect()
}

pub(crate) fn is_healthy(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|it| it.conditions.iter().flatten());
    let is_ready = conditions.into_iter().any(|it| it.type_ == "Ready" && it.status == "True");
    is_ready && pod.metadata.deletion_timestamp.is_none()
}
