//! StatefulSets on nodes that run pods: scale, status, rollouts by ordinal, and back again.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::running::{IMAGE, NAME, PAUSE, PAUSE_OLDER, fields, lasting, nodes, pods, replace};
use crate::cases::{Case, case};
use crate::client::{Collection, Patch};
use crate::expect::{count, same, shows};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-apps] StatefulSet Basic StatefulSet functionality [StatefulSetBasic] should have a working scale subresource [Conformance]",
        scale
    ),
    case!(
        "[sig-apps] StatefulSet Basic StatefulSet functionality [StatefulSetBasic] should list, patch and delete a collection of StatefulSets [Conformance]",
        collection
    ),
    case!(
        "[sig-apps] StatefulSet Basic StatefulSet functionality [StatefulSetBasic] should perform canary updates and phased rolling updates of template modifications [Conformance]",
        phases
    ),
    case!(
        "[sig-apps] StatefulSet Basic StatefulSet functionality [StatefulSetBasic] should perform rolling updates and roll backs of template modifications [Conformance]",
        back_and_forth
    ),
    case!(
        "[sig-apps] StatefulSet Basic StatefulSet functionality [StatefulSetBasic] should validate Statefulset Status endpoints [Conformance]",
        status
    ),
];

async fn create<'a>(scope: &'a Scope, replicas: usize, strategy: &Value) -> Result<Collection<'a>> {
    nodes(scope).await?;
    let labels = json!({ "app": "db" });
    let service = json!({ "metadata": { "name": "db" }, "spec": {
        "clusterIP": "None", "selector": labels, "ports": [{ "port": 80 }],
    } });
    scope.own("v1", "services").create(&service).await?;
    let sets = scope.own("apps/v1", "statefulsets");
    let set = json!({ "metadata": { "name": "db", "labels": labels }, "spec": {
        "replicas": replicas, "serviceName": "db", "selector": { "matchLabels": labels },
        "template": lasting(&labels), "updateStrategy": strategy,
    } });
    sets.create(&set).await?;
    until_ready(scope, &sets, replicas).await?;
    Ok(sets)
}

fn rolling(partition: usize) -> Value {
    json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": partition } })
}

async fn until_ready(scope: &Scope, sets: &Collection<'_>, replicas: usize) -> Result<Value> {
    scope
        .until("all pods are ready", async || {
            let set = sets.get("db").await?;
            let is_seen = set["status"]["observedGeneration"] == set["metadata"]["generation"];
            ensure!(is_seen, "the change is not observed");
            let ready = json!({ "replicas": replicas, "readyReplicas": replicas });
            shows(&set, &json!({ "status": ready }))?;
            // The status may be of a moment ago.
            let pods = pods(scope, "app=db").await?;
            let is_ready = |it: &&Value| {
                let conditions = it["status"]["conditions"].as_array().into_iter().flatten();
                conditions.into_iter().any(|it| it["type"] == "Ready" && it["status"] == "True")
            };
            same("number of pods that are ready", pods.iter().filter(is_ready).count(), replicas)?;
            Ok(set)
        })
        .await
}

async fn scale(scope: &Scope) -> Result<()> {
    let sets = create(scope, 1, &rolling(0)).await?;
    let read = sets.get_part("db", "scale").await?;
    shows(
        &read,
        &json!({ "kind": "Scale", "spec": { "replicas": 1 }, "status": { "replicas": 1 } }),
    )?;
    sets.change("db", Some("scale"), |it| it["spec"]["replicas"] = json!(2)).await?;
    until_ready(scope, &sets, 2).await?;
    let patch = json!({ "spec": { "replicas": 4 } });
    let patched = sets.patch_part("db", "scale", Patch::Merge, &patch).await?;
    shows(&patched, &json!({ "kind": "Scale", "spec": { "replicas": 4 } }))?;
    until_ready(scope, &sets, 4).await?;
    let names = fields(&pods(scope, "app=db").await?, NAME);
    same("pods", names, ["db-0", "db-1", "db-2", "db-3"].map(str::to_owned).to_vec())
}

async fn collection(scope: &Scope) -> Result<()> {
    let sets = create(scope, 1, &rolling(0)).await?;
    count("StatefulSets", &sets.labeled("app=db").await?, 1)?;
    let patch = json!({
        "metadata": { "labels": { "patched": "true" } },
        "spec": { "replicas": 2, "template": { "spec": { "containers": [{ "name": "main", "image": PAUSE_OLDER }] } } },
    });
    let patched = sets.patch("db", Patch::Strategic, &patch).await?;
    shows(
        &patched,
        &json!({ "metadata": { "labels": { "patched": "true" } }, "spec": { "replicas": 2 } }),
    )?;
    until_ready(scope, &sets, 2).await?;
    let options = [("labelSelector", "patched=true")];
    sets.delete_all(&options).await?;
    scope
        .until("the set is gone", async || count("StatefulSets", &sets.list(&options).await?, 0))
        .await
}

