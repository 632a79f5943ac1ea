//! DaemonSets on nodes that run pods: one on each, by label, updated, rolled back and mended; and the
//! revisions that they leave.

use anyhow::{Result, anyhow, ensure};
use serde_json::{Value, json};

use super::running::{IMAGE, PAUSE_OLDER, UID, fields, lasting, nodes, pods, replace};
use crate::cases::{Case, case};
use crate::client::{Collection, Patch};
use crate::expect::{count, items, name, same, shows};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-apps] ControllerRevision [Serial] should manage the lifecycle of a ControllerRevision [Conformance]",
        revisions
    ),
    case!(
        "[sig-apps] Daemon set [Serial] should list and delete a collection of DaemonSets [Conformance]",
        collection
    ),
    case!(
        "[sig-apps] Daemon set [Serial] should retry creating failed daemon pods [Conformance]",
        retry
    ),
    case!(
        "[sig-apps] Daemon set [Serial] should rollback without unnecessary restarts [Conformance]",
        rollback
    ),
    case!(
        "[sig-apps] Daemon set [Serial] should run and stop complex daemon [Conformance]",
        by_label
    ),
    case!("[sig-apps] Daemon set [Serial] should run and stop simple daemon [Conformance]", simple),
    case!(
        "[sig-apps] Daemon set [Serial] should update pod when spec was updated and update strategy is RollingUpdate [Conformance]",
        update
    ),
    case!(
        "[sig-apps] Daemon set [Serial] should verify changes to a daemon set status [Conformance]",
        status
    ),
];

/// A set on all nodes, or on those with the case's label.
async fn create<'a>(scope: &'a Scope, selector: Option<&Value>) -> Result<Collection<'a>> {
    let nodes = nodes(scope).await?;
    let labels = json!({ "app": "agent" });
    let mut template = lasting(&labels);
    if let Some(selector) = selector {
        template["spec"]["nodeSelector"] = selector.clone();
    }
    let sets = scope.own("apps/v1", "daemonsets");
    let set = json!({ "metadata": { "name": "agent", "labels": labels }, "spec": {
        "selector": { "matchLabels": labels }, "template": template,
        "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": "100%" } },
    } });
    sets.create(&set).await?;
    until_on(scope, &sets, if selector.is_some() { 0 } else { nodes.len() }).await?;
    Ok(sets)
}

/// Until so many nodes have a pod that is available and up to date, and no others have one.
async fn until_on(scope: &Scope, sets: &Collection<'_>, expected: usize) -> Result<()> {
    scope
        .until("the pods are where they should be", async || {
            let set = sets.get("agent").await?;
            let status = &set["status"];
            let is_seen = status["observedGeneration"] == set["metadata"]["generation"];
            ensure!(is_seen, "the change is not observed");
            let number = |field: &str| status[field].as_u64().unwrap_or(0);
            let counts = ["desiredNumberScheduled", "numberAvailable", "updatedNumberScheduled"];
            same("counts", counts.map(number), [expected as u64; 3])?;
            let pods = pods(scope, "app=agent").await?;
            let mut nodes = fields(&pods, "/spec/nodeName");
            nodes.sort();
            nodes.dedup();
            same("nodes and pods", (nodes.len(), pods.len()), (expected, expected))
        })
        .await
}

async fn simple(scope: &Scope) -> Result<()> {
    let sets = create(scope, None).await?;
    let pods = pods(scope, "app=agent").await?;
    replace(scope, pods.first().ok_or_else(|| anyhow!("no pod"))?).await?;
    until_on(scope, &sets, nodes(scope).await?.len()).await
}

async fn label_node(scope: &Scope, node: &str, key: &str, value: &Value) -> Result<()> {
    let patch = json!({ "metadata": { "labels": { key: value } } });
    scope.all("v1", "nodes").patch(node, Patch::Merge, &patch).await.map(drop)
}

async fn by_label(scope: &Scope) -> Result<()> {
    let key = format!("conformance-{}", scope.suffix);
    let sets = create(scope, Some(&json!({ key.clone(): "blue" }))).await?;
    let node = nodes(scope).await?.remove(0);
    let moved = async {
        label_node(scope, &node, &key, &json!("blue")).await?;
        until_on(scope, &sets, 1).await?;
        let pods = pods(scope, "app=agent").await?;
        same("nodes", fields(&pods, "/spec/nodeName"), vec![node.clone()])?;
        label_node(scope, &node, &key, &json!("green")).await?;
        until_on(scope, &sets, 0).await?;
        sets.change("agent", None, |it| {
            it["spec"]["template"]["spec"]["nodeSelector"] = json!({ key.clone(): "green" });
        })
        .await?;
        until_on(scope, &sets, 1).await
    };
    let moved = moved.await;
    label_node(scope, &node, &key, &Value::Null).await?;
    moved
}

async fn retry(scope: &Scope) -> Result<()> {
    let sets = create(scope, None).await?;
    let all = pods(scope, "app=agent").await?;
    let victim = all.first().ok_or_else(|| anyhow!("no pod"))?;
    let collection = scope.own("v1", "pods");
    collection
        .change(name(victim)?, Some("status"), |it| it["status"]["phase"] = json!("Failed"))
        .await?;
    scope
        .until("the pod that failed is gone", async || {
            let uids = fields(&pods(scope, "app=agent").await?, UID);
            let uid = victim["metadata"]["uid"].as_str().unwrap_or_default();
            ensure!(uids.iter().all(|it| it != uid), "still there");
            Ok(())
        })
        .await?;
    until_on(scope, &sets, nodes(scope).await?.len()).await
}

