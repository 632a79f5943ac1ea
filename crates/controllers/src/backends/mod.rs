//! Which pods stand behind a Service, and on which ports: what Endpoints and EndpointSlices share.
//! Pure, but for the indexes' look-ups.

use std::collections::BTreeMap;

use api::core::pod::Pod;
use api::core::service::Service;
use api::object::key_of;
use apimachinery::ObjectKey;
use apimachinery::selector::Labels;
use informer::Indexer;
use k8s_openapi::api::core::v1::{Container, ObjectReference, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::{owners, pods};

pub(crate) const HEADLESS_LABEL: &str = "service.kubernetes.io/headless";

/// The selector of a Service whose endpoints are made here; absent for others.
pub(crate) fn selector(service: &Service) -> Option<Labels> {
    let spec = service.spec.as_ref()?;
    if spec.type_.as_deref() == Some("ExternalName") {
        return None;
    }
    spec.selector.as_ref().filter(|it| !it.is_empty()).map(Labels::from_map)
}

pub(crate) fn is_headless(service: &Service) -> bool {
    service.spec.as_ref().and_then(|it| it.cluster_ip.as_deref()) == Some("None")
}

pub(crate) fn publishes_not_ready(service: &Service) -> bool {
    let publishes = service.spec.as_ref().and_then(|it| it.publish_not_ready_addresses);
    publishes.unwrap_or(false)
}

pub(crate) fn ports(service: &Service) -> &[ServicePort] {
    service.spec.as_ref().and_then(|it| it.ports.as_deref()).unwrap_or_default()
}

/// The Services that select a pod.
pub(crate) fn services_of(services: &Indexer<Service>, pod: &Pod) -> Vec<ObjectKey> {
    let no_labels = BTreeMap::new();
    let labels = pod.metadata.labels.as_ref().unwrap_or(&no_labels);
    services
        .list_namespace(owners::namespace(&pod.metadata))
        .iter()
        .filter(|it| selector(it).is_some_and(|selector| selector.matches(labels)))
        .map(|it| key_of(&it.metadata))
        .collect()
}

pub(crate) fn selected(
    pods: &Indexer<Pod>,
    namespace: &str,
    selector: &Labels,
) -> Vec<std::sync::Arc<Pod>> {
    let no_labels = BTreeMap::new();
    let mut selected = pods.list_namespace(namespace);
    selected.retain(|it| selector.matches(it.metadata.labels.as_ref().unwrap_or(&no_labels)));
    selected
}

/// Whether endpoints could differ between two states of a pod.
pub(crate) fn is_relevant(before: &Pod, after: &Pod) -> bool {
    let ips = |pod: &Pod| pod.status.as_ref().and_then(|it| it.pod_ips.clone());
    before.metadata.labels != after.metadata.labels
        || owners::is_deleting(&before.metadata) != owners::is_deleting(&after.metadata)
        || pods::is_ready(before) != pods::is_ready(after)
        || pods::is_terminal(before) != pods::is_terminal(after)
        || pods::node_name(before) != pods::node_name(after)
        || ips(before) != ips(after)
}

/// The number behind a Service's port in one pod; absent when the pod has no port of that name.
pub(crate) fn port_in(pod: &Pod, port: &ServicePort) -> Option<i32> {
    match &port.target_port {
        None => Some(port.port),
        Some(IntOrString::Int(0)) => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::String(name)) => {
            let protocol = protocol(port.protocol.as_deref());
            containers(pod)
                .flat_map(|it| it.ports.iter().flatten())
                .find(|it| {
                    it.name.as_deref() == Some(name.as_str())
                        && self::protocol(it.protocol.as_deref()) == protocol
                })
                .map(|it| it.container_port)
        }
    }
}

pub(crate) fn protocol(protocol: Option<&str>) -> &str {
    protocol.unwrap_or("TCP")
}

/// Containers, and those init containers that go on running beside them.
fn containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    let spec = pod.spec.as_ref();
    let sidecars = spec
        .and_then(|it| it.init_containers.as_ref())
        .into_iter()
        .flatten()
        .filter(|it| it.restart_policy.as_deref() == Some("Always"));
    spec.map(|it| it.containers.iter()).into_iter().flatten().chain(sidecars)
}

pub(crate) fn target(pod: &Pod) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".to_owned()),
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// The DNS name that a pod asked for under a headless Service.
pub(crate) fn hostname(pod: &Pod, service: &Service) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let is_ours = spec.subdomain.is_some() && spec.subdomain == service.metadata.name;
    spec.hostname.clone().filter(|it| is_ours && !it.is_empty())
}

/// The pod's address of a family, `IPv4` or `IPv6`.
pub(crate) fn address<'a>(pod: &'a Pod, family: &str) -> Option<&'a str> {
    let status = pod.status.as_ref()?;
    let is_of_family = |it: &&str| !it.is_empty() && it.contains(':') == (family == "IPv6");
    let all = status.pod_ips.iter().flatten().map(|it| it.ip.as_str());
    all.chain(status.pod_ip.as_deref()).find(is_of_family)
}
