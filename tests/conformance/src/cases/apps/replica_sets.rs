//! ReplicaSets on nodes that run pods: their size, whose pods are whose, status, collections; and
//! that every replica answers.

use anyhow::{Result, anyhow, ensure};
use serde_json::{Value, json};

use super::running::{PAUSE_OLDER, is_owned, lasting, nodes, pods, until_ready};
use super::watched;
use crate::cases::toolbox;
use crate::cases::{Case, case};
use crate::client::{Collection, Patch};
use crate::expect::{count, name, shows};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!("[sig-apps] ReplicaSet Replace and Patch tests [Conformance]", replace_and_patch),
    case!(
        "[sig-apps] ReplicaSet Replicaset should have a working scale subresource [Conformance]",
        scale
    ),
    case!(
        "[sig-apps] ReplicaSet should adopt matching pods on creation and release no longer matching pods [Conformance]",
        claims
    ),
    case!(
        "[sig-apps] ReplicaSet should list and delete a collection of ReplicaSets [Conformance]",
        collection
    ),
    case!(
        "[sig-apps] ReplicaSet should serve a basic image on each replica with a public image [Conformance]",
        serves
    ),
    case!(
        "[sig-apps] ReplicaSet should validate Replicaset Status endpoints [Conformance]",
        status
    ),
];

fn sets(scope: &Scope) -> Collection<'_> {
    scope.own("apps/v1", "replicasets")
}

async fn create(scope: &Scope, replicas: usize) -> Result<Value> {
    nodes(scope).await?;
    let labels = json!({ "app": "web" });
    let made = sets(scope)
        .create(&json!({ "metadata": { "name": "web", "labels": labels }, "spec": {
            "replicas": replicas, "selector": { "matchLabels": labels },
            "template": lasting(&labels),
        } }))
        .await?;
    until_complete(scope, replicas).await?;
    Ok(made)
}

async fn until_complete(scope: &Scope, replicas: usize) -> Result<()> {
    let status = json!({ "replicas": replicas, "readyReplicas": replicas });
    scope
        .until("its pods are ready", async || {
            shows(&sets(scope).get("web").await?, &json!({ "status": status }))
        })
        .await
}

async fn replace_and_patch(scope: &Scope) -> Result<()> {
    create(scope, 1).await?;
    let sets = sets(scope);
    sets.change("web", None, |it| it["spec"]["replicas"] = json!(3)).await?;
    until_complete(scope, 3).await?;
    let container = json!({ "name": "main", "image": PAUSE_OLDER });
    let patch = json!({
        "metadata": { "labels": { "step": "patched" } },
        "spec": { "replicas": 2, "template": { "spec": {
            "terminationGracePeriodSeconds": 1, "containers": [container],
        } } },
    });
    shows(&sets.patch("web", Patch::Strategic, &patch).await?, &patch)?;
    until_complete(scope, 2).await?;
    // Pods that are there stay as they are.
    for pod in pods(scope, "app=web").await? {
        ensure!(pod["spec"]["containers"][0]["image"] != PAUSE_OLDER, "a pod was changed: {pod}");
    }
    Ok(())
}

async fn scale(scope: &Scope) -> Result<()> {
    create(scope, 1).await?;
    let sets = sets(scope);
    let read = sets.get_part("web", "scale").await?;
    let expected = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "spec": { "replicas": 1 },
        "status": { "replicas": 1, "selector": "app=web" },
    });
    shows(&read, &expected)?;
    let scaled = sets.change("web", Some("scale"), |it| it["spec"]["replicas"] = json!(2)).await?;
    shows(&scaled, &json!({ "kind": "Scale", "spec": { "replicas": 2 } }))?;
    shows(&sets.get("web").await?, &json!({ "spec": { "replicas": 2 } }))?;
    let patch = json!({ "spec": { "replicas": 4 } });
    shows(&sets.patch_part("web", "scale", Patch::Merge, &patch).await?, &patch)?;
    shows(&sets.get("web").await?, &patch)?;
    until_complete(scope, 4).await
}

async fn claims(scope: &Scope) -> Result<()> {
    nodes(scope).await?;
    let mut orphan = lasting(&json!({ "app": "web" }));
    orphan["metadata"]["name"] = json!("orphan");
    let collection = scope.own("v1", "pods");
    collection.create(&orphan).await?;
    until_ready(scope, "app=web", 1).await?;
    let set = create(scope, 1).await?;
    let read = collection.get("orphan").await?;
    ensure!(is_owned(&read, &set), "the orphan is not adopted: {}", read["metadata"]);
    let patch = json!({ "metadata": { "labels": { "app": "other" } } });
    collection.patch("orphan", Patch::Strategic, &patch).await?;
    scope
        .until("the pod is released and another one has its place", async || {
            ensure!(!is_owned(&collection.get("orphan").await?, &set), "it has its owner");
            let pods = pods(scope, "app=web").await?;
            let other = pods.first().ok_or_else(|| anyhow!("there is no other one"))?;
            ensure!(is_owned(other, &set), "{} has no owner", name(other)?);
            Ok(())
        })
        .await
}

async fn collection(scope: &Scope) -> Result<()> {
    create(scope, 3).await?;
    let options = [("labelSelector", "app=web")];
    count("ReplicaSets", &sets(scope).list(&options).await?, 1)?;
    let all = scope.all("apps/v1", "replicasets");
    let all = all.list(&[("fieldSelector", "metadata.name=web")]).await?;
    let own = |it: &Value| it["metadata"]["namespace"] == *scope.namespace;
    ensure!(crate::expect::items(&all)?.iter().any(own), "it is not in the list of all: {all}");
    sets(scope).delete_all(&options).await?;
    scope
        .until("the ReplicaSet is gone", async || {
            count("ReplicaSets", &sets(scope).list(&options).await?, 0)
        })
        .await
}

async fn serves(scope: &Scope) -> Result<()> {
    toolbox::needs_real_nodes(scope).await?;
    let labels = json!({ "app": "web" });
    let set = json!({ "metadata": { "name": "web" }, "spec": {
        "replicas": 2, "selector": { "matchLabels": labels },
        "template": toolbox::web_server(&labels),
    } });
    sets(scope).create(&set).await?;
    toolbox::each_answers_its_name(scope, "app=web", 2).await
}

async fn status(scope: &Scope) -> Result<()> {
    create(scope, 1).await?;
    let read = sets(scope).get_part("web", "status").await?;
    shows(&read, &json!({ "kind": "ReplicaSet", "status": { "replicas": 1 } }))?;
    watched::conditions(&sets(scope), "web").await
}
