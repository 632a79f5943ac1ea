//! Owners and what they own: it goes with them, stays if asked to, and circles hold nothing up.

use anyhow::{Result, anyhow, ensure};
use serde_json::{Value, json};

use crate::cases::node::pods;
use crate::cases::{Case, case};
use crate::client::Collection;
use crate::expect::{count, items, name, same, shows};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-api-machinery] Garbage collector should delete RS created by deployment when not orphaning [Conformance]",
        deployment_goes
    ),
    case!(
        "[sig-api-machinery] Garbage collector should delete pods created by rc when not orphaning [Conformance]",
        controller_goes
    ),
    case!(
        "[sig-api-machinery] Garbage collector should not be blocked by dependency circle [Conformance]",
        circle
    ),
    case!(
        "[sig-api-machinery] Garbage collector should orphan RS created by deployment when deleteOptions.PropagationPolicy is Orphan [Conformance]",
        orphans
    ),
];

/// A Deployment of two pods, and its ReplicaSet once both are there.
async fn deploy(scope: &Scope) -> Result<(Collection<'_>, Value)> {
    let labels = json!({ "app": "web" });
    let template = json!({ "metadata": { "labels": labels }, "spec": pods::idle_spec() });
    let deployment = json!({ "metadata": { "name": "web" }, "spec": {
        "replicas": 2, "selector": { "matchLabels": labels }, "template": template,
    } });
    let deployments = scope.own("apps/v1", "deployments");
    deployments.create(&deployment).await?;
    let sets = scope.own("apps/v1", "replicasets");
    let set = scope
        .until("there is a ReplicaSet with two pods", async || {
            let list = sets.labeled("app=web").await?;
            let set = items(&list)?.first().ok_or_else(|| anyhow!("no ReplicaSet"))?.clone();
            shows(&set, &json!({ "status": { "replicas": 2 } }))?;
            Ok(set)
        })
        .await?;
    Ok((deployments, set))
}

async fn deployment_goes(scope: &Scope) -> Result<()> {
    let (deployments, _) = deploy(scope).await?;
    deployments.delete_with("web", &json!({ "propagationPolicy": "Background" })).await?;
    let (sets, pods) = (scope.own("apps/v1", "replicasets"), scope.own("v1", "pods"));
    scope
        .until("the ReplicaSet and its pods are gone", async || {
            count("ReplicaSets", &sets.labeled("app=web").await?, 0)?;
            count("pods", &pods.labeled("app=web").await?, 0)
        })
        .await
}

async fn orphans(scope: &Scope) -> Result<()> {
    let (deployments, set) = deploy(scope).await?;
    deployments.delete_with("web", &json!({ "propagationPolicy": "Orphan" })).await?;
    let path = deployments.object("web");
    scope.gone(&path).await?;
    // The owner goes when the references to it are gone: then nothing draws the others along.
    let left = scope.own("apps/v1", "replicasets").get(name(&set)?).await?;
    same("owners", &left["metadata"]["ownerReferences"], &Value::Null)?;
    same("deletion", &left["metadata"]["deletionTimestamp"], &Value::Null)?;
    same("uid", &left["metadata"]["uid"], &set["metadata"]["uid"])?;
    count("pods", &scope.own("v1", "pods").labeled("app=web").await?, 2)
}

async fn controller_goes(scope: &Scope) -> Result<()> {
    let labels = json!({ "app": "web" });
    let template = json!({ "metadata": { "labels": labels }, "spec": pods::idle_spec() });
    let controller = json!({ "metadata": { "name": "web" }, "spec": {
        "replicas": 10, "selector": labels, "template": template,
    } });
    let controllers = scope.own("v1", "replicationcontrollers");
    controllers.create(&controller).await?;
    scope
        .until("all pods are there", async || {
            shows(&controllers.get("web").await?, &json!({ "status": { "replicas": 10 } }))
        })
        .await?;
    controllers.delete_with("web", &json!({ "propagationPolicy": "Background" })).await?;
    let pods = scope.own("v1", "pods");
    scope.until("the pods are gone", async || count("pods", &pods.list(&[]).await?, 0)).await
}

async fn circle(scope: &Scope) -> Result<()> {
    let pods = scope.own("v1", "pods");
    let mut made = Vec::new();
    for name in ["one", "two", "three"] {
        made.push(pods.create(&pods::idle(name)).await?);
    }
    // Each belongs to the one before, the first to the last.
    for (at, pod) in made.iter().enumerate() {
        let owner = &made[(at + made.len() - 1) % made.len()]["metadata"];
        let reference = json!([{
            "apiVersion": "v1", "kind": "Pod", "name": owner["name"], "uid": owner["uid"],
            "controller": true, "blockOwnerDeletion": true,
        }]);
        pods.change(name(pod)?, None, |it| it["metadata"]["ownerReferences"] = reference.clone())
            .await?;
    }
    let read = pods.get("one").await?;
    ensure!(read["metadata"]["ownerReferences"][0]["name"] == "three", "saw {}", read["metadata"]);
    pods.delete_with("one", &json!({ "gracePeriodSeconds": 0, "propagationPolicy": "Foreground" }))
        .await?;
    scope.until("all pods are gone", async || count("pods", &pods.list(&[]).await?, 0)).await
}
