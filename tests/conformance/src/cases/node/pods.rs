//! Pods that nobody runs: what the server makes of them and what it refuses.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::cases::{Case, case};
use crate::expect::{refused, same, says, shows};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-node] Pods Extended Pods Set QOS Class should be set on Pods with matching resource requests and limits for memory and cpu [Conformance]",
        quality
    ),
    case!(
        "[sig-node] Sysctls [LinuxOnly] [NodeConformance] should reject invalid sysctls [Conformance]",
        sysctls
    ),
];

/// A pod that stays where it is, since its scheduler does not exist.
pub(crate) fn idle_spec() -> Value {
    json!({
        "schedulerName": "conformance-nobody",
        "containers": [{ "name": "main", "image": "example.com/image:1" }],
    })
}

pub(crate) fn idle(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": idle_spec() })
}

async fn quality(scope: &Scope) -> Result<()> {
    let pods = scope.own("v1", "pods");
    let some = json!({ "cpu": "100m", "memory": "100Mi" });
    let table = [
        ("guaranteed", json!({ "requests": some, "limits": some }), "Guaranteed"),
        ("burstable", json!({ "requests": some }), "Burstable"),
        ("best-effort", json!({}), "BestEffort"),
    ];
    for (name, resources, expected) in table {
        let mut pod = idle(name);
        pod["spec"]["containers"][0]["resources"] = resources;
        pods.create(&pod).await?;
        shows(&pods.get(name).await?, &json!({ "status": { "qosClass": expected } }))?;
    }
    Ok(())
}

async fn sysctls(scope: &Scope) -> Result<()> {
    let mut pod = idle("tuned");
    pod["spec"]["securityContext"] = json!({ "sysctls": [
        { "name": "foo-", "value": "bar" },
        { "name": "kernel.shmmax", "value": "100000000" },
        { "name": "safe-and-unsafe", "value": "100000000" },
        { "name": "bar..", "value": "42" },
    ] });
    let refusal =
        refused("sysctls with wrong names", scope.own("v1", "pods").create(&pod).await, 422)?;
    same("reason", refusal.reason(), "Invalid")?;
    let said = refusal.message();
    says("the refusal", said, &[r#"Invalid value: "foo-""#, r#"Invalid value: "bar..""#])?;
    for right in ["safe-and-unsafe", "kernel.shmmax"] {
        ensure!(!said.contains(right), "expected nothing about {right}, saw {said}");
    }
    Ok(())
}
