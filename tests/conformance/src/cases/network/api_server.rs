//! The API server's own Service, by which pods find it.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::cases::{Case, case};
use crate::expect::{items, name, same, shows};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-network] API Server should have Endpoints and EndpointSlices pointing to API Server [Conformance]",
        endpoints
    ),
    case!("[sig-network] API Server should provide secure master service [Conformance]", service),
    case!(
        "[sig-network] Services should find a service from listing all namespaces [Conformance]",
        listed
    ),
];

async fn service(scope: &Scope) -> Result<()> {
    let service = scope.in_namespace("default", "v1", "services").get("kubernetes").await?;
    let ports = json!([{ "name": "https", "port": 443, "protocol": "TCP" }]);
    shows(&service, &json!({ "spec": { "type": "ClusterIP", "ports": ports } }))
}

async fn listed(scope: &Scope) -> Result<()> {
    let services = scope.all("v1", "services").list(&[]).await?;
    let is_it = |it: &Value| {
        name(it).is_ok_and(|it| it == "kubernetes") && it["metadata"]["namespace"] == "default"
    };
    ensure!(items(&services)?.iter().any(is_it), "expected default/kubernetes in all namespaces");
    Ok(())
}

fn texts(lists: &[&Value], field: &str) -> BTreeSet<String> {
    let entries = lists.iter().flat_map(|it| it.as_array().into_iter().flatten());
    entries.map(|it| it[field].to_string()).collect()
}

async fn endpoints(scope: &Scope) -> Result<()> {
    let endpoints = scope.in_namespace("default", "v1", "endpoints").get("kubernetes").await?;
    let subsets = endpoints["subsets"].as_array().map_or(&[][..], |it| it);
    ensure!(!subsets.is_empty(), "expected subsets, saw {endpoints}");
    let slices = scope.in_namespace("default", "discovery.k8s.io/v1", "endpointslices");
    let slices = slices.labeled("kubernetes.io/service-name=kubernetes").await?;
    let slices = items(&slices)?;
    ensure!(!slices.is_empty(), "expected slices, saw none");

    let lists: Vec<&Value> =
        subsets.iter().flat_map(|it| [&it["addresses"], &it["notReadyAddresses"]]).collect();
    let addresses = texts(&lists, "ip");
    let ports = texts(&subsets.iter().map(|it| &it["ports"]).collect::<Vec<_>>(), "port");
    // Endpoints are of the cluster's first family alone.
    let is_six = addresses.iter().any(|it| it.contains(':'));
    let family = if is_six { "IPv6" } else { "IPv4" };
    let of_family: Vec<&Value> = slices.iter().filter(|it| it["addressType"] == family).collect();
    let in_slices: BTreeSet<String> = of_family
        .iter()
        .flat_map(|it| it["endpoints"].as_array().into_iter().flatten())
        .flat_map(|it| it["addresses"].as_array().into_iter().flatten())
        .map(ToString::to_string)
        .collect();
    same("addresses in slices", in_slices, addresses)?;
    let in_slices = texts(&of_family.iter().map(|it| &it["ports"]).collect::<Vec<_>>(), "port");
    same("ports in slices", in_slices, ports)
}
