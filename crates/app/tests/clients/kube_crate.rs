//! The `kube` crate: typed and dynamic calls, a watcher, server-side apply.

use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt as _, watcher};
use serde_json::json;

use crate::cluster::Cluster;

pub(crate) async fn connect(cluster: &Cluster) -> kube::Client {
    let kubeconfig = Kubeconfig::read_from(cluster.path("data/kubeconfig")).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    kube::Client::try_from(config).unwrap()
}

#[tokio::test]
async fn create_watch_patch_delete() {
    let Some(cluster) = Cluster::start(2) else { return };
    let client = connect(&cluster).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let map: ConfigMap =
        serde_json::from_value(json!({ "metadata": { "name": "settings" }, "data": { "a": "1" } }))
            .unwrap();
    let created = maps.create(&PostParams::default(), &map).await.unwrap();
    let version = created.metadata.resource_version.clone().unwrap();
    assert!(
        matches!(maps.create(&PostParams::default(), &map).await, Err(kube::Error::Api(err)) if err.code == 409)
    );

    let mut events = maps
        .watch(&WatchParams::default().fields("metadata.name=settings"), &version)
        .await
        .unwrap()
        .boxed();
    maps.patch("settings", &PatchParams::default(), &Patch::Merge(json!({ "data": { "b": "2" } })))
        .await
        .unwrap();
    let apply = json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "c": "3" } });
    let applied =
        maps.patch("settings", &PatchParams::apply("test"), &Patch::Apply(apply)).await.unwrap();
    assert_eq!(applied.data.unwrap().len(), 3);
    maps.delete("settings", &DeleteParams::default()).await.unwrap();
    let mut seen = Vec::new();
    while let Some(event) = events.try_next().await.unwrap() {
        match event {
            WatchEvent::Modified(it) => seen.push(format!("modified {}", it.data.unwrap().len())),
            WatchEvent::Deleted(_) => {
                seen.push("deleted".to_owned());
                break;
            }
            other => panic!("unexpected {other:?}"),
        }
    }
    assert_eq!(seen, ["modified 2", "modified 3", "deleted"]);
}

#[tokio::test]
async fn a_watcher_with_streaming_lists_follows_a_deployment() {
    let Some(cluster) = Cluster::start(2) else { return };
    let client = connect(&cluster).await;
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let deployment = serde_json::from_value(json!({
        "metadata": { "name": "web" },
        "spec": { "replicas": 2, "selector": { "matchLabels": { "app": "web" } }, "template": {
            "metadata": { "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "main", "image": "xebec.local/toolbox" }] } } },
    }));
    deployments.create(&PostParams::default(), &deployment.unwrap()).await.unwrap();
    let config = watcher::Config::default().streaming_lists();
    let mut stream = watcher(deployments, config).applied_objects().boxed();
    while let Some(deployment) = stream.try_next().await.unwrap() {
        if deployment.status.and_then(|it| it.ready_replicas) == Some(2) {
            break;
        }
    }
    let pods: Api<Pod> = Api::default_namespaced(client);
    let first = pods.list(&ListParams::default().labels("app=web").limit(1)).await.unwrap();
    assert_eq!(first.items.len(), 1);
    let token = first.metadata.continue_.unwrap();
    let rest = pods
        .list(&ListParams::default().labels("app=web").limit(5).continue_token(&token))
        .await
        .unwrap();
    assert_eq!(rest.items.len(), 1);
    assert_ne!(first.items[0].metadata.name, rest.items[0].metadata.name);
}
