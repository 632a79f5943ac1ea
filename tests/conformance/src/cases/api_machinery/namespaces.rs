//! Namespaces: their labels, status and finalizers; what is in them goes with them, pods first.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::cases::apps::running;
use crate::cases::node::pods;
use crate::cases::{Case, case};
use crate::client::Patch;
use crate::expect::{count, newer, same, shows, version};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-api-machinery] Namespaces [Serial] should apply a finalizer to a Namespace [Conformance]",
        finalizers
    ),
    case!(
        "[sig-api-machinery] Namespaces [Serial] should apply an update to a Namespace [Conformance]",
        replace
    ),
    case!(
        "[sig-api-machinery] Namespaces [Serial] should apply changes to a namespace status [Conformance]",
        status
    ),
    case!(
        "[sig-api-machinery] Namespaces [Serial] should ensure that all pods are removed when a namespace is deleted [Conformance]",
        pods_go
    ),
    case!(
        "[sig-api-machinery] Namespaces [Serial] should ensure that all services are removed when a namespace is deleted [Conformance]",
        services_go
    ),
    case!("[sig-api-machinery] Namespaces [Serial] should patch a Namespace [Conformance]", patch),
    case!(
        "[sig-api-machinery] OrderedNamespaceDeletion namespace deletion should delete pod first [Conformance]",
        pods_first
    ),
];

const FINALIZER: &str = "conformance.example.com/keeps";

async fn patch(scope: &Scope) -> Result<()> {
    let name = scope.another_namespace("patched").await?;
    let namespaces = scope.all("v1", "namespaces");
    let made = namespaces.get(&name).await?;
    version(&made)?;
    let labels = json!({ "metadata": { "labels": { "testLabel": "testValue" } } });
    let patched = namespaces.patch(&name, Patch::Strategic, &labels).await?;
    newer(&made, &patched)?;
    shows(&namespaces.get(&name).await?, &labels)
}

async fn replace(scope: &Scope) -> Result<()> {
    let namespaces = scope.all("v1", "namespaces");
    let changed = namespaces
        .change(&scope.namespace, None, |it| it["metadata"]["labels"]["replaced"] = json!("yes"))
        .await?;
    let labels = json!({ "replaced": "yes", "kubernetes.io/metadata.name": scope.namespace });
    shows(&changed, &json!({ "metadata": { "labels": labels } }))
}

async fn status(scope: &Scope) -> Result<()> {
    let namespaces = scope.all("v1", "namespaces");
    let read = namespaces.get_part(&scope.namespace, "status").await?;
    shows(&read, &json!({ "kind": "Namespace", "status": { "phase": "Active" } }))?;
    let condition = |kind: &str| json!({ "type": kind, "status": "True", "reason": "Conformance", "message": "of a test" });
    let patch = json!({
        "metadata": { "annotations": { "status": "patched" } },
        "status": { "conditions": [condition("Patched")] },
    });
    let patched = namespaces.patch_part(&scope.namespace, "status", Patch::Merge, &patch).await?;
    shows(&patched, &patch)?;
    let replaced = namespaces
        .change(&scope.namespace, Some("status"), |it| {
            if let Some(conditions) = it["status"]["conditions"].as_array_mut() {
                conditions.push(condition("Replaced"));
            }
        })
        .await?;
    let both = [condition("Patched"), condition("Replaced")];
    shows(&replaced, &json!({ "status": { "phase": "Active", "conditions": both } }))
}

fn has_finalizer(namespace: &Value) -> bool {
    let finalizers = namespace["spec"]["finalizers"].as_array();
    finalizers.is_some_and(|it| it.iter().any(|it| it == FINALIZER))
}

async fn finalizers(scope: &Scope) -> Result<()> {
    let name = scope.another_namespace("finalized").await?;
    let namespaces = scope.all("v1", "namespaces");
    let finalize = async |change: &dyn Fn(&mut Vec<Value>)| -> Result<Value> {
        scope
            .until("nobody is faster", async || {
                let mut namespace = namespaces.get(&name).await?;
                if let Some(finalizers) = namespace["spec"]["finalizers"].as_array_mut() {
                    change(finalizers);
                }
                namespaces.replace_part(&namespace, "finalize").await
            })
            .await
    };
    let with = finalize(&|it| it.push(json!(FINALIZER))).await?;
    ensure!(has_finalizer(&with), "expected {FINALIZER}, saw {}", with["spec"]);
    let without = finalize(&|it| it.retain(|it| it != FINALIZER)).await?;
    ensure!(!has_finalizer(&without), "expected no {FINALIZER}, saw {}", without["spec"]);
    same("other finalizers", &without["spec"]["finalizers"], &json!(["kubernetes"]))
}

async fn services_go(scope: &Scope) -> Result<()> {
    let name = scope.another_namespace("emptied").await?;
    let services = scope.in_namespace(&name, "v1", "services");
    let service = json!({ "metadata": { "name": "web" }, "spec": {
        "selector": { "app": "web" }, "ports": [{ "port": 80, "targetPort": 80 }],
    } });
    services.create(&service).await?;
    scope.all("v1", "namespaces").delete(&name).await?;
    scope.gone(&format!("/api/v1/namespaces/{name}")).await?;
    scope.another_namespace("emptied").await?;
    count("services of the new namespace", &services.list(&[]).await?, 0)
}

async fn pods_go(scope: &Scope) -> Result<()> {
    running::nodes(scope).await?;
    let name = scope.another_namespace("emptied").await?;
    let pods = scope.in_namespace(&name, "v1", "pods");
    let mut pod = running::lasting(&json!({}));
    pod["metadata"]["name"] = json!("web");
    pods.create(&pod).await?;
    let running = json!({ "status": { "phase": "Running" } });
    scope.until("the pod runs", async || shows(&pods.get("web").await?, &running)).await?;
    scope.all("v1", "namespaces").delete(&name).await?;
    scope.gone(&format!("/api/v1/namespaces/{name}")).await?;
    scope.another_namespace("emptied").await?;
    count("pods of the new namespace", &pods.list(&[]).await?, 0)
}

async fn pods_first(scope: &Scope) -> Result<()> {
    let name = scope.another_namespace("ordered").await?;
    let pods = scope.in_namespace(&name, "v1", "pods");
    let maps = scope.in_namespace(&name, "v1", "configmaps");
    let mut pod = pods::idle("held");
    pod["metadata"]["finalizers"] = json!([FINALIZER]);
    pods.create(&pod).await?;
    maps.create(&json!({ "metadata": { "name": "later" } })).await?;
    let namespaces = scope.all("v1", "namespaces");
    namespaces.delete(&name).await?;
    let remaining = json!({
        "type": "NamespaceContentRemaining", "status": "True", "reason": "SomeResourcesRemain",
    });
    scope
        .until("the namespace waits for the pod", async || {
            let namespace = namespaces.get(&name).await?;
            let conditions = namespace["status"]["conditions"].as_array().into_iter().flatten();
            let is_said = conditions.into_iter().any(|it| shows(it, &remaining).is_ok());
            ensure!(is_said, "saw {}", namespace["status"]);
            let pod = pods.get("held").await?;
            ensure!(pod["metadata"]["deletionTimestamp"].is_string(), "the pod is not deleted");
            Ok(())
        })
        .await?;
    let map = maps.get("later").await?;
    ensure!(map["metadata"]["deletionTimestamp"].is_null(), "what is no pod was deleted: {map}");
    pods.patch("held", Patch::Merge, &json!({ "metadata": { "finalizers": null } })).await?;
    scope.gone(&format!("/api/v1/namespaces/{name}")).await
}
