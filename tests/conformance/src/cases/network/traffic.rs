//! Services that are reached, from a pod: as servers come and go, under every type, and from one
//! client that always meets the same server.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::cases::apps::running::{NAME, fields, until_ready};
use crate::cases::{Case, case, toolbox};
use crate::client::{Collection, Patch};
use crate::expect::{same, shows};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-network] Services should be able to change the type from ClusterIP to ExternalName [Conformance]",
        to_a_name
    ),
    case!(
        "[sig-network] Services should be able to change the type from ExternalName to ClusterIP [Conformance]",
        from_a_name
    ),
    case!(
        "[sig-network] Services should be able to change the type from ExternalName to NodePort [Conformance]",
        from_a_name_to_node_ports
    ),
    case!(
        "[sig-network] Services should be able to change the type from NodePort to ExternalName [Conformance]",
        from_node_ports_to_a_name
    ),
    case!(
        "[sig-network] Services should be able to create a functioning NodePort service [Conformance]",
        node_port
    ),
    case!(
        "[sig-network] Services should be able to switch session affinity for NodePort service [LinuxOnly] [Conformance]",
        switched_on_node_ports
    ),
    case!(
        "[sig-network] Services should be able to switch session affinity for service with type clusterIP [LinuxOnly] [Conformance]",
        switched
    ),
    case!(
        "[sig-network] Services should have session affinity work for NodePort service [LinuxOnly] [Conformance]",
        affine_on_node_ports
    ),
    case!(
        "[sig-network] Services should have session affinity work for service with type clusterIP [LinuxOnly] [Conformance]",
        affine
    ),
    case!(
        "[sig-network] Services should serve a basic endpoint from pods [Conformance]",
        servers_come_and_go
    ),
    case!(
        "[sig-network] Services should serve multiport endpoints from pods [Conformance]",
        two_ports
    ),
];

fn services(scope: &Scope) -> Collection<'_> {
    scope.own("v1", "services")
}

/// A pod from which Services are asked.
async fn client(scope: &Scope) -> Result<()> {
    let container = json!({ "name": "main", "image": toolbox::image(), "args": ["sleep", "3600"] });
    let spec = json!({ "terminationGracePeriodSeconds": 0, "containers": [container] });
    let metadata = json!({ "name": "client", "labels": { "app": "client" } });
    scope.own("v1", "pods").create(&json!({ "metadata": metadata, "spec": spec })).await?;
    until_ready(scope, "app=client", 1).await.map(drop)
}

/// So many servers, and the client; the servers' names.
async fn start(scope: &Scope, servers: usize) -> Result<BTreeSet<String>> {
    toolbox::needs_real_nodes(scope).await?;
    let labels = json!({ "app": "web" });
    let set = json!({ "metadata": { "name": "web" }, "spec": {
        "replicas": servers, "selector": { "matchLabels": labels },
        "template": toolbox::web_server(&labels),
    } });
    scope.own("apps/v1", "replicasets").create(&set).await?;
    client(scope).await?;
    let pods = until_ready(scope, "app=web", servers).await?;
    Ok(fields(&pods, NAME).into_iter().collect())
}

/// A Service of the servers, with more of a spec.
async fn serve(scope: &Scope, rest: &Value) -> Result<Value> {
    let mut spec = json!({
        "selector": { "app": "web" }, "ports": [{ "port": 80, "targetPort": toolbox::PORT }],
    });
    for (key, value) in rest.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    services(scope).create(&json!({ "metadata": { "name": "web" }, "spec": spec })).await
}

/// Who answers the client, so many times in a row.
async fn ask(scope: &Scope, authority: &str, times: usize) -> Result<Vec<String>> {
    let (url, times) = (format!("http://{authority}/"), times.to_string());
    let arguments = ["exec", "client", "--", "get", "-n", &times, "--timeout", "3", &url];
    let text = scope.kubectl()?.ok(&scope.namespace, &arguments).await?;
    Ok(text.lines().map(|it| it.trim().to_owned()).filter(|it| !it.is_empty()).collect())
}

async fn until_all_answer(
    scope: &Scope,
    authority: &str,
    expected: &BTreeSet<String>,
) -> Result<()> {
    scope
        .until(&format!("all servers answer at {authority}"), async || {
            let seen: BTreeSet<String> = ask(scope, authority, 20).await?.into_iter().collect();
            same("servers", &seen, expected)
        })
        .await
}

