//! StatefulSets whose pods are not well: those that wait for each other and those that do not, and a
//! pod that its node refuses.

use std::collections::BTreeSet;

use anyhow::{Result, anyhow, ensure};
use serde_json::{Value, json};

use super::running::{NAME, UID, fields, gated, lasting, nodes, pods, set_healthy};
use crate::cases::{Case, case, toolbox};
use crate::client::Patch;
use crate::expect::{name, same, shows};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-apps] StatefulSet Basic StatefulSet functionality [StatefulSetBasic] Burst scaling should run to completion even with unhealthy pods [Slow] [Conformance]",
        burst
    ),
    case!(
        "[sig-apps] StatefulSet Basic StatefulSet functionality [StatefulSetBasic] Scaling should happen in predictable order and halt if any stateful pod is unhealthy [Slow] [Conformance]",
        in_order
    ),
    case!(
        "[sig-apps] StatefulSet Basic StatefulSet functionality [StatefulSetBasic] Should recreate evicted statefulset [Conformance]",
        refused_by_its_node
    ),
];

/// Of pods that are ready when the case says so.
async fn create(scope: &Scope, replicas: usize, policy: &str) -> Result<()> {
    nodes(scope).await?;
    let labels = json!({ "app": "db" });
    let set = json!({ "metadata": { "name": "db" }, "spec": {
        "replicas": replicas, "serviceName": "db", "podManagementPolicy": policy,
        "selector": { "matchLabels": labels }, "template": gated(lasting(&labels)),
    } });
    scope.own("apps/v1", "statefulsets").create(&set).await.map(drop)
}

async fn resize(scope: &Scope, replicas: usize) -> Result<()> {
    let patch = json!({ "spec": { "replicas": replicas } });
    scope.own("apps/v1", "statefulsets").patch("db", Patch::Merge, &patch).await.map(drop)
}

/// Until the set has these pods, and so many of them are ready.
async fn until(scope: &Scope, names: &[&str], n_ready: usize) -> Result<()> {
    let sets = scope.own("apps/v1", "statefulsets");
    scope
        .until(&format!("its pods are {names:?} and {n_ready} are ready"), async || {
            let set = sets.get("db").await?;
            let is_seen = set["status"]["observedGeneration"] == set["metadata"]["generation"];
            ensure!(is_seen, "the change is not observed");
            let pods = pods(scope, "app=db").await?;
            ensure!(fields(&pods, NAME) == names, "saw {:?}", fields(&pods, NAME));
            let running = pods.iter().filter(|it| it["status"]["phase"] == "Running").count();
            same("number of pods that run", running, names.len())?;
            let ready = set["status"]["readyReplicas"].as_u64().unwrap_or(0);
            same("number of pods that are ready", ready, n_ready as u64)
        })
        .await
}

/// What became of the set is told by its own status: it has looked at its pods since the change,
/// and has left them as they are.
async fn stays(scope: &Scope, names: &[&str]) -> Result<()> {
    let sets = scope.own("apps/v1", "statefulsets");
    for turn in 0..3 {
        let annotation = json!({ "metadata": { "annotations": { "looked": turn.to_string() } } });
        sets.patch("db", Patch::Merge, &annotation).await?;
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        let names: Vec<String> = names.iter().map(|it| (*it).to_owned()).collect();
        same("pods", fields(&pods(scope, "app=db").await?, NAME), names)?;
    }
    Ok(())
}

