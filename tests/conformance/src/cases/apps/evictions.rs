//! PodDisruptionBudgets over pods that run: what they allow, and evictions that they hold up.

use anyhow::{Result, anyhow, ensure};
use serde_json::{Value, json};

use super::running::{lasting, nodes, until_ready};
use crate::cases::{Case, case};
use crate::client::{Collection, Patch};
use crate::expect::{name, refused, same, says, shows};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-apps] DisruptionController should block an eviction until the PDB is updated to allow it [Conformance]",
        held_up
    ),
    case!(
        "[sig-apps] DisruptionController should observe PodDisruptionBudget status updated [Conformance]",
        counts
    ),
    case!(
        "[sig-apps] DisruptionController should update/patch PodDisruptionBudget status [Conformance]",
        status
    ),
];

/// So many pods that are ready, of a ReplicaSet.
async fn run(scope: &Scope, replicas: usize) -> Result<Vec<Value>> {
    nodes(scope).await?;
    let labels = json!({ "app": "web" });
    let set = json!({ "metadata": { "name": "web" }, "spec": {
        "replicas": replicas, "selector": { "matchLabels": labels }, "template": lasting(&labels),
    } });
    scope.own("apps/v1", "replicasets").create(&set).await?;
    until_ready(scope, "app=web", replicas).await
}

async fn guard<'a>(scope: &'a Scope, available: &Value) -> Result<Collection<'a>> {
    let budgets = scope.own("policy/v1", "poddisruptionbudgets");
    let spec =
        json!({ "minAvailable": available, "selector": { "matchLabels": { "app": "web" } } });
    budgets.create(&json!({ "metadata": { "name": "web" }, "spec": spec })).await?;
    Ok(budgets)
}

async fn until_allowed(scope: &Scope, budgets: &Collection<'_>, expected: &Value) -> Result<()> {
    scope
        .until("the budget counts its pods", async || {
            let budget = budgets.get("web").await?;
            let seen = &budget["status"]["observedGeneration"];
            ensure!(*seen == budget["metadata"]["generation"], "the change is not observed");
            shows(&budget, &json!({ "status": expected }))
        })
        .await
}

async fn evict(scope: &Scope, pod: &str) -> Result<Value> {
    let eviction =
        json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": pod } });
    scope.own("v1", "pods").create_part(pod, "eviction", &eviction).await
}

async fn held_up(scope: &Scope) -> Result<()> {
    let pods = run(scope, 3).await?;
    let budgets = guard(scope, &json!(3)).await?;
    let none = json!({ "disruptionsAllowed": 0, "currentHealthy": 3, "desiredHealthy": 3 });
    until_allowed(scope, &budgets, &none).await?;
    let pod = name(&pods[0])?;
    let refusal = refused("an eviction", evict(scope, pod).await, 429)?;
    same("reason", refusal.reason(), "TooManyRequests")?;
    says("the refusal", refusal.message(), &["disruption budget"])?;
    let causes = &refusal.status["details"]["causes"];
    ensure!(causes[0]["reason"] == "DisruptionBudget", "expected the cause, saw {causes}");
    let patch = json!({ "spec": { "minAvailable": 2 } });
    budgets.patch("web", Patch::Merge, &patch).await?;
    until_allowed(scope, &budgets, &json!({ "disruptionsAllowed": 1, "desiredHealthy": 2 }))
        .await?;
    evict(scope, pod).await?;
    let collection = scope.own("v1", "pods");
    scope
        .until("the pod goes", async || match collection.get(pod).await {
            Ok(read) => {
                let goes = read["metadata"]["deletionTimestamp"].is_string();
                goes.then_some(()).ok_or_else(|| anyhow!("it stays: {}", read["status"]))
            }
            Err(err) => refused("the pod", Err::<(), _>(err), 404).map(drop),
        })
        .await?;
    // Another one has its place, and counts.
    until_allowed(scope, &budgets, &json!({ "disruptionsAllowed": 1, "currentHealthy": 3 })).await
}

async fn counts(scope: &Scope) -> Result<()> {
    let budgets = guard(scope, &json!(1)).await?;
    until_allowed(scope, &budgets, &json!({ "disruptionsAllowed": 0, "expectedPods": 0 })).await?;
    run(scope, 2).await?;
    let one = json!({
        "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2,
    });
    until_allowed(scope, &budgets, &one).await?;
    let read = budgets.get("web").await?;
    let conditions = read["status"]["conditions"].as_array().into_iter().flatten();
    let allowed = conditions.into_iter().find(|it| it["type"] == "DisruptionAllowed");
    let expected = json!({ "status": "True", "reason": "SufficientPods" });
    shows(allowed.unwrap_or(&Value::Null), &expected)
}

async fn status(scope: &Scope) -> Result<()> {
    let pods = run(scope, 2).await?;
    let budgets = guard(scope, &json!("50%")).await?;
    until_allowed(scope, &budgets, &json!({ "disruptionsAllowed": 1 })).await?;
    // As if somebody were about to delete it: the budget counts it as gone.
    let disrupted = json!({ name(&pods[0])?: "2126-01-02T03:04:05Z" });
    let changed = budgets
        .change("web", Some("status"), |it| it["status"]["disruptedPods"] = disrupted.clone())
        .await?;
    shows(&changed, &json!({ "status": { "disruptedPods": disrupted } }))?;
    until_allowed(scope, &budgets, &json!({ "disruptionsAllowed": 0, "currentHealthy": 1 }))
        .await?;
    let patch = json!({ "status": { "disruptedPods": null } });
    let patched = budgets.patch_part("web", "status", Patch::Merge, &patch).await?;
    let left = patched["status"]["disruptedPods"].as_object().map_or(0, serde_json::Map::len);
    same("number of disrupted pods", left, 0)
}