async fn until_silent(scope: &Scope, authority: &str) -> Result<()> {
    scope
        .until(&format!("nobody answers at {authority}"), async || {
            let answer = ask(scope, authority, 1).await;
            ensure!(answer.is_err(), "saw {answer:?}");
            Ok(())
        })
        .await
}

/// `address:port` of the Service on each node.
async fn on_nodes(scope: &Scope) -> Result<Vec<String>> {
    let service = services(scope).get("web").await?;
    let port = service["spec"]["ports"][0]["nodePort"].as_u64().context("there is no node port")?;
    let nodes = scope.all("v1", "nodes").list(&[]).await?;
    let addresses = crate::expect::items(&nodes)?
        .iter()
        .flat_map(|it| it["status"]["addresses"].as_array().cloned().unwrap_or_default());
    let found: Vec<String> = addresses
        .filter(|it| it["type"] == "InternalIP")
        .filter_map(|it| it["address"].as_str().filter(|it| !it.contains(':')).map(str::to_owned))
        .map(|it| format!("{it}:{port}"))
        .collect();
    ensure!(!found.is_empty(), "no node has an address: {nodes}");
    Ok(found)
}

fn address(service: &Value) -> &str {
    service["spec"]["clusterIP"].as_str().unwrap_or_default()
}

async fn change(scope: &Scope, spec: &Value) -> Result<Value> {
    services(scope).patch("web", Patch::Merge, &json!({ "spec": spec })).await
}

/// Another Service of the same servers, which the first one is an alias of.
async fn alias(scope: &Scope) -> Result<Value> {
    let port = json!([{ "port": 80, "targetPort": toolbox::PORT }]);
    let spec = json!({ "selector": { "app": "web" }, "ports": port });
    services(scope).create(&json!({ "metadata": { "name": "target" }, "spec": spec })).await?;
    let name = format!("target.{}.svc.cluster.local", scope.namespace);
    Ok(json!({ "type": "ExternalName", "externalName": name }))
}

async fn to_a_name(scope: &Scope) -> Result<()> {
    let servers = start(scope, 2).await?;
    serve(scope, &json!({ "type": "ClusterIP" })).await?;
    until_all_answer(scope, "web", &servers).await?;
    let changed = change(scope, &alias(scope).await?).await?;
    same("the address", address(&changed), "")?;
    until_all_answer(scope, "web", &servers).await
}

async fn from_a_name(scope: &Scope) -> Result<()> {
    let servers = start(scope, 2).await?;
    let alias = alias(scope).await?;
    let made = serve(scope, &alias).await?;
    same("the address", address(&made), "")?;
    until_all_answer(scope, "web", &servers).await?;
    let changed = change(scope, &json!({ "type": "ClusterIP", "externalName": null })).await?;
    ensure!(!address(&changed).is_empty(), "expected an address, saw {}", changed["spec"]);
    until_all_answer(scope, address(&changed), &servers).await?;
    until_all_answer(scope, "web", &servers).await
}

async fn from_a_name_to_node_ports(scope: &Scope) -> Result<()> {
    let servers = start(scope, 2).await?;
    let alias = alias(scope).await?;
    serve(scope, &alias).await?;
    let changed = change(scope, &json!({ "type": "NodePort", "externalName": null })).await?;
    ensure!(!address(&changed).is_empty(), "expected an address, saw {}", changed["spec"]);
    until_all_answer(scope, "web", &servers).await?;
    for authority in on_nodes(scope).await? {
        until_all_answer(scope, &authority, &servers).await?;
    }
    Ok(())
}

async fn from_node_ports_to_a_name(scope: &Scope) -> Result<()> {
    let servers = start(scope, 2).await?;
    serve(scope, &json!({ "type": "NodePort" })).await?;
    let before = on_nodes(scope).await?;
    for authority in &before {
        until_all_answer(scope, authority, &servers).await?;
    }
    let changed = change(scope, &alias(scope).await?).await?;
    shows(&changed, &json!({ "spec": { "ports": [{ "nodePort": null }] } }))?;
    for authority in &before {
        until_silent(scope, authority).await?;
    }
    until_all_answer(scope, "web", &servers).await
}

async fn node_port(scope: &Scope) -> Result<()> {
    let servers = start(scope, 2).await?;
    let made = serve(scope, &json!({ "type": "NodePort" })).await?;
    until_all_answer(scope, "web", &servers).await?;
    until_all_answer(scope, address(&made), &servers).await?;
    for authority in on_nodes(scope).await? {
        until_all_answer(scope, &authority, &servers).await?;
    }
    Ok(())
}

