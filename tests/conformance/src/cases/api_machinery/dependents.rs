//! ReplicationControllers and their pods when the delete options say what becomes of whom.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::cases::apps::running::is_owned;
use crate::cases::node::pods;
use crate::cases::{Case, case};
use crate::client::{Collection, Patch};
use crate::expect::{count, items, name, same, shows};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-api-machinery] Garbage collector should keep the rc around until all its pods are deleted if the deleteOptions says so [Serial] [Conformance]",
        foreground
    ),
    case!(
        "[sig-api-machinery] Garbage collector should not delete dependents that have both valid owner and owner that's waiting for dependents to be deleted [Serial] [Conformance]",
        two_owners
    ),
    case!(
        "[sig-api-machinery] Garbage collector should orphan pods created by rc if delete options say so [Serial] [Conformance]",
        orphans
    ),
];

const HELD: &str = "conformance.example.com/held";

fn controllers(scope: &Scope) -> Collection<'_> {
    scope.own("v1", "replicationcontrollers")
}

/// With so many pods, all of them there.
async fn create(scope: &Scope, name: &str, replicas: usize) -> Result<Value> {
    let labels = json!({ "app": name });
    let template = json!({ "metadata": { "labels": labels }, "spec": pods::idle_spec() });
    let spec = json!({ "replicas": replicas, "selector": labels, "template": template });
    let controllers = controllers(scope);
    controllers.create(&json!({ "metadata": { "name": name }, "spec": spec })).await?;
    scope
        .until("all pods are there", async || {
            let read = controllers.get(name).await?;
            shows(&read, &json!({ "status": { "replicas": replicas } }))?;
            Ok(read)
        })
        .await
}

async fn pods_of(scope: &Scope, controller: &str) -> Result<Vec<Value>> {
    let list = scope.own("v1", "pods").labeled(&format!("app={controller}")).await?;
    Ok(items(&list)?.clone())
}

async fn delete(scope: &Scope, name: &str, policy: &str) -> Result<()> {
    let options = json!({ "propagationPolicy": policy });
    controllers(scope).delete_with(name, &options).await.map(drop)
}

async fn foreground(scope: &Scope) -> Result<()> {
    create(scope, "web", 10).await?;
    let pods = scope.own("v1", "pods");
    let held = name(&pods_of(scope, "web").await?[0])?.to_owned();
    let patch = json!({ "metadata": { "finalizers": [HELD] } });
    pods.patch(&held, Patch::Merge, &patch).await?;
    delete(scope, "web", "Foreground").await?;
    scope
        .until("one pod is left", async || {
            let left = pods_of(scope, "web").await?;
            same("number of pods", left.len(), 1)?;
            same("the pod", name(&left[0])?, &*held)
        })
        .await?;
    // Its owner waits for it.
    let owner = controllers(scope).get("web").await?;
    ensure!(owner["metadata"]["deletionTimestamp"].is_string(), "it is not deleted: {owner}");
    let finalizers = &owner["metadata"]["finalizers"];
    same("finalizers", finalizers, &json!(["foregroundDeletion"]))?;
    pods.patch(&held, Patch::Merge, &json!({ "metadata": { "finalizers": null } })).await?;
    scope.gone(&controllers(scope).object("web")).await?;
    count("pods", &pods.labeled("app=web").await?, 0)
}

async fn two_owners(scope: &Scope) -> Result<()> {
    let going = create(scope, "going", 10).await?;
    let staying = create(scope, "staying", 0).await?;
    let pods = scope.own("v1", "pods");
    let second = json!({
        "apiVersion": "v1", "kind": "ReplicationController", "name": "staying",
        "uid": staying["metadata"]["uid"],
    });
    let mut shared = Vec::new();
    for pod in pods_of(scope, "going").await?.iter().take(5) {
        let patch = json!({ "metadata": { "ownerReferences": [second] } });
        let patched = pods.patch(name(pod)?, Patch::Strategic, &patch).await?;
        ensure!(is_owned(&patched, &going) && is_owned(&patched, &staying), "{patched}");
        shared.push(name(pod)?.to_owned());
    }
    delete(scope, "going", "Foreground").await?;
    scope.gone(&controllers(scope).object("going")).await?;
    let mut left: Vec<String> = Vec::new();
    for pod in pods_of(scope, "going").await? {
        ensure!(pod["metadata"]["deletionTimestamp"].is_null(), "{} is deleted", name(&pod)?);
        ensure!(is_owned(&pod, &staying), "{} has lost its other owner", name(&pod)?);
        ensure!(!is_owned(&pod, &going), "{} names an owner that is gone", name(&pod)?);
        left.push(name(&pod)?.to_owned());
    }
    left.sort();
    shared.sort();
    same("pods that are left", left, shared)
}

async fn orphans(scope: &Scope) -> Result<()> {
    let owner = create(scope, "web", 10).await?;
    delete(scope, "web", "Orphan").await?;
    scope.gone(&controllers(scope).object("web")).await?;
    let left = pods_of(scope, "web").await?;
    same("number of pods", left.len(), 10)?;
    for pod in &left {
        ensure!(pod["metadata"]["deletionTimestamp"].is_null(), "{} is deleted", name(pod)?);
        ensure!(!is_owned(pod, &owner), "{} names an owner that is gone", name(pod)?);
    }
    Ok(())
}