async fn in_order(scope: &Scope) -> Result<()> {
    let pods = scope.own("v1", "pods");
    let mut events = pods.watch_from_now(&[("labelSelector", "app=db")]).await?;
    create(scope, 1, "OrderedReady").await?;
    until(scope, &["db-0"], 0).await?;
    set_healthy(scope, "db-0", true).await?;
    until(scope, &["db-0"], 1).await?;
    set_healthy(scope, "db-0", false).await?;
    until(scope, &["db-0"], 0).await?;
    resize(scope, 3).await?;
    // Nobody comes after one that is not well.
    stays(scope, &["db-0"]).await?;
    set_healthy(scope, "db-0", true).await?;
    until(scope, &["db-0", "db-1"], 1).await?;
    set_healthy(scope, "db-1", true).await?;
    until(scope, &["db-0", "db-1", "db-2"], 2).await?;
    set_healthy(scope, "db-2", true).await?;
    until(scope, &["db-0", "db-1", "db-2"], 3).await?;
    // Nor does anybody go whom others of lower ordinals hold up.
    for pod in ["db-0", "db-1", "db-2"] {
        set_healthy(scope, pod, false).await?;
    }
    until(scope, &["db-0", "db-1", "db-2"], 0).await?;
    resize(scope, 0).await?;
    stays(scope, &["db-0", "db-1", "db-2"]).await?;
    set_healthy(scope, "db-2", true).await?;
    until(scope, &["db-0", "db-1"], 0).await?;
    stays(scope, &["db-0", "db-1"]).await?;
    // The lowest one waits for nobody.
    set_healthy(scope, "db-1", true).await?;
    until(scope, &[], 0).await?;
    let mut order = Vec::new();
    while order.len() < 6 {
        let event = events.next().await?;
        if event.kind != "MODIFIED" {
            order.push(format!("{} {}", event.kind, name(&event.object)?));
        }
    }
    let expected =
        ["ADDED db-0", "ADDED db-1", "ADDED db-2", "DELETED db-2", "DELETED db-1", "DELETED db-0"];
    same("the order", order, expected.map(str::to_owned).to_vec())
}

async fn burst(scope: &Scope) -> Result<()> {
    create(scope, 1, "Parallel").await?;
    until(scope, &["db-0"], 0).await?;
    resize(scope, 3).await?;
    until(scope, &["db-0", "db-1", "db-2"], 0).await?;
    for pod in ["db-0", "db-1", "db-2"] {
        set_healthy(scope, pod, true).await?;
    }
    until(scope, &["db-0", "db-1", "db-2"], 3).await?;
    set_healthy(scope, "db-1", false).await?;
    until(scope, &["db-0", "db-1", "db-2"], 2).await?;
    resize(scope, 0).await?;
    until(scope, &[], 0).await
}

/// Two pods want the same port of one node.
async fn refused_by_its_node(scope: &Scope) -> Result<()> {
    let node = toolbox::real_node(scope).await?;
    let port = 21_000 + u16::from(scope.suffix.bytes().fold(0, u8::wrapping_add));
    let template = |labels: &Value| {
        let mut template = toolbox::web_server(labels);
        template["spec"]["nodeName"] = json!(node);
        template["spec"]["containers"][0]["ports"][0]["hostPort"] = json!(port);
        template
    };
    let mut first = template(&json!({ "app": "first" }));
    first["metadata"]["name"] = json!("first");
    let collection = scope.own("v1", "pods");
    collection.create(&first).await?;
    let running = json!({ "status": { "phase": "Running" } });
    scope
        .until("the first one runs", async || shows(&collection.get("first").await?, &running))
        .await?;
    let labels = json!({ "app": "db" });
    let set = json!({ "metadata": { "name": "db" }, "spec": {
        "replicas": 1, "serviceName": "db", "selector": { "matchLabels": labels },
        "template": template(&labels),
    } });
    let mut events = collection.watch_from_now(&[("labelSelector", "app=db")]).await?;
    scope.own("apps/v1", "statefulsets").create(&set).await?;
    let mut refused = BTreeSet::new();
    // It is refused, and made anew, under the same name.
    while refused.len() < 2 {
        let event = events.next().await?;
        same("the pod's name", name(&event.object)?, "db-0")?;
        if event.object["status"]["phase"] == "Failed" {
            let uid = event.object["metadata"]["uid"].as_str();
            refused.insert(uid.ok_or_else(|| anyhow!("no uid"))?.to_owned());
        }
    }
    collection.delete_with("first", &json!({ "gracePeriodSeconds": 0 })).await?;
    scope
        .until("it runs where the first one ran", async || {
            let pods = pods(scope, "app=db").await?;
            let pod = pods.first().ok_or_else(|| anyhow!("there is no pod"))?;
            shows(
                pod,
                &json!({ "metadata": { "name": "db-0" }, "status": { "phase": "Running" } }),
            )?;
            ensure!(!refused.contains(&fields(&pods, UID)[0]), "one that was refused runs");
            Ok(())
        })
        .await
}