async fn until_images(scope: &Scope, expected: &[&str]) -> Result<()> {
    let expected: Vec<String> = expected.iter().map(|it| (*it).to_owned()).collect();
    scope
        .until("the pods have the images of their templates", async || {
            let pods = pods(scope, "app=db").await?;
            same("images", fields(&pods, IMAGE), expected.clone())
        })
        .await
}

async fn set_image(sets: &Collection<'_>, image: &str) -> Result<()> {
    sets.change("db", None, |it| {
        it["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    })
    .await
    .map(drop)
}

async fn phases(scope: &Scope) -> Result<()> {
    let sets = create(scope, 3, &rolling(3)).await?;
    let before = until_ready(scope, &sets, 3).await?["status"].clone();
    same("revisions", &before["currentRevision"], &before["updateRevision"])?;
    // Nobody is above the partition.
    set_image(&sets, PAUSE_OLDER).await?;
    let set = until_ready(scope, &sets, 3).await?;
    ensure!(set["status"]["updateRevision"] != before["updateRevision"], "no new revision");
    same("the current revision", &set["status"]["currentRevision"], &before["currentRevision"])?;
    until_images(scope, &[PAUSE; 3]).await?;
    // A canary, which comes back as one; the others as they were.
    sets.change("db", None, |it| it["spec"]["updateStrategy"] = rolling(2)).await?;
    until_images(scope, &[PAUSE, PAUSE, PAUSE_OLDER]).await?;
    until_ready(scope, &sets, 3).await?;
    for index in [0, 2] {
        replace(scope, &pods(scope, "app=db").await?[index]).await?;
        until_ready(scope, &sets, 3).await?;
    }
    until_images(scope, &[PAUSE, PAUSE, PAUSE_OLDER]).await?;
    for partition in [1, 0] {
        sets.change("db", None, |it| it["spec"]["updateStrategy"] = rolling(partition)).await?;
        let mut images = [PAUSE_OLDER; 3];
        images[..partition].fill(PAUSE);
        until_images(scope, &images).await?;
        until_ready(scope, &sets, 3).await?;
    }
    let status =
        json!({ "updatedReplicas": 3, "currentRevision": set["status"]["updateRevision"] });
    scope
        .until("the rollout is over", async || {
            shows(&sets.get("db").await?, &json!({ "status": status }))
        })
        .await
}

async fn back_and_forth(scope: &Scope) -> Result<()> {
    let sets = create(scope, 3, &rolling(0)).await?;
    let first = until_ready(scope, &sets, 3).await?["status"]["updateRevision"].clone();
    for (image, is_first) in [(PAUSE_OLDER, false), (PAUSE, true)] {
        set_image(&sets, image).await?;
        until_images(scope, &[image; 3]).await?;
        let over = scope.until("the rollout is over", async || {
            let set = until_ready(scope, &sets, 3).await?;
            same("revisions", &set["status"]["currentRevision"], &set["status"]["updateRevision"])?;
            Ok(set)
        });
        let revision = over.await?["status"]["updateRevision"].clone();
        // The template of then has the revision of then.
        same("whether it is the first revision", revision == first, is_first)?;
        let pods = pods(scope, "app=db").await?;
        let made = fields(&pods, "/metadata/creationTimestamp");
        ensure!(made.is_sorted_by(|one, two| one >= two), "the highest goes first, saw {made:?}");
        let path = "/metadata/labels/controller-revision-hash";
        let label = revision.as_str().unwrap_or_default().to_owned();
        same("revisions of pods", fields(&pods, path), vec![label; 3])?;
    }
    Ok(())
}

async fn status(scope: &Scope) -> Result<()> {
    let sets = create(scope, 1, &rolling(0)).await?;
    shows(&sets.get_part("db", "status").await?, &json!({ "status": { "replicas": 1 } }))?;
    for (kind, is_patch) in [("StatusUpdate", false), ("StatusPatched", true)] {
        let condition =
            json!({ "type": kind, "status": "True", "reason": "E2E", "message": "Set by a case" });
        let answer = if is_patch {
            let patch = json!({ "status": { "conditions": [condition] } });
            sets.patch_part("db", "status", Patch::Merge, &patch).await?
        } else {
            let add = |it: &mut Value| it["status"]["conditions"] = json!([condition]);
            sets.change("db", Some("status"), add).await?
        };
        shows(&answer, &json!({ "status": { "conditions": [condition] } }))?;
    }
    Ok(())
}
