//! RuntimeClasses: objects, and pods that name one, whether it is there or not.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::pods;
use crate::cases::apps::running;
use crate::cases::{Case, case};
use crate::expect::{name, refused, same};
use crate::operations::Operations;
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-node] RuntimeClass should reject a Pod requesting a deleted RuntimeClass [NodeConformance] [Conformance]",
        deleted
    ),
    case!(
        "[sig-node] RuntimeClass should reject a Pod requesting a non-existent RuntimeClass [NodeConformance] [Conformance]",
        absent
    ),
    case!(
        "[sig-node] RuntimeClass should schedule a Pod requesting a RuntimeClass and initialize its Overhead [NodeConformance] [Conformance]",
        with_overhead
    ),
    case!(
        "[sig-node] RuntimeClass should schedule a Pod requesting a RuntimeClass without PodOverhead [NodeConformance] [Conformance]",
        without_overhead
    ),
    case!(
        "[sig-node] RuntimeClass should support RuntimeClasses API operations [Conformance]",
        operations
    ),
];

const GROUP: &str = "node.k8s.io/v1";

/// A pod of this class is refused, also when nothing would be kept.
async fn refuses(scope: &Scope, class: &str) -> Result<()> {
    let mut pod = pods::idle("pod");
    pod["spec"]["runtimeClassName"] = json!(class);
    for options in [&[("dryRun", "All")][..], &[]] {
        let outcome = scope.own("v1", "pods").create_with(&pod, options).await;
        same("reason", refused("a pod of an absent class", outcome, 403)?.reason(), "Forbidden")?;
    }
    Ok(())
}

async fn absent(scope: &Scope) -> Result<()> {
    refuses(scope, &scope.unique("absent")).await
}

async fn deleted(scope: &Scope) -> Result<()> {
    let classes = scope.all(GROUP, "runtimeclasses");
    let class = json!({ "metadata": { "name": scope.unique("short") }, "handler": "runc" });
    let class = classes.create(&class).await?;
    classes.delete(name(&class)?).await?;
    // Servers may remember the class for a moment.
    scope.until("pods of it are refused", async || refuses(scope, name(&class)?).await).await
}

async fn operations(scope: &Scope) -> Result<()> {
    let classes = Operations {
        group_version: GROUP,
        resource: "runtimeclasses",
        kind: "RuntimeClass",
        is_namespaced: false,
        object: json!({ "handler": "conformance" }),
        change: json!({ "overhead": { "podFixed": { "cpu": "10m" } } }),
        status: None,
        names: None,
    };
    classes.check(scope).await
}

/// A pod of a class that costs so much by itself: until it has a node; what the pod says it costs.
async fn schedule(scope: &Scope, overhead: &Value) -> Result<Value> {
    running::nodes(scope).await?;
    let classes = scope.all(GROUP, "runtimeclasses");
    let mut class = json!({ "metadata": { "name": scope.unique("class") }, "handler": "nobody" });
    class["overhead"] = overhead.clone();
    let class = classes.create(&class).await?;
    let mut pod = running::lasting(&json!({}));
    pod["metadata"]["name"] = json!("pod");
    pod["spec"]["runtimeClassName"] = json!(name(&class)?);
    let pods = scope.own("v1", "pods");
    scope.until("the class is known", async || pods.create(&pod).await.map(drop)).await?;
    let pod = scope
        .until("the pod has a node", async || {
            let read = pods.get("pod").await?;
            ensure!(read["spec"]["nodeName"].is_string(), "saw {}", read["status"]);
            Ok(read)
        })
        .await?;
    Ok(pod["spec"]["overhead"].clone())
}

async fn with_overhead(scope: &Scope) -> Result<()> {
    let fixed = json!({ "cpu": "10m", "memory": "1Mi" });
    same("overhead", schedule(scope, &json!({ "podFixed": fixed })).await?, fixed)
}

async fn without_overhead(scope: &Scope) -> Result<()> {
    same("overhead", schedule(scope, &Value::Null).await?, Value::Null)
}
