//! Addresses are of one pod each; EndpointSlices say who is ready, and what Endpoints say.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use client::Client;
use k8s_openapi::api::core::v1::{EndpointAddress, Endpoints, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::{all, label, name};

const SERVICE_NAME: &str = "kubernetes.io/service-name";
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";

pub(super) async fn violations(admin: &Client, pods: &[Arc<Pod>]) -> Result<Vec<String>> {
    let mut found = shared_addresses(pods);
    let (services, slices) = (all::<Service>(admin).await?, all::<EndpointSlice>(admin).await?);
    found.extend(wrong_endpoints(&services, &slices, pods));
    found.extend(wrong_mirrors(&services, &slices, &all::<Endpoints>(admin).await?));
    Ok(found)
}

fn address(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.pod_ip.as_deref()
}

fn shared_addresses(pods: &[Arc<Pod>]) -> Vec<String> {
    let mut holders: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for pod in pods {
        if let Some(address) = address(pod) {
            holders.entry(address).or_default().push(name(&pod.metadata));
        }
    }
    let is_shared = |(address, pods): (&str, Vec<&str>)| {
        (pods.len() > 1).then(|| format!("{address} is the address of {pods:?}"))
    };
    holders.into_iter().filter_map(is_shared).collect()
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|it| it.conditions.as_deref());
    conditions.unwrap_or_default().iter().any(|it| it.type_ == "Ready" && it.status == "True")
}

/// The endpoints of each Service with a selector are exactly its ready pods, each once.
fn wrong_endpoints(
    services: &[Arc<Service>],
    slices: &[Arc<EndpointSlice>],
    pods: &[Arc<Pod>],
) -> Vec<String> {
    let mut found = Vec::new();
    for service in services {
        let selector = service.spec.as_ref().and_then(|it| it.selector.as_ref());
        let Some(selector) = selector.filter(|it| !it.is_empty()) else { continue };
        let is_selected = |pod: &Pod| {
            let labels = pod.metadata.labels.as_ref();
            pod.metadata.namespace == service.metadata.namespace
                && selector
                    .iter()
                    .all(|(key, value)| labels.and_then(|it| it.get(key)) == Some(value))
        };
        let ready = pods.iter().filter(|it| is_selected(it) && is_ready(it));
        let mut expected: Vec<String> = ready
            .map(|it| format!("{} at {}", name(&it.metadata), address(it).unwrap_or("")))
            .collect();
        let mut shown = endpoints(service, slices);
        expected.sort();
        shown.sort();
        if shown != expected {
            let service = name(&service.metadata);
            found.push(format!(
                "Service {service} has the endpoints {shown:?}, its pods are {expected:?}"
            ));
        }
    }
    found
}

fn endpoints(service: &Service, slices: &[Arc<EndpointSlice>]) -> Vec<String> {
    let is_of = |slice: &EndpointSlice| {
        slice.metadata.namespace == service.metadata.namespace
            && label(&slice.metadata, SERVICE_NAME) == name(&service.metadata)
    };
    let endpoints =
        slices.iter().filter(|it| is_of(it)).flat_map(|it| it.endpoints.iter().flatten());
    let is_ready = |ready: Option<bool>| if ready == Some(true) { "" } else { " not ready" };
    endpoints
        .map(|it| {
            let pod = it.target_ref.as_ref().and_then(|it| it.name.as_deref()).unwrap_or("nobody");
            let ready = is_ready(it.conditions.as_ref().and_then(|it| it.ready));
            format!("{pod} at {}{ready}", it.addresses.join(","))
        })
        .collect()
}

/// The slices of a Service without a selector say what its Endpoints do.
fn wrong_mirrors(
    services: &[Arc<Service>],
    slices: &[Arc<EndpointSlice>],
    endpoints: &[Arc<Endpoints>],
) -> Vec<String> {
    let mut found = Vec::new();
    for service in services {
        let selector = service.spec.as_ref().and_then(|it| it.selector.as_ref());
        if selector.is_some_and(|it| !it.is_empty()) {
            continue;
        }
        let meta = &service.metadata;
        let named = endpoints
            .iter()
            .find(|it| it.metadata.namespace == meta.namespace && name(&it.metadata) == name(meta));
        let mirrored = named.filter(|it| label(&it.metadata, SKIP_MIRROR) != "true");
        let Some(mirrored) = mirrored else { continue };
        let mut expected = addresses_of(mirrored);
        let mut shown = self::endpoints(service, slices);
        expected.sort();
        shown.sort();
        if shown != expected {
            let service = name(meta);
            found.push(format!(
                "Service {service} has the endpoints {shown:?}, Endpoints say {expected:?}"
            ));
        }
    }
    found
}

fn addresses_of(endpoints: &Endpoints) -> Vec<String> {
    let mut all = Vec::new();
    for subset in endpoints.subsets.iter().flatten() {
        let of = |it: &EndpointAddress, ready: &str| format!("nobody at {}{ready}", it.ip);
        all.extend(subset.addresses.iter().flatten().map(|it| of(it, "")));
        all.extend(subset.not_ready_addresses.iter().flatten().map(|it| of(it, " not ready")));
    }
    all
}
