//! What cases of workloads share that need nodes: pods that run anywhere, and how they are found.
//!
//! Simulated nodes run no programs; what the programs would do is told to them by an annotation that
//! means nothing elsewhere.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::client::Patch;
use crate::expect::{items, name};
use crate::scope::{Scope, Skipped};

/// Runs until it is told to stop.
pub(crate) const PAUSE: &str = "registry.k8s.io/pause:3.10.2";
/// The same, but another image, for updates.
pub(crate) const PAUSE_OLDER: &str = "registry.k8s.io/pause:3.10";
const SHELL: &str = "registry.k8s.io/e2e-test-images/busybox:1.37.0-1";
const SIMULATION: &str = "simulator.xebec.local/containers";

/// A pod template with these labels that runs for ever.
pub(crate) fn lasting(labels: &Value) -> Value {
    json!({ "metadata": { "labels": labels }, "spec": {
        "terminationGracePeriodSeconds": 0,
        "containers": [{ "name": "main", "image": PAUSE }],
    } })
}

/// A pod template that runs a shell command; simulated nodes do what `script` says instead.
pub(crate) fn command(restarts: &str, command: &str, script: &str) -> Value {
    let container = json!({
        "name": "main", "image": SHELL, "command": ["sh", "-c", command],
        "volumeMounts": [{ "name": "scratch", "mountPath": "/scratch" }],
    });
    json!({
        "metadata": { "annotations": { SIMULATION: script } },
        "spec": {
            "restartPolicy": restarts, "terminationGracePeriodSeconds": 0,
            "volumes": [{ "name": "scratch", "emptyDir": {} }], "containers": [container],
        },
    })
}

/// The nodes that take pods of anybody, by name; without one a case is skipped.
pub(crate) async fn nodes(scope: &Scope) -> Result<Vec<String>> {
    let list = scope.all("v1", "nodes").list(&[]).await?;
    let mut names = Vec::new();
    for node in items(&list)? {
        let conditions = node["status"]["conditions"].as_array().map_or(&[][..], |it| it);
        let is_ready = conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == "True");
        let taints = node["spec"]["taints"].as_array().map_or(&[][..], |it| it);
        let repels = taints.iter().any(|it| it["effect"] != "PreferNoSchedule");
        if is_ready && !repels {
            names.push(name(node)?.to_owned());
        }
    }
    if names.is_empty() {
        return Err(Skipped("no node is ready".to_owned()).into());
    }
    Ok(names)
}

/// The pods with these labels that nobody deletes, by name.
pub(crate) async fn pods(scope: &Scope, selector: &str) -> Result<Vec<Value>> {
    let list = scope.own("v1", "pods").labeled(selector).await?;
    let there = items(&list)?.iter().filter(|it| it["metadata"]["deletionTimestamp"].is_null());
    let mut pods: Vec<Value> = there.cloned().collect();
    pods.sort_by_key(|it| it["metadata"]["name"].as_str().unwrap_or_default().to_owned());
    Ok(pods)
}

/// Fields of each pod, by path.
pub(crate) fn fields(pods: &[Value], path: &str) -> Vec<String> {
    let field =
        |it: &Value| it.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    pods.iter().map(field).collect()
}

pub(crate) const NAME: &str = "/metadata/name";
pub(crate) const UID: &str = "/metadata/uid";
pub(crate) const IMAGE: &str = "/spec/containers/0/image";

/// Deletes a pod at once and waits until another one has its place.
pub(crate) async fn replace(scope: &Scope, pod: &Value) -> Result<()> {
    let pods = scope.own("v1", "pods");
    let options =
        json!({ "gracePeriodSeconds": 0, "preconditions": { "uid": pod["metadata"]["uid"] } });
    pods.delete_with(name(pod)?, &options).await.context("deleting a pod")?;
    scope
        .until("the pod is gone", async || {
            if let Ok(read) = pods.get(name(pod)?).await {
                ensure!(read["metadata"]["uid"] != pod["metadata"]["uid"], "still there");
            }
            Ok(())
        })
        .await
}

/// What a pod waits for before it is ready, where its template is [`gated`].
const GATE: &str = "conformance.example.com/healthy";

/// Pods of this template are ready while the case says so, whatever their containers do.
pub(crate) fn gated(mut template: Value) -> Value {
    template["spec"]["readinessGates"] = json!([{ "conditionType": GATE }]);
    template
}

/// Says of a pod whether it may be ready.
pub(crate) async fn set_healthy(scope: &Scope, pod: &str, is_healthy: bool) -> Result<()> {
    let status = if is_healthy { "True" } else { "False" };
    let condition = json!({ "type": GATE, "status": status });
    let patch = json!({ "status": { "conditions": [condition] } });
    scope.own("v1", "pods").patch_part(pod, "status", Patch::Strategic, &patch).await.map(drop)
}

pub(crate) fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|it| it["type"] == "Ready" && it["status"] == "True")
}

/// Until there are so many pods with these labels, and all of them are ready.
pub(crate) async fn until_ready(
    scope: &Scope,
    selector: &str,
    expected: usize,
) -> Result<Vec<Value>> {
    scope
        .until("the pods are ready", async || {
            let pods = pods(scope, selector).await?;
            let n_ready = pods.iter().filter(|it| is_ready(it)).count();
            ensure!((n_ready, pods.len()) == (expected, expected), "{n_ready} of {}", pods.len());
            Ok(pods)
        })
        .await
}

/// Whether the object is among the owners of the other.
pub(crate) fn is_owned(object: &Value, owner: &Value) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.into_iter().any(|it| it["uid"] == owner["metadata"]["uid"])
}
