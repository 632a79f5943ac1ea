//! Deployments on nodes that run pods: rollouts of both strategies, over older ReplicaSets and over
//! each other, scale, history and status.

use std::collections::BTreeSet;

use anyhow::{Result, anyhow, ensure};
use serde_json::{Value, json};

use super::running::{IMAGE, PAUSE, PAUSE_OLDER, fields, is_owned, lasting, nodes, pods};
use super::watched::{self, Watched};
use crate::cases::{Case, case};
use crate::client::{Collection, Patch};
use crate::expect::{count, items, name, same, shows};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-apps] Deployment Deployment should have a working scale subresource [Conformance]",
        scale
    ),
    case!(
        "[sig-apps] Deployment RecreateDeployment should delete old pods and create new ones [Conformance]",
        recreates
    ),
    case!(
        "[sig-apps] Deployment RollingUpdateDeployment should delete old pods and create new ones [Conformance]",
        rolls_on_from_a_set
    ),
    case!(
        "[sig-apps] Deployment deployment should delete old replica sets [Conformance]",
        forgets_old_sets
    ),
    case!(
        "[sig-apps] Deployment deployment should support proportional scaling [Conformance]",
        proportions
    ),
    case!("[sig-apps] Deployment deployment should support rollover [Conformance]", rolls_over),
    case!(
        "[sig-apps] Deployment should run the lifecycle of a Deployment [Conformance]",
        lifecycle
    ),
    case!(
        "[sig-apps] Deployment should validate Deployment Status endpoints [Conformance]",
        status
    ),
];

const GROUP: &str = "apps/v1";
const REVISION: &str = "deployment.kubernetes.io/revision";

fn deployments(scope: &Scope) -> Collection<'_> {
    scope.own(GROUP, "deployments")
}

/// With these fields of its spec beside the number of pods.
async fn create<'a>(scope: &'a Scope, replicas: usize, rest: &Value) -> Result<Collection<'a>> {
    nodes(scope).await?;
    let labels = json!({ "app": "web" });
    let mut spec = json!({
        "replicas": replicas, "selector": { "matchLabels": labels }, "template": lasting(&labels),
    });
    for (key, value) in rest.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    let deployments = deployments(scope);
    deployments.create(&json!({ "metadata": { "name": "web" }, "spec": spec })).await?;
    Ok(deployments)
}

/// A ReplicaSet that was there before, with pods of the older image that are ready.
async fn older_set(scope: &Scope, replicas: usize) -> Result<Value> {
    nodes(scope).await?;
    let labels = json!({ "app": "web" });
    let mut template = lasting(&labels);
    template["spec"]["containers"][0]["image"] = json!(PAUSE_OLDER);
    let metadata = json!({ "name": "before", "labels": labels, "annotations": { REVISION: "41" } });
    let spec = json!({
        "replicas": replicas, "selector": { "matchLabels": labels }, "template": template,
    });
    let sets = scope.own(GROUP, "replicasets");
    let made = sets.create(&json!({ "metadata": metadata, "spec": spec })).await?;
    let ready = json!({ "status": { "readyReplicas": replicas } });
    scope
        .until("the older pods are ready", async || shows(&sets.get("before").await?, &ready))
        .await?;
    Ok(made)
}

/// Until the newest form of it has all its pods, and there are no others.
async fn until_complete(scope: &Scope, replicas: usize) -> Result<Value> {
    let all = json!({ "status": {
        "replicas": replicas, "updatedReplicas": replicas, "availableReplicas": replicas,
    } });
    scope
        .until("the rollout is over", async || {
            let read = deployments(scope).get("web").await?;
            let is_seen = read["status"]["observedGeneration"] == read["metadata"]["generation"];
            ensure!(is_seen, "the change is not observed");
            shows(&read, &all)?;
            Ok(read)
        })
        .await
}

async fn set_image(scope: &Scope, image: &str) -> Result<()> {
    let path = "/spec/template/spec/containers/0/image";
    let patch = json!([{ "op": "replace", "path": path, "value": image }]);
    deployments(scope).patch("web", Patch::Json, &patch).await.map(drop)
}

/// What will never run: nobody finds a node for it.
async fn get_stuck(scope: &Scope) -> Result<()> {
    let spec = json!({ "schedulerName": "conformance-nobody" });
    let patch = json!({ "spec": { "template": { "spec": spec } } });
    deployments(scope).patch("web", Patch::Merge, &patch).await.map(drop)
}

/// The ReplicaSets of the case, by revision.
async fn sets(scope: &Scope) -> Result<Vec<Value>> {
    let list = scope.own(GROUP, "replicasets").labeled("app=web").await?;
    let mut sets = items(&list)?.clone();
    let revision = |it: &Value| {
        let text = it["metadata"]["annotations"][REVISION].as_str();
        text.and_then(|it| it.parse::<u64>().ok()).unwrap_or(0)
    };
    sets.sort_by_key(revision);
    Ok(sets)
}

