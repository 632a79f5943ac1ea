//! Which pods stand behind a Service, and on which ports: what Endpoints and EndpointSlices share.
//! Pure, but for the indexes' look-ups.

mod pace;
pub(crate) mod triggers;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::Identified as _;
use api::core::pod::{ContainerView, PodView};
use api::core::service::Service;
use apimachinery::ObjectKey;
use informer::Indexer;
use k8s_openapi::api::core::v1::{ObjectReference, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use reconcile::{Change, WorkQueue};

pub(crate) use self::pace::Pace;
pub(crate) use self::triggers::Triggers;
use crate::pods::BY_LABEL;
use crate::{labels, owners, pods};

pub(crate) const HEADLESS_LABEL: &str = "service.kubernetes.io/headless";

/// Index: one label that a Service asks for, with its namespace: a pod has few labels, so the
/// Services that may select it are found without looking at the others.
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

fn matches(selector: &BTreeMap<String, String>, pod: &PodView) -> bool {
    selector.iter().all(|(key, value)| pod.label(key) == Some(value))
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
pub(crate) fn services_of(services: &Indexer<Service>, pod: &PodView) -> Vec<ObjectKey> {
    pods::index_by_label(pod)
        .iter()
        .flat_map(|it| services.by_index(BY_SELECTOR, it))
        .filter(|it| selector(it).is_some_and(|selector| matches(selector, pod)))
        .map(|it| it.key())
        .collect()
}

/// The pods that a Service selects, sorted by key, found through the rarest of its labels. The pods
/// need the index `BY_LABEL`.
pub(crate) fn selected(
    pods: &Indexer<PodView>,
    namespace: &str,
    selector: &BTreeMap<String, String>,
) -> Vec<Arc<PodView>> {
    let values = selector.iter().map(|(key, value)| labels::index_value(namespace, key, value));
    let rarest = values.min_by_key(|it| pods.count_by_index(BY_LABEL, it));
    let mut selected = rarest.map(|it| pods.by_index(BY_LABEL, &it)).unwrap_or_default();
    selected.retain(|it| matches(selector, it));
    selected
}

/// Wakes the Services that select a pod, after a pause, when something that endpoints show has
/// changed.
pub(crate) fn follow_pod(
    change: Change<'_, PodView>,
    services: &Indexer<Service>,
    queue: &WorkQueue,
    pause: Duration,
) {
    if let Change::Updated { before, after } = change
        && !is_relevant(before, after)
    {
        return;
    }
    change
        .states()
        .flat_map(|it| services_of(services, it))
        .for_each(|it| queue.add_after(it, pause));
}

/// Whether endpoints could differ between two states of a pod.
fn is_relevant(before: &PodView, after: &PodView) -> bool {
    before.meta.labels != after.meta.labels
        || before.is_deleting() != after.is_deleting()
        || before.is_ready != after.is_ready
        || before.is_terminal() != after.is_terminal()
        || before.node_name != after.node_name
        || before.addresses != after.addresses
        || before.meta.uid != after.meta.uid
}

/// The number behind a Service's port in one pod; absent when the pod has no port of that name.
pub(crate) fn port_in(pod: &PodView, port: &ServicePort) -> Option<i32> {
    match &port.target_port {
        None => Some(port.port),
        Some(IntOrString::Int(0)) => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::String(name)) => {
            let protocol = protocol(port.protocol.as_deref());
            containers(pod)
                .flat_map(|it| &it.ports)
                .find(|it| {
                    let given = Some(it.protocol.as_str()).filter(|it| !it.is_empty());
                    it.name.as_str() == name && self::protocol(given) == protocol
                })
                .map(|it| it.number)
        }
    }
}

pub(crate) fn protocol(protocol: Option<&str>) -> &str {
    protocol.unwrap_or("TCP")
}

/// Containers, and those init containers that go on running beside them.
fn containers(pod: &PodView) -> impl Iterator<Item = &ContainerView> {
    let sidecars = pod.spec.init_containers.iter().filter(|it| it.is_sidecar);
    pod.spec.containers.iter().chain(sidecars)
}

pub(crate) fn target(pod: &PodView) -> ObjectReference {
    let ObjectKey { namespace, name } = pod.key();
    ObjectReference {
        kind: Some("Pod".to_owned()),
        namespace: Some(namespace),
        name: Some(name),
        uid: Some(pod.uid().to_owned()),
        ..ObjectReference::default()
    }
}

/// The DNS name that a pod asked for under a headless Service.
pub(crate) fn hostname(pod: &PodView, service: &Service) -> Option<String> {
    let is_ours = service.metadata.name.as_deref() == Some(&pod.spec.subdomain);
    Some(&*pod.spec.hostname).filter(|it| is_ours && !it.is_empty()).map(str::to_owned)
}

/// The pod's address of a family, `IPv4` or `IPv6`.
pub(crate) fn address<'a>(pod: &'a PodView, family: &str) -> Option<&'a str> {
    let is_of_family = |it: &&str| !it.is_empty() && it.contains(':') == (family == "IPv6");
    pod.addresses.iter().map(|it| &**it).find(is_of_family)
}
