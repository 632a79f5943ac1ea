//! Endpoints and EndpointSlices, as objects, and those of a Service that selects nothing.

use anyhow::{Result, anyhow};
use serde_json::{Value, json};

use crate::cases::{Case, case};
use crate::expect::{count, items, refused, same, shows};
use crate::operations::Operations;
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-network] EndpointSlice should create and delete EndpointSlices for a Service with a selector that matches no pods [Conformance]",
        empty_slice
    ),
    case!(
        "[sig-network] EndpointSlice should support creating EndpointSlice API operations [Conformance]",
        slices
    ),
    case!(
        "[sig-network] EndpointSliceMirroring should mirror a custom Endpoints resource through create update and delete [Conformance]",
        mirrored
    ),
    case!(
        "[sig-network] Endpoints should test the lifecycle of an Endpoint [Conformance]",
        endpoints
    ),
    case!(
        "[sig-network] EndpointsController should create and delete Endpoints for a Service with a selector that matches no pods [Conformance]",
        empty_endpoints
    ),
];

const GROUP: &str = "discovery.k8s.io/v1";

async fn slices(scope: &Scope) -> Result<()> {
    let port = |name: &str, port: u16| json!([{ "name": name, "port": port, "protocol": "TCP" }]);
    let slices = Operations {
        group_version: GROUP,
        resource: "endpointslices",
        kind: "EndpointSlice",
        is_namespaced: true,
        object: json!({
            "addressType": "IPv4", "ports": port("http", 80),
            "endpoints": [{ "addresses": ["192.0.2.1"] }, { "addresses": ["192.0.2.2"] }],
        }),
        change: json!({ "ports": port("https", 443) }),
        status: None,
        names: None,
    };
    slices.check(scope).await
}

async fn endpoints(scope: &Scope) -> Result<()> {
    let subsets = |address: &str, name: &str, port: u16| {
        let ports = json!([{ "name": name, "port": port, "protocol": "TCP" }]);
        json!({ "subsets": [{ "addresses": [{ "ip": address }], "ports": ports }] })
    };
    let endpoints = Operations {
        group_version: "v1",
        resource: "endpoints",
        kind: "Endpoints",
        is_namespaced: true,
        object: subsets("192.0.2.24", "http", 80),
        change: subsets("192.0.2.25", "http-test", 8_080),
        status: None,
        names: None,
    };
    endpoints.check(scope).await
}

fn service() -> Value {
    json!({ "metadata": { "name": "lonely" }, "spec": {
        "selector": { "matches": "nothing" },
        "ports": [{ "name": "example", "port": 80, "protocol": "TCP" }],
    } })
}

async fn empty_slice(scope: &Scope) -> Result<()> {
    let services = scope.own("v1", "services");
    services.create(&service()).await?;
    let slices = scope.own(GROUP, "endpointslices");
    let select = "kubernetes.io/service-name=lonely";
    let slice = scope
        .until("there is a slice", async || {
            let list = slices.labeled(select).await?;
            items(&list)?.first().cloned().ok_or_else(|| anyhow!("no slice"))
        })
        .await?;
    let managed =
        json!({ "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io" });
    shows(&slice, &json!({ "metadata": { "labels": managed } }))?;
    same("endpoints", slice["endpoints"].as_array().map_or(0, Vec::len), 0)?;
    services.delete("lonely").await?;
    scope
        .until("the slice is gone", async || count("slices", &slices.labeled(select).await?, 0))
        .await
}

async fn empty_endpoints(scope: &Scope) -> Result<()> {
    let services = scope.own("v1", "services");
    services.create(&service()).await?;
    let endpoints = scope.own("v1", "endpoints");
    scope.until("there are Endpoints", async || endpoints.get("lonely").await.map(drop)).await?;
    services.delete("lonely").await?;
    scope
        .until("the Endpoints are gone", async || {
            refused("the Endpoints", endpoints.get("lonely").await, 404).map(drop)
        })
        .await
}

async fn mirrored(scope: &Scope) -> Result<()> {
    let port = json!([{ "name": "example", "port": 80, "protocol": "TCP" }]);
    let service = json!({ "metadata": { "name": "by-hand" }, "spec": { "ports": port } });
    scope.own("v1", "services").create(&service).await?;
    let endpoints = scope.own("v1", "endpoints");
    let slices = scope.own(GROUP, "endpointslices");
    let select = "kubernetes.io/service-name=by-hand";
    let subsets = |ip: &str| json!([{ "addresses": [{ "ip": ip }], "ports": [{ "port": 80 }] }]);
    let object = |ip: &str| json!({ "metadata": { "name": "by-hand" }, "subsets": subsets(ip) });
    let shown = async |ip: &str| {
        let list = slices.labeled(select).await?;
        count("slices", &list, 1)?;
        let managed = json!({ "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io" });
        let expected = json!({
            "metadata": { "labels": managed }, "addressType": "IPv4",
            "endpoints": [{ "addresses": [ip] }], "ports": [{ "port": 80, "protocol": "TCP" }],
        });
        shows(&items(&list)?[0], &expected)
    };
    endpoints.create(&object("192.0.2.3")).await?;
    scope.until("the slice has the address", async || shown("192.0.2.3").await).await?;
    endpoints.replace(&object("192.0.2.4")).await?;
    scope.until("the slice has the other address", async || shown("192.0.2.4").await).await?;
    endpoints.delete("by-hand").await?;
    scope
        .until("the slice is gone", async || count("slices", &slices.labeled(select).await?, 0))
        .await
}
