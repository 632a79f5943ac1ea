//! ReplicationControllers: their life, scale, and whose pods are whose; that every replica answers.

use anyhow::{Result, anyhow, ensure};
use serde_json::{Value, json};

use super::running::{is_owned, lasting, nodes};
use super::watched::{Watched, conditions};
use crate::cases::node::pods;
use crate::cases::{Case, case, toolbox};
use crate::client::{Collection, Patch};
use crate::expect::{count, items, name, says, shows};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-apps] ReplicationController should adopt matching pods on creation [Conformance]",
        adopts
    ),
    case!(
        "[sig-apps] ReplicationController should get and update a ReplicationController scale [Conformance]",
        scale
    ),
    case!(
        "[sig-apps] ReplicationController should release no longer matching pods [Conformance]",
        releases
    ),
    case!(
        "[sig-apps] ReplicationController should serve a basic image on each replica with a public image [Conformance]",
        serves
    ),
    case!(
        "[sig-apps] ReplicationController should surface a failure condition on a common issue like exceeded quota [Conformance]",
        says_what_stops_it
    ),
    case!(
        "[sig-apps] ReplicationController should test the lifecycle of a ReplicationController [Conformance]",
        lifecycle
    ),
];

async fn create(scope: &Scope) -> Result<(Collection<'_>, Value)> {
    let controllers = scope.own("v1", "replicationcontrollers");
    let labels = json!({ "app": "web" });
    let template = json!({ "metadata": { "labels": labels }, "spec": pods::idle_spec() });
    let made = controllers
        .create(&json!({ "metadata": { "name": "web" }, "spec": {
            "replicas": 1, "selector": labels, "template": template,
        } }))
        .await?;
    until_replicas(scope, &controllers, 1).await?;
    Ok((controllers, made))
}

async fn until_replicas(
    scope: &Scope,
    controllers: &Collection<'_>,
    replicas: usize,
) -> Result<()> {
    let status = json!({ "status": { "replicas": replicas } });
    scope.until("its pods are there", async || shows(&controllers.get("web").await?, &status)).await
}

async fn scale(scope: &Scope) -> Result<()> {
    let (controllers, made) = create(scope).await?;
    let read = controllers.get_part("web", "scale").await?;
    let metadata = json!({ "name": "web", "uid": made["metadata"]["uid"] });
    let expected = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata,
        "spec": { "replicas": 1 }, "status": { "replicas": 1, "selector": "app=web" },
    });
    shows(&read, &expected)?;
    let scaled =
        controllers.change("web", Some("scale"), |it| it["spec"]["replicas"] = json!(2)).await?;
    shows(&scaled, &json!({ "kind": "Scale", "spec": { "replicas": 2 } }))?;
    shows(&controllers.get("web").await?, &json!({ "spec": { "replicas": 2 } }))?;
    until_replicas(scope, &controllers, 2).await
}

async fn releases(scope: &Scope) -> Result<()> {
    let (_, made) = create(scope).await?;
    let pods = scope.own("v1", "pods");
    let list = pods.labeled("app=web").await?;
    let pod = items(&list)?.first().ok_or_else(|| anyhow!("expected a pod, saw none"))?;
    pods.change(name(pod)?, None, |it| it["metadata"]["labels"] = json!({ "app": "other" }))
        .await?;
    scope
        .until("the pod is released", async || {
            let read = pods.get(name(pod)?).await?;
            ensure!(!is_owned(&read, &made), "still owned: {}", read["metadata"]);
            Ok(())
        })
        .await
}

async fn says_what_stops_it(scope: &Scope) -> Result<()> {
    let quotas = scope.own("v1", "resourcequotas");
    let hard = json!({ "hard": { "pods": "2" } });
    quotas.create(&json!({ "metadata": { "name": "quota" }, "spec": hard })).await?;
    let used = json!({ "status": { "hard": { "pods": "2" }, "used": { "pods": "0" } } });
    scope.until("the quota is counted", async || shows(&quotas.get("quota").await?, &used)).await?;
    let controllers = scope.own("v1", "replicationcontrollers");
    let labels = json!({ "app": "web" });
    let template = json!({ "metadata": { "labels": labels }, "spec": pods::idle_spec() });
    let spec = json!({ "replicas": 3, "selector": labels, "template": template });
    controllers.create(&json!({ "metadata": { "name": "web" }, "spec": spec })).await?;
    let failure = async || -> Result<Option<Value>> {
        let read = controllers.get("web").await?;
        let conditions = read["status"]["conditions"].as_array().cloned().unwrap_or_default();
        Ok(conditions.into_iter().find(|it| it["type"] == "ReplicaFailure"))
    };
    let said = scope
        .until("it says what stops it", async || {
            failure().await?.ok_or_else(|| anyhow!("no condition"))
        })
        .await?;
    shows(&said, &json!({ "status": "True", "reason": "FailedCreate" }))?;
    says("the message", said["message"].as_str().unwrap_or_default(), &["exceeded quota: quota"])?;
    controllers.change("web", None, |it| it["spec"]["replicas"] = json!(2)).await?;
    scope
        .until("nothing stops it", async || {
            let failure = failure().await?;
            ensure!(failure.is_none(), "{failure:?}");
            Ok(())
        })
        .await
}

