//! PodDisruptionBudgets: as objects that their controller has seen, and in collections.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::cases::{Case, case};
use crate::client::{Collection, Patch};
use crate::expect::{items, refused, shows};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-apps] DisruptionController Listing PodDisruptionBudgets for all namespaces should list and delete a collection of PodDisruptionBudgets [Conformance]",
        collections
    ),
    case!("[sig-apps] DisruptionController should create a PodDisruptionBudget [Conformance]", one),
];

fn budget(name: &str, label: &str, available: &Value) -> Value {
    json!({
        "metadata": { "name": name, "labels": { "suite": label } },
        "spec": { "minAvailable": available, "selector": { "matchLabels": { "app": "web" } } },
    })
}

/// Until its controller has seen its newest form.
async fn until_seen(scope: &Scope, budgets: &Collection<'_>, name: &str) -> Result<Value> {
    scope
        .until("the budget is seen", async || {
            let budget = budgets.get(name).await?;
            let seen = &budget["status"]["observedGeneration"];
            ensure!(*seen == budget["metadata"]["generation"] && seen.is_i64(), "{budget}");
            Ok(budget)
        })
        .await
}

async fn one(scope: &Scope) -> Result<()> {
    let budgets = scope.own("policy/v1", "poddisruptionbudgets");
    budgets.create(&budget("web", "a", &json!("1%"))).await?;
    let made = until_seen(scope, &budgets, "web").await?;
    shows(&made, &json!({ "spec": { "minAvailable": "1%" }, "status": { "expectedPods": 0 } }))?;
    let changed =
        budgets.change("web", None, |it| it["spec"]["minAvailable"] = json!("2%")).await?;
    shows(&changed, &json!({ "spec": { "minAvailable": "2%" } }))?;
    until_seen(scope, &budgets, "web").await?;
    let patch = json!({ "spec": { "minAvailable": "3%" } });
    shows(&budgets.patch("web", Patch::Merge, &patch).await?, &patch)?;
    let seen = until_seen(scope, &budgets, "web").await?;
    shows(&seen, &json!({ "metadata": { "generation": 3 } }))?;
    budgets.delete("web").await?;
    refused("reading a budget that was deleted", budgets.get("web").await, 404).map(drop)
}

async fn collections(scope: &Scope) -> Result<()> {
    let other = scope.another_namespace("budgets").await?;
    let own = scope.own("policy/v1", "poddisruptionbudgets");
    let others = scope.in_namespace(&other, "policy/v1", "poddisruptionbudgets");
    let label = scope.suffix.as_str();
    for name in ["a", "b"] {
        own.create(&budget(name, label, &json!(1))).await?;
        until_seen(scope, &own, name).await?;
    }
    others.create(&budget("c", label, &json!(1))).await?;
    until_seen(scope, &others, "c").await?;
    let selector = format!("suite={label}");
    let n_listed = async |collection: &Collection<'_>| -> Result<usize> {
        Ok(items(&collection.labeled(&selector).await?)?.len())
    };
    let all = scope.all("policy/v1", "poddisruptionbudgets");
    let (n_all, n_own) = (n_listed(&all).await?, n_listed(&own).await?);
    ensure!((n_all, n_own) == (3, 2), "expected 3 in all and 2 here, saw {n_all} and {n_own}");
    own.delete_all(&[("labelSelector", &selector)]).await?;
    scope
        .until("those of this namespace are gone", async || {
            let (n_all, n_own) = (n_listed(&all).await?, n_listed(&own).await?);
            ensure!((n_all, n_own) == (1, 0), "{n_all} in all and {n_own} here");
            Ok(())
        })
        .await
}