/// Whether the client always meets the same server.
async fn until_affine(scope: &Scope, authority: &str, is_affine: bool) -> Result<()> {
    scope
        .until(&format!("one server answers alone: {is_affine}"), async || {
            let seen: BTreeSet<String> = ask(scope, authority, 20).await?.into_iter().collect();
            ensure!((seen.len() == 1) == is_affine && !seen.is_empty(), "saw {seen:?}");
            Ok(())
        })
        .await
}

/// By its address, or on the nodes.
async fn ways(scope: &Scope, made: &Value) -> Result<Vec<String>> {
    match made["spec"]["type"] == "NodePort" {
        true => on_nodes(scope).await,
        false => Ok(vec![address(made).to_owned()]),
    }
}

async fn keeps(scope: &Scope, kind: &str) -> Result<()> {
    start(scope, 3).await?;
    let made = serve(scope, &json!({ "type": kind, "sessionAffinity": "ClientIP" })).await?;
    for authority in ways(scope, &made).await? {
        until_affine(scope, &authority, true).await?;
        // And it stays the same one.
        let first = ask(scope, &authority, 1).await?;
        same("who answers later", ask(scope, &authority, 1).await?, first)?;
    }
    Ok(())
}

async fn switches(scope: &Scope, kind: &str) -> Result<()> {
    start(scope, 3).await?;
    let made = serve(scope, &json!({ "type": kind, "sessionAffinity": "None" })).await?;
    for authority in ways(scope, &made).await? {
        until_affine(scope, &authority, false).await?;
        for (affinity, is_affine) in [("ClientIP", true), ("None", false)] {
            let patch = json!({ "sessionAffinity": affinity, "sessionAffinityConfig": null });
            change(scope, &patch).await?;
            until_affine(scope, &authority, is_affine).await?;
        }
    }
    Ok(())
}

async fn affine(scope: &Scope) -> Result<()> {
    keeps(scope, "ClusterIP").await
}

async fn affine_on_node_ports(scope: &Scope) -> Result<()> {
    keeps(scope, "NodePort").await
}

async fn switched(scope: &Scope) -> Result<()> {
    switches(scope, "ClusterIP").await
}

async fn switched_on_node_ports(scope: &Scope) -> Result<()> {
    switches(scope, "NodePort").await
}

/// A server whose port has a name.
async fn server(scope: &Scope, name: &str, port: &str) -> Result<()> {
    let mut pod = toolbox::web_server(&json!({ "app": "web", "server": name }));
    pod["metadata"]["name"] = json!(name);
    pod["spec"]["containers"][0]["ports"][0]["name"] = json!(port);
    scope.own("v1", "pods").create(&pod).await?;
    until_ready(scope, &format!("server={name}"), 1).await.map(drop)
}

async fn delete(scope: &Scope, name: &str) -> Result<()> {
    let options = json!({ "gracePeriodSeconds": 0 });
    scope.own("v1", "pods").delete_with(name, &options).await.map(drop)
}

async fn servers_come_and_go(scope: &Scope) -> Result<()> {
    toolbox::needs_real_nodes(scope).await?;
    client(scope).await?;
    serve(scope, &json!({})).await?;
    until_silent(scope, "web").await?;
    let of = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<BTreeSet<_>>();
    server(scope, "one", "web").await?;
    until_all_answer(scope, "web", &of(&["one"])).await?;
    server(scope, "two", "web").await?;
    until_all_answer(scope, "web", &of(&["one", "two"])).await?;
    delete(scope, "one").await?;
    until_all_answer(scope, "web", &of(&["two"])).await?;
    delete(scope, "two").await?;
    until_silent(scope, "web").await
}

async fn two_ports(scope: &Scope) -> Result<()> {
    toolbox::needs_real_nodes(scope).await?;
    client(scope).await?;
    let ports = json!([
        { "name": "first", "port": 80, "targetPort": "first" },
        { "name": "second", "port": 81, "targetPort": "second" },
    ]);
    serve(scope, &json!({ "ports": ports })).await?;
    let of = |name: &str| BTreeSet::from([name.to_owned()]);
    server(scope, "one", "first").await?;
    until_all_answer(scope, "web:80", &of("one")).await?;
    until_silent(scope, "web:81").await?;
    server(scope, "two", "second").await?;
    until_all_answer(scope, "web:81", &of("two")).await?;
    until_all_answer(scope, "web:80", &of("one")).await?;
    delete(scope, "one").await?;
    until_silent(scope, "web:80").await?;
    until_all_answer(scope, "web:81", &of("two")).await?;
    delete(scope, "two").await?;
    until_silent(scope, "web:81").await
}
