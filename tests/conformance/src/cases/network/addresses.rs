//! IPAddresses and ServiceCIDRs.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::cases::{Case, case};
use crate::expect::{items, name, same, shows};
use crate::operations::Operations;
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-network] ServiceCIDR and IPAddress API should support IPAddress API operations [Conformance]",
        addresses
    ),
    case!(
        "[sig-network] ServiceCIDR and IPAddress API should support ServiceCIDR API operations [Conformance]",
        ranges
    ),
];

const GROUP: &str = "networking.k8s.io/v1";

async fn addresses(scope: &Scope) -> Result<()> {
    // Addresses for documents; which ones follows from the case's suffix.
    let own = scope.suffix.bytes().fold(1_u16, |sum, it| sum.wrapping_mul(31) ^ u16::from(it)) | 1;
    let parent = json!({ "group": "example.com", "resource": "things", "namespace": "none", "name": "none" });
    let addresses = Operations {
        group_version: GROUP,
        resource: "ipaddresses",
        kind: "IPAddress",
        is_namespaced: false,
        object: json!({ "spec": { "parentRef": parent } }),
        change: json!({}),
        status: None,
        names: Some([1, 2, 3].map(|it| format!("2001:db8::{own:x}:{it}"))),
    };
    addresses.check(scope).await
}

async fn ranges(scope: &Scope) -> Result<()> {
    let ranges = scope.all(GROUP, "servicecidrs");
    let read = ranges.get("kubernetes").await?;
    let has_range = read["spec"]["cidrs"].as_array().is_some_and(|it| !it.is_empty());
    ensure!(has_range, "expected ranges, saw {read}");
    let status = ranges.get_part("kubernetes", "status").await?;
    shows(&status, &json!({ "apiVersion": GROUP, "kind": "ServiceCIDR" }))?;
    same("uid", &status["metadata"]["uid"], &read["metadata"]["uid"])?;
    let list = ranges.list(&[]).await?;
    let is_listed = items(&list)?.iter().any(|it| name(it).is_ok_and(|it| it == "kubernetes"));
    ensure!(is_listed, "expected kubernetes in the list, saw {list}");
    let select = [("fieldSelector", "metadata.name=kubernetes"), ("resourceVersion", "0")];
    let uid = json!({ "metadata": { "uid": read["metadata"]["uid"] } });
    ranges.watch(&select).await?.expect("ADDED", &uid).await.map(drop)
}