async fn adopts(scope: &Scope) -> Result<()> {
    let pods = scope.own("v1", "pods");
    let mut orphan = pods::idle("orphan");
    orphan["metadata"]["labels"] = json!({ "app": "web" });
    pods.create(&orphan).await?;
    let (_, made) = create(scope).await?;
    let read = pods.get("orphan").await?;
    ensure!(is_owned(&read, &made), "the orphan is not adopted: {}", read["metadata"]);
    count("pods", &pods.labeled("app=web").await?, 1)
}

async fn serves(scope: &Scope) -> Result<()> {
    toolbox::needs_real_nodes(scope).await?;
    let labels = json!({ "app": "web" });
    let spec = json!({
        "replicas": 2, "selector": labels, "template": toolbox::web_server(&labels),
    });
    let controllers = scope.own("v1", "replicationcontrollers");
    controllers.create(&json!({ "metadata": { "name": "web" }, "spec": spec })).await?;
    toolbox::each_answers_its_name(scope, "app=web", 2).await
}

async fn lifecycle(scope: &Scope) -> Result<()> {
    nodes(scope).await?;
    let label = format!("conformance={}", scope.suffix);
    let watched =
        Watched { group_version: "v1", resource: "replicationcontrollers", label: &label };
    let mut events = watched.open(scope).await?;
    let labels = json!({ "app": "web", "conformance": scope.suffix });
    let controllers = scope.own("v1", "replicationcontrollers");
    let spec = json!({ "replicas": 1, "selector": labels, "template": lasting(&labels) });
    let made = controllers
        .create(&json!({ "metadata": { "name": "web", "labels": labels }, "spec": spec }))
        .await?;
    let uid = json!({ "metadata": { "uid": made["metadata"]["uid"] } });
    events.expect("ADDED", &uid).await?;
    let ready = |n: usize| json!({ "status": { "replicas": n, "readyReplicas": n, "availableReplicas": n } });
    events.find("MODIFIED", &ready(1), &["MODIFIED"]).await?;
    let patch = json!({ "metadata": { "labels": { "step": "patched" } } });
    shows(&controllers.patch("web", Patch::Strategic, &patch).await?, &patch)?;
    events.find("MODIFIED", &patch, &["MODIFIED"]).await?;
    let patch = json!({ "status": { "readyReplicas": 0, "availableReplicas": 0 } });
    let patched = controllers.patch_part("web", "status", Patch::Strategic, &patch).await?;
    ensure!(patched["status"]["readyReplicas"].as_u64().unwrap_or(0) == 0, "{patched}");
    events.find("MODIFIED", &json!({ "status": { "readyReplicas": null } }), &["MODIFIED"]).await?;
    // Whose word it is puts that right.
    events.find("MODIFIED", &ready(1), &["MODIFIED"]).await?;
    conditions(&controllers, "web").await?;
    let patch = json!({ "spec": { "replicas": 2 } });
    let scaled = controllers.patch_part("web", "scale", Patch::Merge, &patch).await?;
    shows(&scaled, &json!({ "kind": "Scale", "spec": { "replicas": 2 } }))?;
    events.find("MODIFIED", &ready(2), &["MODIFIED"]).await?;
    let listed = scope.all("v1", "replicationcontrollers").labeled(&label).await?;
    count("ReplicationControllers of all namespaces", &listed, 1)?;
    let step = json!({ "metadata": { "labels": { "step": "updated" } } });
    controllers
        .change("web", None, |it| it["metadata"]["labels"]["step"] = json!("updated"))
        .await?;
    events.find("MODIFIED", &step, &["MODIFIED"]).await?;
    controllers.delete_all(&[("labelSelector", &label)]).await?;
    events.find("DELETED", &uid, &["MODIFIED"]).await.map(drop)
}
