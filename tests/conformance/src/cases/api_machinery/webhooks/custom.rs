//! Webhooks and custom resources: asked like about all others.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::hook::{Hook, Kind};
use crate::cases::api_machinery::custom_resources::{Definition, anything, definitions};
use crate::client::Patch;
use crate::expect::{refused, says, shows};
use crate::scope::Scope;

fn rule(definition: &Definition, operations: &[&str]) -> Value {
    json!({
        "operations": operations, "apiGroups": [definition.group], "apiVersions": ["*"],
        "resources": [definition.plural],
    })
}

pub(super) async fn denied(scope: &Scope) -> Result<()> {
    let hook = Hook::start(scope).await?;
    let definition = Definition::simple(scope, "denied");
    definition.create(scope).await?;
    let all = rule(&definition, &["CREATE", "UPDATE", "DELETE"]);
    hook.register(Kind::Validating, "custom", &[hook.at("/deny-marked/mark", all)]).await?;
    let things = definition.resources(scope);
    let mut bad = definition.instance("bad");
    bad["data"] = json!({ "mark": "deny" });
    scope
        .until("a bad one is refused", async || {
            let refusal = refused("creating", things.create(&bad).await, 403)?;
            says("the refusal", refusal.message(), &["denied the request"])
        })
        .await?;
    let mut fine = definition.instance("fine");
    fine["data"] = json!({ "mark": "let" });
    things.create(&fine).await?;
    let patch = json!({ "data": { "mark": "deny" } });
    refused("changing", things.patch("fine", Patch::Merge, &patch).await, 403)?;
    // What was made before anybody looked cannot be deleted while somebody does.
    hook.unregister(Kind::Validating).await?;
    scope
        .until("it can be marked", async || {
            things.patch("fine", Patch::Merge, &patch).await.map(drop)
        })
        .await?;
    let all = rule(&definition, &["DELETE"]);
    hook.register(Kind::Validating, "deletion", &[hook.at("/deny-marked/mark", all)]).await?;
    scope
        .until("deletion is refused", async || {
            let options = json!({ "dryRun": ["All"] });
            refused("deleting", things.delete_with("fine", &options).await, 403).map(drop)
        })
        .await?;
    refused("deleting", things.delete("fine").await, 403)?;
    hook.unregister(Kind::Validating).await?;
    scope.until("it can be deleted", async || things.delete("fine").await.map(drop)).await
}

pub(super) async fn definition_denied(scope: &Scope) -> Result<()> {
    let hook = Hook::start(scope).await?;
    let rule = json!({
        "operations": ["CREATE"], "apiGroups": ["apiextensions.k8s.io"], "apiVersions": ["*"],
        "resources": ["customresourcedefinitions"],
    });
    let mut webhook = hook.at("/deny/no-kinds", rule);
    webhook["objectSelector"] = json!({ "matchLabels": { "conformance": scope.suffix } });
    hook.register(Kind::Validating, "definitions", &[webhook]).await?;
    let mut at = 0;
    scope
        .until("definitions are refused", async || {
            at += 1;
            let definition = Definition::simple(scope, &format!("refused{at}"));
            let refusal = refused("a definition", definition.create(scope).await, 403)?;
            says("the refusal", refusal.message(), &["denied the request: no-kinds"])
        })
        .await
}

async fn until_added(scope: &Scope, definition: &Definition) -> Result<Value> {
    let things = definition.resources(scope);
    scope
        .until("it is changed", async || {
            let mut thing = definition.instance("");
            thing["metadata"] = json!({ "generateName": "thing-" });
            thing["data"] = json!({ "start": "yes" });
            let made = things.create(&thing).await?;
            shows(&made, &json!({ "data": { "start": "yes", "first": "yes" } }))?;
            Ok(made)
        })
        .await
}

pub(super) async fn mutated(scope: &Scope) -> Result<()> {
    let hook = Hook::start(scope).await?;
    let definition = Definition::simple(scope, "mutated");
    definition.create(scope).await?;
    let create = rule(&definition, &["CREATE"]);
    let webhooks = [hook.at("/data/first", create.clone()), hook.at("/data/second", create)];
    hook.register(Kind::Mutating, "custom", &webhooks).await?;
    let made = until_added(scope, &definition).await?;
    shows(&made, &json!({ "data": { "second": "yes" } }))
}

pub(super) async fn pruned(scope: &Scope) -> Result<()> {
    let hook = Hook::start(scope).await?;
    let text = json!({ "type": "string" });
    let schema = json!({ "type": "object", "properties": { "data": {
        "type": "object", "properties": { "start": text, "first": text },
    } } });
    let definition = Definition::new(scope, "pruned", "thing", &["v1"], schema);
    definition.create(scope).await?;
    let create = rule(&definition, &["CREATE"]);
    let webhooks = [hook.at("/data/first", create.clone()), hook.at("/data/second", create)];
    hook.register(Kind::Mutating, "custom", &webhooks).await?;
    let made = until_added(scope, &definition).await?;
    ensure!(made["data"]["second"].is_null(), "what the schema does not have: {made}");
    Ok(())
}

pub(super) async fn stored_otherwise(scope: &Scope) -> Result<()> {
    let hook = Hook::start(scope).await?;
    let definition = Definition::new(scope, "stored", "thing", &["v1", "v2"], anything());
    definition.create(scope).await?;
    let changes = rule(&definition, &["CREATE", "UPDATE"]);
    hook.register(Kind::Mutating, "custom", &[hook.at("/data/first", changes)]).await?;
    let made = until_added(scope, &definition).await?;
    let name = crate::expect::name(&made)?.to_owned();
    // From now on the other version is stored.
    let patch = json!([
        { "op": "replace", "path": "/spec/versions/0/storage", "value": false },
        { "op": "replace", "path": "/spec/versions/1/storage", "value": true },
    ]);
    definitions(scope).patch(&definition.name(), Patch::Json, &patch).await?;
    let things = definition.resources(scope);
    scope
        .until("it can still be changed", async || {
            let patch = json!({ "data": { "later": "yes" } });
            let changed = things.patch(&name, Patch::Merge, &patch).await?;
            shows(&changed, &json!({ "data": { "first": "yes", "later": "yes" } }))
        })
        .await
}
