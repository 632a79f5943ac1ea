//! ConfigMaps.

use anyhow::Result;
use serde_json::json;

use crate::cases::{Case, case};
use crate::expect::{refused, same};
use crate::operations::Operations;
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-node] ConfigMap should fail to create ConfigMap with empty key [Conformance]",
        empty_key
    ),
    case!("[sig-node] ConfigMap should run through a ConfigMap lifecycle [Conformance]", lifecycle),
    case!(
        "[sig-node] ConfigMap should update ConfigMap successfully [NodeConformance] [Conformance]",
        replace
    ),
];

async fn empty_key(scope: &Scope) -> Result<()> {
    let map = json!({ "metadata": { "name": "map" }, "data": { "": "value" } });
    let outcome = scope.own("v1", "configmaps").create(&map).await;
    same("reason", refused("an empty key", outcome, 422)?.reason(), "Invalid")
}

async fn lifecycle(scope: &Scope) -> Result<()> {
    let maps = Operations {
        group_version: "v1",
        resource: "configmaps",
        kind: "ConfigMap",
        is_namespaced: true,
        object: json!({ "data": { "valueName": "value" } }),
        change: json!({ "data": { "valueName": "value1" } }),
        status: None,
        names: None,
    };
    maps.check(scope).await
}

async fn replace(scope: &Scope) -> Result<()> {
    let maps = scope.own("v1", "configmaps");
    let map = |data| json!({ "metadata": { "name": "map" }, "data": data });
    maps.create(&map(json!({ "data-1": "value-1", "data-2": "value-2" }))).await?;
    // All of it is replaced, and without a resourceVersion whatever is there.
    let data = json!({ "data": "value" });
    maps.replace(&map(data.clone())).await?;
    same("data", &maps.get("map").await?["data"], &data)
}
