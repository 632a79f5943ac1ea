//! Which pods stand behind a Service, and on which ports: what Endpoints and EndpointSlices share.
//! Pure, but for the indexes' look-ups.

mod pace;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::core::pod::Pod;
use api::core::service::Service;
use api::object::key_of;
use apimachinery::ObjectKey;
use informer::Indexer;
use k8s_openapi::api::core::v1::{Container, ObjectReference, PodIP, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use reconcile::{Change, WorkQueue};

pub(crate) use self::pace::Pace;
use crate::pods::BY_LABEL;
use crate::{labels, owners, pods};

pub(crate) const HEADLESS_LABEL: &str = "service.kubernetes.io/headless";

/// Index: one label that a Service asks for, with its namespace: a pod has few labels, so the Services that may select it
/// are found without looking at the others.
pub(crate) const BY_SELECTOR: &str = "selector";

pub(crate) fn index_by_selector(service: &Service) -> Vec<String> {
    let namespace = owners::namespace(&service.metadata);
    let first = selector(service).and_then(|it| it.first_key_value());
    first.map(|(key, value)| labels::index_value(namespace, key, value)).into_iter().collect()
}

/// The selector of a Service whose endpoints are made here, never empty; absent for others.
pub(crate) fn selector(service: &Service) -> Option<&BTreeMap<String, String>> {
    let spec = service.spec.as_ref()?;
    if spec.type_.as_deref() == Some("ExternalName") {
        return None;
    }
    spec.selector.as_ref().filter(|it| !it.is_empty())
}

fn matches(selector: &BTreeMap<String, String>, pod: &Pod) -> bool {
    let labels = pod.metadata.labels.as_ref();
    labels.is_some_and(|labels| selector.iter().all(|(key, value)| labels.get(key) == Some(value)))
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

/// The Services that select a pod. The Services need the index `BY_SELECTOR`.
fn services_of(services: &Indexer<Service>, pod: &Pod) -> Vec<ObjectKey> {
    pods::index_by_label(pod)
        .iter()
        .flat_map(|it| services.by_index(BY_SELECTOR, it))
        .filter(|it| selector(it).is_some_and(|selector| matches(selector, pod)))
        .map(|it| key_of(&it.metadata))
        .collect()
}

/// The pods that a Service selects, sorted by key, found through the rarest of its labels. The pods need the index
/// `BY_LABEL`.
pub(crate) fn selected(
    pods: &Indexer<Pod>,
    namespace: &str,
    selector: &BTreeMap<String, String>,
) -> Vec<Arc<Pod>> {
    let values = selector.iter().map(|(key, value)| labels::index_value(namespace, key, value));
    let rarest = values.min_by_key(|it| pods.count_by_index(BY_LABEL, it));
    let mut selected = rarest.map(|it| pods.by_index(BY_LABEL, &it)).unwrap_or_default();
    selected.retain(|it| matches(selector, it));
    selected
}

/// Wakes the Services that select a pod when something that endpoints show has changed.
pub(crate) fn follow_pod(change: Change<'_, Pod>, services: &Indexer<Service>, queue: &WorkQueue) {
    if let Change::Updated { before, after } = change
        && !is_relevant(before, after)
    {
        return;
    }
    change.states().flat_map(|it| services_of(services, it)).for_each(|it| queue.add(it));
}

/// Whether endpoints could differ between two states of a pod.
fn is_relevant(before: &Pod, after: &Pod) -> bool {
    before.metadata.labels != after.metadata.labels
        || owners::is_deleting(&before.metadata) != owners::is_deleting(&after.metadata)
        || pods::is_ready(before) != pods::is_ready(after)
        || pods::is_terminal(before) != pods::is_terminal(after)
        || pods::node_name(before) != pods::node_name(after)
        || ips(before) != ips(after)
        || before.metadata.uid != after.metadata.uid
}

fn ips(pod: &Pod) -> Option<&Vec<PodIP>> {
    pod.status.as_ref()?.pod_ips.as_ref()
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
