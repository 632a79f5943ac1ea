//! Nodes, as objects: nobody runs pods on these.

use anyhow::Result;
use serde_json::json;

use crate::cases::{Case, case};
use crate::operations::Operations;
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[case!(
    "[sig-node] Node Lifecycle should run through the lifecycle of a node [Conformance]",
    lifecycle
)];

async fn lifecycle(scope: &Scope) -> Result<()> {
    let nodes = Operations {
        group_version: "v1",
        resource: "nodes",
        kind: "Node",
        is_namespaced: false,
        object: json!({ "spec": { "unschedulable": true } }),
        change: json!({}),
        status: None,
        names: None,
    };
    nodes.check(scope).await
}
