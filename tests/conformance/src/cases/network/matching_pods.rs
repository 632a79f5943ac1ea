//! Endpoints and EndpointSlices that follow the pods of a Service, and how soon they do.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cases::apps::running::{PAUSE, nodes, until_ready};
use crate::cases::{Case, case};
use crate::expect::{items, name, same, shows};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-network] EndpointSlice should create Endpoints and EndpointSlices for Pods matching a Service [Conformance]",
        slices_follow
    ),
    case!(
        "[sig-network] EndpointsController should create Endpoints for Pods matching a Service [Conformance]",
        endpoints_follow
    ),
    case!("[sig-network] Service endpoints latency should not be very high [Conformance]", latency),
];

/// An address with a port, and the pod that is behind them.
type Target = (String, u64, String);

/// Two pods that have different ports by the same name; what is behind the port of that name.
async fn run(scope: &Scope) -> Result<BTreeSet<Target>> {
    nodes(scope).await?;
    let pods = scope.own("v1", "pods");
    for (pod, port) in [("one", 3_000), ("two", 3_001)] {
        let container = json!({
            "name": "main", "image": PAUSE, "ports": [{ "name": "example", "containerPort": port }],
        });
        let metadata = json!({ "name": pod, "labels": { "app": "web", "one": pod } });
        let spec = json!({ "terminationGracePeriodSeconds": 0, "containers": [container] });
        pods.create(&json!({ "metadata": metadata, "spec": spec })).await?;
    }
    let ready = until_ready(scope, "app=web", 2).await?;
    let target = |pod: &Value| -> Result<Target> {
        let port = pod["spec"]["containers"][0]["ports"][0]["containerPort"].as_u64();
        let ip = pod["status"]["podIP"].as_str().unwrap_or_default().to_owned();
        Ok((ip, port.unwrap_or(0), name(pod)?.to_owned()))
    };
    ready.iter().map(target).collect()
}

async fn serve(scope: &Scope, service: &str, selector: &Value, target: &Value) -> Result<()> {
    let port = json!({ "name": "example", "port": 80, "targetPort": target, "protocol": "TCP" });
    let spec = json!({ "selector": selector, "ports": [port] });
    let object = json!({ "metadata": { "name": service }, "spec": spec });
    scope.own("v1", "services").create(&object).await.map(drop)
}

async fn in_slices(scope: &Scope, service: &str) -> Result<BTreeSet<Target>> {
    let selector = format!("kubernetes.io/service-name={service}");
    let list = scope.own("discovery.k8s.io/v1", "endpointslices").labeled(&selector).await?;
    let mut found = BTreeSet::new();
    for slice in items(&list)? {
        let port = slice["ports"][0]["port"].as_u64().unwrap_or(0);
        for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
            shows(
                endpoint,
                &json!({
                    "conditions": { "ready": true, "serving": true, "terminating": false },
                    "targetRef": { "kind": "Pod", "namespace": scope.namespace },
                }),
            )?;
            found.extend(pair(&endpoint["addresses"][0], port, &endpoint["targetRef"]["name"]));
        }
    }
    Ok(found)
}

async fn in_endpoints(scope: &Scope, service: &str) -> Result<BTreeSet<Target>> {
    let read = scope.own("v1", "endpoints").get(service).await?;
    let mut found = BTreeSet::new();
    for subset in read["subsets"].as_array().into_iter().flatten() {
        let port = subset["ports"][0]["port"].as_u64().unwrap_or(0);
        for address in subset["addresses"].as_array().into_iter().flatten() {
            found.extend(pair(&address["ip"], port, &address["targetRef"]["name"]));
        }
    }
    Ok(found)
}

fn pair(address: &Value, port: u64, pod: &Value) -> Option<Target> {
    Some((address.as_str()?.to_owned(), port, pod.as_str()?.to_owned()))
}

async fn until_slices(scope: &Scope, service: &str, expected: &BTreeSet<Target>) -> Result<()> {
    scope
        .until("the slices have the pods", async || {
            same("slices", &in_slices(scope, service).await?, expected)
        })
        .await
}

async fn until_endpoints(scope: &Scope, service: &str, expected: &BTreeSet<Target>) -> Result<()> {
    scope
        .until("the Endpoints have the pods", async || {
            same("Endpoints", &in_endpoints(scope, service).await?, expected)
        })
        .await
}

async fn slices_follow(scope: &Scope) -> Result<()> {
    let all = run(scope).await?;
    let one: BTreeSet<Target> = all.iter().filter(|it| it.2 == "one").cloned().collect();
    let none = BTreeSet::new();
    let services = [
        ("by-number", json!({ "one": "one" }), json!(3_000), &one),
        ("by-name", json!({ "app": "web" }), json!("example"), &all),
        ("nobody", json!({ "app": "nobody" }), json!(3_000), &none),
    ];
    for (service, selector, target, expected) in &services {
        serve(scope, service, selector, target).await?;
        until_endpoints(scope, service, expected).await?;
        until_slices(scope, service, expected).await?;
    }
    // What somebody deletes is made anew.
    scope.own("v1", "endpoints").delete("by-name").await?;
    until_endpoints(scope, "by-name", &all).await?;
    let slices = scope.own("discovery.k8s.io/v1", "endpointslices");
    slices.delete_all(&[("labelSelector", "kubernetes.io/service-name=by-name")]).await?;
    until_slices(scope, "by-name", &all).await
}

async fn endpoints_follow(scope: &Scope) -> Result<()> {
    let all = run(scope).await?;
    serve(scope, "web", &json!({ "app": "web" }), &json!("example")).await?;
    until_endpoints(scope, "web", &all).await?;
    let pods = scope.own("v1", "pods");
    let mut left = all.clone();
    for pod in ["one", "two"] {
        pods.delete_with(pod, &json!({ "gracePeriodSeconds": 0 })).await?;
        left.retain(|it| it.2 != pod);
        until_endpoints(scope, "web", &left).await?;
    }
    ensure!(left.is_empty(), "saw {left:?}");
    Ok(())
}

/// Of how many Services the times are taken.
const SERVICES: usize = 60;

async fn latency(scope: &Scope) -> Result<()> {
    run(scope).await?;
    let endpoints = scope.own("discovery.k8s.io/v1", "endpointslices");
    let mut times = Vec::new();
    for number in 0..SERVICES {
        let service = format!("web-{number}");
        let begin = Instant::now();
        let label = format!("kubernetes.io/service-name={service}");
        let mut events = endpoints.watch_from_now(&[("labelSelector", &*label)]).await?;
        serve(scope, &service, &json!({ "one": "one" }), &json!(3_000)).await?;
        loop {
            let event = events.next().await?;
            if event.object["endpoints"][0]["conditions"]["ready"] == true {
                break;
            }
        }
        times.push(begin.elapsed());
    }
    times.sort();
    let (half, most) = (times[SERVICES / 2], times[SERVICES * 99 / 100]);
    ensure!(half < Duration::from_secs(20), "half of them took longer than {half:?}");
    ensure!(most < Duration::from_secs(50), "one of a hundred took longer than {most:?}");
    Ok(())
}