async fn scale(scope: &Scope) -> Result<()> {
    let deployments = create(scope, 1, &json!({})).await?;
    until_complete(scope, 1).await?;
    let read = deployments.get_part("web", "scale").await?;
    shows(
        &read,
        &json!({
            "apiVersion": "autoscaling/v1", "kind": "Scale", "spec": { "replicas": 1 },
            "status": { "replicas": 1, "selector": "app=web" },
        }),
    )?;
    let scaled =
        deployments.change("web", Some("scale"), |it| it["spec"]["replicas"] = json!(2)).await?;
    shows(&scaled, &json!({ "kind": "Scale", "spec": { "replicas": 2 } }))?;
    until_complete(scope, 2).await?;
    let patch = json!({ "spec": { "replicas": 4 } });
    shows(&deployments.patch_part("web", "scale", Patch::Merge, &patch).await?, &patch)?;
    shows(&deployments.get("web").await?, &patch)?;
    until_complete(scope, 4).await.map(drop)
}

async fn recreates(scope: &Scope) -> Result<()> {
    create(scope, 2, &json!({ "strategy": { "type": "Recreate" } })).await?;
    until_complete(scope, 2).await?;
    let collection = scope.own("v1", "pods");
    let old = fields(&pods(scope, "app=web").await?, "/metadata/name");
    let mut old: BTreeSet<String> = old.into_iter().collect();
    let mut events = collection.watch_from_now(&[("labelSelector", "app=web")]).await?;
    set_image(scope, PAUSE_OLDER).await?;
    let mut new = BTreeSet::new();
    while new.len() < 2 {
        let event = events.next().await?;
        let name = name(&event.object)?.to_owned();
        let is_over =
            ["Succeeded", "Failed"].iter().any(|it| event.object["status"]["phase"] == *it);
        if event.kind == "DELETED" || is_over {
            old.remove(&name);
        } else if event.object.pointer(IMAGE).is_some_and(|it| *it == PAUSE_OLDER) {
            ensure!(old.is_empty(), "{name} is made while there are {old:?}");
            new.insert(name);
        }
    }
    until_complete(scope, 2).await?;
    same("images", fields(&pods(scope, "app=web").await?, IMAGE), vec![PAUSE_OLDER.to_owned(); 2])
}

async fn rolls_on_from_a_set(scope: &Scope) -> Result<()> {
    let before = older_set(scope, 2).await?;
    create(scope, 2, &json!({})).await?;
    let deployment = until_complete(scope, 2).await?;
    shows(&deployment, &json!({ "metadata": { "annotations": { REVISION: "42" } } }))?;
    let sets = sets(scope).await?;
    same("number of ReplicaSets", sets.len(), 2)?;
    same("the older one", &sets[0]["metadata"]["uid"], &before["metadata"]["uid"])?;
    for (set, replicas) in [(&sets[0], 0), (&sets[1], 2)] {
        ensure!(is_owned(set, &deployment), "nobody has adopted {}", name(set)?);
        shows(set, &json!({ "spec": { "replicas": replicas } }))?;
    }
    shows(&sets[1], &json!({ "metadata": { "annotations": { REVISION: "42" } } }))?;
    scope
        .until("the older pods are gone", async || {
            let images = fields(&pods(scope, "app=web").await?, IMAGE);
            same("images", images, vec![PAUSE.to_owned(); 2])
        })
        .await
}

async fn forgets_old_sets(scope: &Scope) -> Result<()> {
    older_set(scope, 1).await?;
    create(scope, 1, &json!({ "revisionHistoryLimit": 0 })).await?;
    until_complete(scope, 1).await?;
    scope
        .until("the older ReplicaSet is forgotten", async || {
            let left = sets(scope).await?;
            same("number of ReplicaSets", left.len(), 1)?;
            ensure!(left[0]["metadata"]["name"] != "before", "the wrong one: {}", left[0]);
            Ok(())
        })
        .await
}

fn rolling(surge: usize, unavailable: usize) -> Value {
    let bounds = json!({ "maxSurge": surge, "maxUnavailable": unavailable });
    json!({ "strategy": { "type": "RollingUpdate", "rollingUpdate": bounds } })
}

async fn until_sizes(scope: &Scope, expected: &[u64]) -> Result<()> {
    scope
        .until(&format!("the ReplicaSets have {expected:?} pods"), async || {
            let sets = sets(scope).await?;
            let wanted = |it: &Value| it["spec"]["replicas"].as_u64().unwrap_or(0);
            let there = |it: &Value| it["status"]["replicas"].as_u64().unwrap_or(0);
            same("wanted", sets.iter().map(wanted).collect::<Vec<_>>(), expected.to_vec())?;
            same("there", sets.iter().map(there).collect::<Vec<_>>(), expected.to_vec())
        })
        .await
}

