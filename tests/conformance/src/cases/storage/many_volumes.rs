//! Many volumes of one pod, and many such pods at once.

use anyhow::Result;
use serde_json::{Value, json};

use crate::cases::apps::running::until_ready;
use crate::cases::{Case, case, toolbox};
use crate::expect::count;
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[case!(
    "[sig-storage] EmptyDir wrapper volumes should not cause race condition when used for configmaps [Serial] [Conformance]",
    config_maps
)];

const VOLUMES: usize = 50;
const PODS: usize = 5;
/// How often all of them come and go.
const TURNS: usize = 2;

async fn config_maps(scope: &Scope) -> Result<()> {
    toolbox::needs_real_nodes(scope).await?;
    let maps = scope.own("v1", "configmaps");
    for number in 0..VOLUMES {
        let metadata = json!({ "name": format!("map-{number}") });
        maps.create(&json!({ "metadata": metadata, "data": { "content": number.to_string() } }))
            .await?;
    }
    for turn in 0..TURNS {
        come_and_go(scope, &format!("turn-{turn}")).await?;
    }
    Ok(())
}

async fn come_and_go(scope: &Scope, name: &str) -> Result<()> {
    let controllers = scope.own("v1", "replicationcontrollers");
    let labels = json!({ "app": name });
    let volume = |it: usize| json!({ "name": format!("v{it}"), "configMap": { "name": format!("map-{it}") } });
    let mount = |it: usize| json!({ "name": format!("v{it}"), "mountPath": format!("/v/{it}") });
    let container = json!({
        "name": "main", "image": toolbox::image(), "args": ["sleep", "3600"],
        "volumeMounts": (0..VOLUMES).map(mount).collect::<Vec<Value>>(),
    });
    let spec = json!({
        "terminationGracePeriodSeconds": 0, "containers": [container],
        "volumes": (0..VOLUMES).map(volume).collect::<Vec<Value>>(),
    });
    let template = json!({ "metadata": { "labels": labels }, "spec": spec });
    let spec = json!({ "replicas": PODS, "selector": labels, "template": template });
    controllers.create(&json!({ "metadata": { "name": name }, "spec": spec })).await?;
    let selector = format!("app={name}");
    until_ready(scope, &selector, PODS).await?;
    controllers.delete_with(name, &json!({ "propagationPolicy": "Background" })).await?;
    let pods = scope.own("v1", "pods");
    scope
        .until("the pods are gone", async || count("pods", &pods.labeled(&selector).await?, 0))
        .await
}
