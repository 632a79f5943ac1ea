//! ResourceQuotas, as objects; what they count is not asked.

use anyhow::Result;
use serde_json::json;

use crate::cases::{Case, case};
use crate::expect::{refused, shows};
use crate::operations::Operations;
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-api-machinery] ResourceQuota should be able to update and delete ResourceQuota. [Conformance]",
        replace_and_delete
    ),
    case!(
        "[sig-api-machinery] ResourceQuota should manage the lifecycle of a ResourceQuota [Conformance]",
        lifecycle
    ),
];

async fn replace_and_delete(scope: &Scope) -> Result<()> {
    let quotas = scope.own("v1", "resourcequotas");
    let quota = |cpu: &str, memory: &str| {
        let hard = json!({ "cpu": cpu, "memory": memory });
        json!({ "metadata": { "name": "quota" }, "spec": { "hard": hard } })
    };
    quotas.create(&quota("1", "500Mi")).await?;
    shows(&quotas.get("quota").await?, &quota("1", "500Mi"))?;
    // Without a resourceVersion it replaces whatever is there.
    shows(&quotas.replace(&quota("2", "1Gi")).await?, &quota("2", "1Gi"))?;
    shows(&quotas.get("quota").await?, &quota("2", "1Gi"))?;
    quotas.delete("quota").await?;
    refused("reading a quota that was deleted", quotas.get("quota").await, 404).map(drop)
}

async fn lifecycle(scope: &Scope) -> Result<()> {
    let quotas = Operations {
        group_version: "v1",
        resource: "resourcequotas",
        kind: "ResourceQuota",
        is_namespaced: true,
        object: json!({ "spec": { "hard": { "cpu": "1", "memory": "500Mi" } } }),
        change: json!({ "spec": { "hard": { "memory": "750Mi" } } }),
        status: None,
        names: None,
    };
    quotas.check(scope).await
}
