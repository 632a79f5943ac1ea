//! Pods on a node whose taint does not let them stay. The node is one that nobody runs, so that
//! nothing else has to go: what is seen is who is told to.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cases::apps::running::PAUSE;
use crate::cases::{Case, case};
use crate::expect::name;
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-node] NoExecuteTaintManager Multiple Pods [Serial] evicts pods with minTolerationSeconds [Disruptive] [Conformance]",
        each_in_its_time
    ),
    case!(
        "[sig-node] NoExecuteTaintManager Single Pod [Serial] removing taint cancels eviction [Disruptive] [Conformance]",
        taken_back
    ),
];

const KEY: &str = "conformance.example.com/evict";

/// A node that takes no pods but those that name it.
async fn create_node(scope: &Scope) -> Result<String> {
    let taint = json!({ "key": "conformance.example.com/own", "effect": "NoSchedule" });
    let spec = json!({ "unschedulable": true, "taints": [taint] });
    let name = scope.unique("tainted");
    scope.all("v1", "nodes").create(&json!({ "metadata": { "name": name }, "spec": spec })).await?;
    Ok(name)
}

/// It bears the taint for so many seconds, and whatever else becomes of the node for good.
async fn create_pod(scope: &Scope, node: &str, name: &str, seconds: u64) -> Result<()> {
    let other = |key: &str| json!({ "key": key, "operator": "Exists", "effect": "NoExecute" });
    let own = json!({
        "key": KEY, "operator": "Equal", "value": "yes", "effect": "NoExecute",
        "tolerationSeconds": seconds,
    });
    let spec = json!({
        "nodeName": node, "terminationGracePeriodSeconds": 30,
        "containers": [{ "name": "main", "image": PAUSE }],
        "tolerations": [
            own, other("node.kubernetes.io/not-ready"), other("node.kubernetes.io/unreachable"),
        ],
    });
    let pod = json!({ "metadata": { "name": name }, "spec": spec });
    scope.own("v1", "pods").create(&pod).await.map(drop)
}

async fn taint(scope: &Scope, node: &str, is_on: bool) -> Result<()> {
    let taint = json!({ "key": KEY, "value": "yes", "effect": "NoExecute" });
    let nodes = scope.all("v1", "nodes");
    let change = |it: &mut Value| {
        let taints = it["spec"]["taints"].as_array_mut().into_iter();
        taints.for_each(|it| {
            it.retain(|it| it["key"] != KEY);
            it.extend(is_on.then(|| taint.clone()));
        });
    };
    let changed = nodes.change(node, None, change).await?;
    let taints = changed["spec"]["taints"].as_array().into_iter().flatten();
    let has = taints.into_iter().any(|it| it["key"] == KEY);
    ensure!(has == is_on, "expected the taint: {is_on}, saw {}", changed["spec"]);
    Ok(())
}

/// Whether the pod is told to go. With no kubelet on its node it may go at once.
async fn is_evicted(scope: &Scope, pod: &str) -> Result<bool> {
    let list = scope.own("v1", "pods").list(&[]).await?;
    let found = crate::expect::items(&list)?.iter().find(|it| name(it).is_ok_and(|it| it == pod));
    let Some(found) = found else { return Ok(true) };
    if found["metadata"]["deletionTimestamp"].is_null() {
        return Ok(false);
    }
    let conditions = found["status"]["conditions"].as_array().into_iter().flatten();
    let mut reasons = conditions.into_iter().filter(|it| it["type"] == "DisruptionTarget");
    let is_said = reasons.any(|it| it["reason"] == "DeletionByTaintManager");
    ensure!(is_said, "expected the condition DisruptionTarget, saw {}", found["status"]);
    Ok(true)
}

async fn until_evicted(scope: &Scope, pod: &str) -> Result<()> {
    scope
        .until("the pod is told to go", async || {
            ensure!(is_evicted(scope, pod).await?, "it stays");
            Ok(())
        })
        .await
}

/// Nothing is left for a node that is gone to do.
async fn remove(scope: &Scope, pods: &[&str]) {
    for pod in pods {
        let options = json!({ "gracePeriodSeconds": 0 });
        // It may be gone by now.
        let _ = scope.own("v1", "pods").delete_with(pod, &options).await;
    }
}

async fn each_in_its_time(scope: &Scope) -> Result<()> {
    let node = create_node(scope).await?;
    create_pod(scope, &node, "soon", 2).await?;
    create_pod(scope, &node, "later", 12).await?;
    let begin = Instant::now();
    taint(scope, &node, true).await?;
    ensure!(!is_evicted(scope, "soon").await?, "it went at once");
    until_evicted(scope, "soon").await?;
    ensure!(begin.elapsed() >= Duration::from_secs(1), "it went after {:?}", begin.elapsed());
    let later = is_evicted(scope, "later").await?;
    ensure!(!later || begin.elapsed() >= Duration::from_secs(11), "the second one went too soon");
    until_evicted(scope, "later").await?;
    ensure!(begin.elapsed() >= Duration::from_secs(11), "it went after {:?}", begin.elapsed());
    remove(scope, &["soon", "later"]).await;
    Ok(())
}

async fn taken_back(scope: &Scope) -> Result<()> {
    let node = create_node(scope).await?;
    create_pod(scope, &node, "stays", 6).await?;
    create_pod(scope, &node, "goes", 1).await?;
    taint(scope, &node, true).await?;
    // That the taint is seen shows the pod that bears it least.
    until_evicted(scope, "goes").await?;
    ensure!(!is_evicted(scope, "stays").await?, "it went at once");
    taint(scope, &node, false).await?;
    tokio::time::sleep(Duration::from_secs(8)).await;
    ensure!(!is_evicted(scope, "stays").await?, "it went although the taint is gone");
    remove(scope, &["stays", "goes"]).await;
    Ok(())
}
