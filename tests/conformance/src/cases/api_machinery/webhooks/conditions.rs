//! Match conditions of webhooks: as a part of objects, as what spares them questions, and wrong ones.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::hook::{GROUP, Hook, Kind, rule};
use super::{ADDED, maps};
use crate::expect::{refused, says, shows};
use crate::scope::{Scope, named};

/// As objects; nobody has to answer for them.
async fn conditions(scope: &Scope, kind: Kind) -> Result<()> {
    let url = "https://localhost:1/nobody";
    let condition =
        |name: &str, expression: &str| json!([{ "name": name, "expression": expression }]);
    let webhook = json!({
        "name": "conditions.example.com", "clientConfig": { "url": url },
        "rules": [rule(&["CREATE"], "configmaps")], "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "namespaceSelector": { "matchLabels": { "conformance": scope.unique("no-namespace") } },
        "matchConditions": condition("first", "true"),
    });
    let name = scope.unique("conditions");
    let configurations = scope.all(GROUP, kind.resource());
    let object = json!({ "metadata": named(scope, &name), "webhooks": [webhook] });
    let made = configurations.create(&object).await?;
    let has = |expected: Value| json!({ "webhooks": [{ "matchConditions": expected }] });
    shows(&made, &has(condition("first", "true")))?;
    let second = condition("second", "object.metadata.name != 'skip-me'");
    let change = |it: &mut Value| it["webhooks"][0]["matchConditions"] = second.clone();
    let changed = configurations.change(&name, None, change).await?;
    shows(&changed, &has(second.clone()))?;
    shows(&configurations.get(&name).await?, &has(second))
}

pub(super) async fn mutating(scope: &Scope) -> Result<()> {
    conditions(scope, Kind::Mutating).await
}

pub(super) async fn validating(scope: &Scope) -> Result<()> {
    conditions(scope, Kind::Validating).await
}

/// One condition holds for all, the other for all but one name.
pub(super) async fn skipped(scope: &Scope) -> Result<()> {
    let hook = Hook::start(scope).await?;
    let mut webhook = hook.at(ADDED, maps());
    webhook["matchConditions"] = json!([
        { "name": "of-the-case", "expression": "object.metadata.namespace != ''" },
        { "name": "all-but-one", "expression": "object.metadata.name != 'skip-me'" },
    ]);
    hook.register(Kind::Mutating, "sparing", &[webhook]).await?;
    let collection = scope.own("v1", "configmaps");
    let map = |name: &str| json!({ "metadata": { "name": name } });
    scope
        .until("config maps are changed", async || {
            let made = collection.create(&map("some")).await?;
            collection.delete("some").await?;
            shows(&made, &json!({ "data": { "added": "yes" } }))
        })
        .await?;
    let made = collection.create(&map("skip-me")).await?;
    ensure!(made["data"].is_null(), "expected it as it came, saw {made}");
    shows(&collection.create(&map("other")).await?, &json!({ "data": { "added": "yes" } }))
}

/// A configuration whose condition means nothing is refused, with the reason.
async fn invalid(scope: &Scope, kind: Kind) -> Result<()> {
    let expressions = [
        ("...bad expression", &["Syntax error"][..]),
        ("object.metadata.name", &["must evaluate to bool"]),
        ("absent.name == 'x'", &["undeclared reference"]),
    ];
    for (expression, said) in expressions {
        let webhook = json!({
            "name": "invalid.example.com", "clientConfig": { "url": "https://localhost:1/nobody" },
            "rules": [rule(&["CREATE"], "configmaps")], "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "matchConditions": [{ "name": "wrong", "expression": expression }],
        });
        let object =
            json!({ "metadata": named(scope, &scope.unique("invalid")), "webhooks": [webhook] });
        let outcome = scope.all(GROUP, kind.resource()).create(&object).await;
        let refusal = refused(expression, outcome, 422)?;
        says("the refusal", refusal.message(), &["matchConditions[0].expression"])?;
        says("the refusal", refusal.message(), said)?;
    }
    Ok(())
}

pub(super) async fn invalid_mutating(scope: &Scope) -> Result<()> {
    invalid(scope, Kind::Mutating).await
}

pub(super) async fn invalid_validating(scope: &Scope) -> Result<()> {
    invalid(scope, Kind::Validating).await
}
