//! Secrets.

use anyhow::Result;
use serde_json::json;

use crate::cases::{Case, case};
use crate::expect::{refused, same};
use crate::operations::Operations;
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-node] Secrets should fail to create secret due to empty secret key [Conformance]",
        empty_key
    ),
    case!("[sig-node] Secrets should patch a secret [Conformance]", lifecycle),
];

async fn empty_key(scope: &Scope) -> Result<()> {
    let secret = json!({ "metadata": { "name": "secret" }, "data": { "": "dmFsdWU=" } });
    let outcome = scope.own("v1", "secrets").create(&secret).await;
    same("reason", refused("an empty key", outcome, 422)?.reason(), "Invalid")
}

async fn lifecycle(scope: &Scope) -> Result<()> {
    let secrets = Operations {
        group_version: "v1",
        resource: "secrets",
        kind: "Secret",
        is_namespaced: true,
        object: json!({ "type": "Opaque", "data": { "key": "dmFsdWU=" } }),
        change: json!({ "data": { "key": "dmFsdWUx" } }),
        status: None,
        names: None,
    };
    secrets.check(scope).await
}
