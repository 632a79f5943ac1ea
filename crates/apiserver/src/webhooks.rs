//! What webhooks need of the server: where Services are, and a voice for what concerns whoever
//! wrote a configuration.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use admission::webhook::{Blocked, Notice};
use api::Lookup;
use api::core::{Event, Node, Pod, Service};
use api::discovery::EndpointSlice;
use apimachinery::{GroupResource, ObjectKey};
use client::hooks::{Resolve, Ways};
use k8s_openapi::api::core::v1::{EventSource, ObjectReference};
use k8s_openapi::api::discovery::v1::Endpoint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use lifecycle::Shutdown;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::cache::Cache;
use crate::kubelets::refuse_simulated;
use crate::own_calls;
use crate::pipeline::Core;

const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Notices that wait to be written; more are dropped.
const NOTICES_MAX: usize = 16;
/// Before the same configuration is spoken of again.
const NOTICE_INTERVAL: Duration = Duration::from_secs(300);
/// Configurations that are remembered for that.
const REMEMBERED_MAX: usize = 1024;

/// Services as this server's cache has them.
pub(crate) struct Services {
    cache: Weak<Cache>,
}

impl Services {
    pub(crate) fn new(cache: &Arc<Cache>) -> Self {
        Self { cache: Arc::downgrade(cache) }
    }
}

impl Resolve for Services {
    fn resolve(&self, namespace: &str, name: &str, port: u16) -> Result<Ways, String> {
        let cache = self.cache.upgrade().ok_or_else(|| "the server is stopping".to_owned())?;
        resolve(cache.as_ref(), namespace, name, port)
    }
}

fn resolve(
    lookup: &(dyn Lookup + 'static),
    namespace: &str,
    name: &str,
    port: u16,
) -> Result<Ways, String> {
    let key = ObjectKey::new(namespace, name);
    let service = lookup.get::<Service>(&key).ok_or_else(|| {
        format!("service {name:?} not found in namespace {namespace:?}: create it, or correct the webhook's clientConfig")
    })?;
    let spec = service.spec.clone().unwrap_or_default();
    if let (Some("ExternalName"), Some(host)) = (spec.type_.as_deref(), &spec.external_name) {
        return Ok(Ways { external: Some((host.clone(), port)), ..Ways::default() });
    }
    let mut ports = spec.ports.iter().flatten();
    let found = ports.find(|it| it.port == i32::from(port));
    let found =
        found.ok_or_else(|| format!("no service port {port} found for service {name:?}"))?;
    let port_name = found.name.as_deref().unwrap_or_default();
    let address = spec.cluster_ip.as_deref().and_then(|it| it.parse::<IpAddr>().ok());
    let mut endpoints = Vec::new();
    for stored in
        lookup.list(&GroupResource::new("discovery.k8s.io", "endpointslices"), Some(namespace))
    {
        if stored.meta.labels.get(SERVICE_NAME) != Some(name) {
            continue;
        }
        let Ok(slice) = stored.shared::<EndpointSlice>() else { continue };
        let mut ports = slice.ports.iter().flatten();
        let port = ports.find(|it| it.name.as_deref().unwrap_or_default() == port_name);
        let Some(port) = port.and_then(|it| u16::try_from(it.port?).ok()) else { continue };
        let ready = slice.endpoints.iter().flatten().filter(|it| is_ready(lookup, namespace, it));
        let addresses = ready.filter_map(|it| it.addresses.first()?.parse::<IpAddr>().ok());
        // The family that the Service names first comes first.
        let is_first = |it: &IpAddr| address.is_none_or(|first| first.is_ipv4() == it.is_ipv4());
        endpoints.extend(addresses.map(|it| (!is_first(&it), SocketAddr::new(it, port))));
    }
    let has_first = endpoints.iter().any(|it| !it.0);
    endpoints.retain(|it| !has_first || !it.0);
    Ok(Ways {
        endpoints: endpoints.into_iter().map(|it| it.1).collect(),
        cluster_address: address.map(|it| SocketAddr::new(it, port)),
        external: None,
    })
}

/// A pod of a node that is not real answers nobody.
fn is_ready(lookup: &(dyn Lookup + 'static), namespace: &str, endpoint: &Endpoint) -> bool {
    let conditions = endpoint.conditions.as_ref();
    if conditions.is_some_and(|it| it.ready == Some(false)) {
        return false;
    }
    let pod = endpoint.target_ref.as_ref().filter(|it| it.kind.as_deref() == Some("Pod"));
    let name = pod.and_then(|it| it.name.as_deref());
    let pod = name.and_then(|it| lookup.get::<Pod>(&ObjectKey::new(namespace, it)));
    let node = pod.as_ref().and_then(|it| it.spec.as_ref()?.node_name.as_deref());
    let node = node.and_then(|it| lookup.get::<Node>(&ObjectKey::cluster(it)));
    node.is_none_or(|it| refuse_simulated(&it).is_ok())
}

/// Where notices go in; they come out of the other end as Events.
pub(crate) struct Notices(mpsc::Sender<Blocked>);

pub(crate) fn notices() -> (Notices, mpsc::Receiver<Blocked>) {
    let (sender, receiver) = mpsc::channel(NOTICES_MAX);
    (Notices(sender), receiver)
}

impl Notice for Notices {
    fn blocks_itself(&self, blocked: Blocked) {
        // When there are many, one more tells nothing new.
        let _ = self.0.try_send(blocked);
    }
}

/// Writes an Event on the configuration for each notice, seldom enough.
pub(crate) async fn run(core: Arc<Core>, mut notices: mpsc::Receiver<Blocked>, shutdown: Shutdown) {
    let mut told: BTreeMap<(&'static str, String), Instant> = BTreeMap::new();
    while let Some(Some(blocked)) = shutdown.run_until_cancelled(notices.recv()).await {
        let now = Instant::now();
        told.retain(|_, at| now - *at < NOTICE_INTERVAL);
        let key = (blocked.kind, blocked.configuration.clone());
        if told.len() >= REMEMBERED_MAX || told.contains_key(&key) {
            continue;
        }
        told.insert(key, now);
        tracing::warn!(configuration = blocked.configuration, "{}", blocked.text);
        if let Err(err) = own_calls::create(&core, event(&core, &blocked)).await {
            tracing::warn!(error = %stdx::error_chain(&err), "an Event could not be written");
        }
    }
}

fn event(core: &Core, blocked: &Blocked) -> Event {
    let now = Time(core.world.clock.now());
    let suffix = core.world.random.next_u64();
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{suffix:016x}", blocked.configuration)),
            namespace: Some("default".to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("admissionregistration.k8s.io/v1".to_owned()),
            kind: Some(blocked.kind.to_owned()),
            name: Some(blocked.configuration.clone()),
            ..ObjectReference::default()
        },
        type_: Some("Warning".to_owned()),
        reason: Some("WebhookBlocksItself".to_owned()),
        // As long as the message of an Event may be.
        message: Some(
            format!("{}. Now: {}", blocked.text, blocked.now).chars().take(1024).collect(),
        ),
        source: Some(EventSource { component: Some("apiserver".to_owned()), host: None }),
        first_timestamp: Some(now.clone()),
        last_timestamp: Some(now),
        count: Some(1),
        ..Event::default()
    }
}
