//! ConfigMaps and Secrets that are not to change.

use anyhow::Result;
use serde_json::{Value, json};

use crate::cases::{Case, case};
use crate::expect::{refused, same, shows};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-storage] ConfigMap should be immutable if `immutable` field is set [Conformance]",
        config_maps
    ),
    case!(
        "[sig-storage] Secrets should be immutable if `immutable` field is set [Conformance]",
        secrets
    ),
];

async fn config_maps(scope: &Scope) -> Result<()> {
    check(scope, "configmaps", ["value-1", "value-2", "value-3"]).await
}

async fn secrets(scope: &Scope) -> Result<()> {
    check(scope, "secrets", ["dmFsdWUtMQ==", "dmFsdWUtMg==", "dmFsdWUtMw=="]).await
}

async fn check(scope: &Scope, resource: &str, [one, two, three]: [&str; 3]) -> Result<()> {
    let objects = scope.own("v1", resource);
    let object = json!({ "metadata": { "name": "fixed" }, "data": { "one": one } });
    objects.create(&object).await?;
    objects.change("fixed", None, |it| it["data"]["two"] = json!(two)).await?;
    objects.change("fixed", None, |it| it["immutable"] = json!(true)).await?;

    let changes: [fn(&mut Value, &str); 4] = [
        |it, text| it["data"]["three"] = json!(text),
        |it, text| it["data"]["one"] = json!(text),
        |it, _| it["immutable"] = json!(false),
        |it, _| it["immutable"] = Value::Null,
    ];
    for change in changes {
        let outcome = objects.change("fixed", None, |it| change(it, three)).await;
        same("reason", refused("changing it", outcome, 422)?.reason(), "Invalid")?;
    }
    let read = objects.get("fixed").await?;
    shows(&read, &json!({ "immutable": true, "data": { "one": one, "two": two, "three": null } }))?;
    // What is not data may change, and it may go.
    let labels = json!({ "metadata": { "labels": { "a": "b" } } });
    let labeled = objects
        .change("fixed", None, |it| it["metadata"]["labels"] = labels["metadata"]["labels"].clone())
        .await?;
    shows(&labeled, &labels)?;
    objects.delete("fixed").await?;
    refused("reading what was deleted", objects.get("fixed").await, 404).map(drop)
}