async fn proportions(scope: &Scope) -> Result<()> {
    let deployments = create(scope, 10, &rolling(3, 2)).await?;
    until_complete(scope, 10).await?;
    get_stuck(scope).await?;
    // No more than 13 in all, no fewer than 8 that are available.
    until_sizes(scope, &[8, 5]).await?;
    deployments.change("web", None, |it| it["spec"]["replicas"] = json!(30)).await?;
    // 20 more than the 13 that there are, 13 : 33 as 8 : 20 and 5 : 13.
    until_sizes(scope, &[20, 13]).await
}

async fn rolls_over(scope: &Scope) -> Result<()> {
    older_set(scope, 1).await?;
    let mut rest = rolling(1, 0);
    rest["minReadySeconds"] = json!(1);
    rest["template"] = lasting(&json!({ "app": "web" }));
    rest["template"]["spec"]["schedulerName"] = json!("conformance-nobody");
    create(scope, 1, &rest).await?;
    until_sizes(scope, &[1, 1]).await?;
    // In the midst of this rollout comes the next one.
    let patch = json!({ "spec": { "template": { "spec": { "schedulerName": null } } } });
    deployments(scope).patch("web", Patch::Merge, &patch).await?;
    until_complete(scope, 1).await?;
    until_sizes(scope, &[0, 0, 1]).await?;
    let hash = sets(scope).await?[2]["metadata"]["labels"]["pod-template-hash"].clone();
    scope
        .until("the pod of the newest is left", async || {
            let pods = pods(scope, "app=web").await?;
            let path = "/metadata/labels/pod-template-hash";
            same("hashes", fields(&pods, path), vec![hash.as_str().unwrap_or_default().to_owned()])
        })
        .await
}

async fn lifecycle(scope: &Scope) -> Result<()> {
    let label = format!("conformance={}", scope.suffix);
    let watched = Watched { resource: "deployments", group_version: GROUP, label: &label };
    let mut events = watched.open(scope).await?;
    let labels = json!({ "app": "web", "conformance": scope.suffix });
    nodes(scope).await?;
    let object = json!({ "metadata": { "name": "web", "labels": labels }, "spec": {
        "replicas": 2, "selector": { "matchLabels": labels }, "template": lasting(&labels),
    } });
    let deployments = deployments(scope);
    deployments.create(&object).await?;
    events.expect("ADDED", &json!({ "metadata": { "name": "web" } })).await?;
    let ready = |n: usize| json!({ "status": { "readyReplicas": n, "availableReplicas": n } });
    events.find("MODIFIED", &ready(2), &["MODIFIED"]).await?;
    let container = json!({ "name": "main", "image": PAUSE_OLDER });
    let patch = json!({
        "metadata": { "labels": { "step": "patched" } },
        "spec": { "replicas": 1, "template": { "spec": { "containers": [container] } } },
    });
    shows(
        &deployments.patch("web", Patch::Strategic, &patch).await?,
        &json!({
            "metadata": { "labels": { "step": "patched" } }, "spec": { "replicas": 1 },
        }),
    )?;
    events.find("MODIFIED", &patch, &["MODIFIED"]).await?;
    let mut done = ready(1);
    done["status"]["updatedReplicas"] = json!(1);
    done["status"]["replicas"] = json!(1);
    events.find("MODIFIED", &done, &["MODIFIED"]).await?;
    let listed = scope.all(GROUP, "deployments").labeled(&label).await?;
    count("Deployments of all namespaces", &listed, 1)?;
    watched::conditions(&deployments, "web").await?;
    let updated =
        deployments.change("web", None, |it| it["metadata"]["labels"]["step"] = json!("updated"));
    let updated = updated.await?;
    let step = json!({ "metadata": { "labels": { "step": "updated" } } });
    shows(&updated, &step)?;
    events.find("MODIFIED", &step, &["MODIFIED"]).await?;
    until_complete(scope, 1).await?;
    deployments.delete_all(&[("labelSelector", &label)]).await?;
    let uid = json!({ "metadata": { "uid": updated["metadata"]["uid"] } });
    events.find("DELETED", &uid, &["MODIFIED"]).await.map(drop)
}

async fn status(scope: &Scope) -> Result<()> {
    let deployments = create(scope, 1, &json!({})).await?;
    until_complete(scope, 1).await?;
    let read = deployments.get_part("web", "status").await?;
    let conditions = read["status"]["conditions"].as_array();
    let is_available = |it: &&Value| it["type"] == "Available" && it["status"] == "True";
    conditions
        .and_then(|it| it.iter().find(is_available))
        .ok_or_else(|| anyhow!("expected Available, saw {}", read["status"]))?;
    watched::conditions(&deployments, "web").await
}
