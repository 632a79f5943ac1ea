//! Leases, with times to the microsecond.

use anyhow::Result;
use serde_json::json;

use crate::cases::{Case, case};
use crate::operations::Operations;
use crate::scope::Scope;

pub(crate) const CASES: &[Case] =
    &[case!("[sig-node] Lease lease API should be available [Conformance]", operations)];

async fn operations(scope: &Scope) -> Result<()> {
    let spec = |holder: &str, transitions: u32, second: u32| {
        json!({ "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": 30, "leaseTransitions": transitions,
            "acquireTime": format!("0001-01-01T00:00:{second:02}.000000Z"),
            "renewTime": format!("2026-01-02T03:04:{second:02}.678901Z"),
        } })
    };
    let leases = Operations {
        group_version: "coordination.k8s.io/v1",
        resource: "leases",
        kind: "Lease",
        is_namespaced: true,
        object: spec("holder", 0, 2),
        change: spec("holder2", 1, 20),
        status: None,
        names: None,
    };
    leases.check(scope).await
}