async fn set_image(sets: &Collection<'_>, image: &str) -> Result<()> {
    sets.change("agent", None, |it| {
        it["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    })
    .await
    .map(drop)
}

/// Those of the set.
async fn history(scope: &Scope) -> Result<Vec<Value>> {
    let list = scope.own("apps/v1", "controllerrevisions").labeled("app=agent").await?;
    let mut history = items(&list)?.clone();
    history.sort_by_key(|it| it["revision"].as_i64());
    Ok(history)
}

async fn update(scope: &Scope) -> Result<()> {
    let sets = create(scope, None).await?;
    let first = history(scope).await?;
    same("number of revisions", first.len(), 1)?;
    let label = "/metadata/labels/controller-revision-hash";
    let hash =
        |it: &Value| it.pointer(label).and_then(Value::as_str).unwrap_or_default().to_owned();
    let all = pods(scope, "app=agent").await?;
    ensure!(fields(&all, label).iter().all(|it| *it == hash(&first[0])), "hashes of pods");
    set_image(&sets, PAUSE_OLDER).await?;
    until_on(scope, &sets, all.len()).await?;
    let second = history(scope).await?;
    same("revisions", fields(&second, "/kind").len(), 2)?;
    shows(&second[1], &json!({ "revision": 2 }))?;
    let updated = pods(scope, "app=agent").await?;
    ensure!(fields(&updated, IMAGE).iter().all(|it| it == PAUSE_OLDER), "images of pods");
    ensure!(fields(&updated, label).iter().all(|it| *it == hash(&second[1])), "hashes of pods");
    Ok(())
}

async fn rollback(scope: &Scope) -> Result<()> {
    let sets = create(scope, None).await?;
    let n_nodes = nodes(scope).await?.len();
    let careful = json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 1 } });
    sets.change("agent", None, |it| it["spec"]["updateStrategy"] = careful.clone()).await?;
    let before = fields(&pods(scope, "app=agent").await?, UID);
    // No node has that much, so the rollout stays at its first pod.
    let ask = async |resources: Value| {
        let change = |it: &mut Value| {
            it["spec"]["template"]["spec"]["containers"][0]["resources"] = resources.clone();
        };
        sets.change("agent", None, change).await
    };
    ask(json!({ "requests": { "cpu": "1000000" } })).await?;
    scope
        .until("the rollout has begun", async || {
            let uids = fields(&pods(scope, "app=agent").await?, UID);
            ensure!(uids.iter().any(|it| !before.contains(it)), "all pods are as before");
            Ok(())
        })
        .await?;
    ask(json!({})).await?;
    until_on(scope, &sets, n_nodes).await?;
    let after = fields(&pods(scope, "app=agent").await?, UID);
    let kept = after.iter().filter(|it| before.contains(it)).count();
    same("pods that were not touched", kept, n_nodes - 1)
}

async fn collection(scope: &Scope) -> Result<()> {
    let sets = create(scope, None).await?;
    count("DaemonSets", &sets.labeled("app=agent").await?, 1)?;
    sets.delete_all(&[("labelSelector", "app=agent")]).await?;
    scope
        .until("the set is gone", async || {
            count("DaemonSets", &sets.labeled("app=agent").await?, 0)
        })
        .await
}

async fn status(scope: &Scope) -> Result<()> {
    let sets = create(scope, None).await?;
    let n_nodes = nodes(scope).await?.len();
    let read = sets.get_part("agent", "status").await?;
    shows(&read, &json!({ "status": { "numberReady": n_nodes } }))?;
    for (kind, is_patch) in [("StatusUpdate", false), ("StatusPatched", true)] {
        let condition =
            json!({ "type": kind, "status": "True", "reason": "E2E", "message": "Set by a case" });
        let answer = if is_patch {
            let patch = json!({ "status": { "conditions": [condition] } });
            sets.patch_part("agent", "status", Patch::Merge, &patch).await?
        } else {
            let add = |it: &mut Value| it["status"]["conditions"] = json!([condition]);
            sets.change("agent", Some("status"), add).await?
        };
        shows(&answer, &json!({ "status": { "conditions": [condition] } }))?;
    }
    Ok(())
}

async fn revisions(scope: &Scope) -> Result<()> {
    create(scope, None).await?;
    let first = history(scope).await?.remove(0);
    let revisions = scope.own("apps/v1", "controllerrevisions");
    let read = revisions.get(name(&first)?).await?;
    shows(
        &read,
        &json!({ "metadata": { "ownerReferences": [{ "kind": "DaemonSet", "name": "agent" }] } }),
    )?;
    let patch = json!({ "metadata": { "labels": { "patched": "true" } } });
    let patched = revisions.patch(name(&first)?, Patch::Strategic, &patch).await?;
    shows(&patched, &patch)?;
    let another = json!({
        "metadata": { "name": "another", "labels": { "made": "by-hand" } },
        "data": first["data"], "revision": 7,
    });
    revisions.create(&another).await?;
    let updated = revisions
        .change("another", None, |it| it["metadata"]["labels"]["updated"] = json!("true"))
        .await?;
    shows(&updated, &json!({ "revision": 7, "metadata": { "labels": { "updated": "true" } } }))?;
    count("revisions", &revisions.labeled("made=by-hand").await?, 1)?;
    revisions.delete("another").await?;
    revisions.create(&another).await?;
    revisions.delete_all(&[("labelSelector", "made=by-hand")]).await?;
    scope
        .until("those made by hand are gone", async || {
            count("revisions", &revisions.labeled("made=by-hand").await?, 0)
        })
        .await?;
    count("revisions", &revisions.labeled("patched=true").await?, 1)
}
