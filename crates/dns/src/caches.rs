//! The zone's [`Source`]: the informers' caches.

use std::net::IpAddr;
use std::sync::Arc;

use api::core::{Namespace, Service};
use api::discovery::EndpointSlice;
use apimachinery::ObjectKey;
use informer::{Factory, Indexer};

use crate::zone::{Host, Port, ServiceKind, ServiceNames, Source, dashed};

const BY_ADDRESS: &str = "dns/by_address";
const BY_SERVICE: &str = "dns/by_service";
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

pub(crate) struct Caches {
    namespaces: Indexer<Namespace>,
    services: Indexer<Service>,
    slices: Indexer<EndpointSlice>,
}

impl Caches {
    /// The factory is started by its owner, after this.
    pub(crate) fn new(factory: &Arc<Factory>) -> Self {
        let services = factory.informer::<Service>();
        services.add_index(BY_ADDRESS, |it| plain(&cluster_addresses(it)));
        let slices = factory.informer::<EndpointSlice>();
        slices.add_index(BY_SERVICE, |it| {
            service_of(it).into_iter().map(|it| it.to_string()).collect()
        });
        slices.add_index(BY_ADDRESS, |it| {
            it.endpoints.iter().flatten().flat_map(|it| plain(&it.addresses)).collect()
        });
        Self {
            namespaces: factory.informer::<Namespace>().indexer(),
            services: services.indexer(),
            slices: slices.indexer(),
        }
    }
}

/// Each address as we write it: IPv6 has several ways.
fn plain(addresses: &[String]) -> Vec<String> {
    let parsed = addresses.iter().filter_map(|it| it.parse::<IpAddr>().ok());
    parsed.map(|it| it.to_string()).collect()
}

fn cluster_addresses(service: &Service) -> Vec<String> {
    let Some(spec) = &service.spec else { return Vec::new() };
    let mut addresses = spec.cluster_ips.clone().unwrap_or_default();
    if addresses.is_empty() {
        addresses.extend(spec.cluster_ip.clone());
    }
    addresses.retain(|it| !it.is_empty() && it != "None");
    addresses
}

fn service_of(slice: &EndpointSlice) -> Option<ObjectKey> {
    let name = slice.metadata.labels.as_ref()?.get(SERVICE_LABEL)?;
    Some(ObjectKey::new(slice.metadata.namespace.clone().unwrap_or_default(), name.clone()))
}

fn protocol(text: Option<&str>) -> String {
    text.unwrap_or("TCP").to_ascii_lowercase()
}

fn is_headless(service: &Service) -> bool {
    service.spec.as_ref().and_then(|it| it.cluster_ip.as_deref()) == Some("None")
}

fn hosts_of(slice: &EndpointSlice, includes_unready: bool) -> Vec<Host> {
    let ports: Vec<Port> = slice
        .ports
        .iter()
        .flatten()
        .filter_map(|it| {
            Some(Port {
                name: it.name.clone().unwrap_or_default(),
                protocol: protocol(it.protocol.as_deref()),
                port: u16::try_from(it.port?).ok()?,
            })
        })
        .collect();
    let is_usable = |it: &k8s_openapi::api::discovery::v1::Endpoint| {
        includes_unready || it.conditions.as_ref().and_then(|it| it.ready).unwrap_or(true)
    };
    let mut hosts = Vec::new();
    for endpoint in slice.endpoints.iter().flatten().filter(|it| is_usable(it)) {
        for address in endpoint.addresses.iter().filter_map(|it| it.parse::<IpAddr>().ok()) {
            let name = endpoint.hostname.clone().unwrap_or_else(|| dashed(address));
            hosts.push(Host { name, address, ports: ports.clone() });
        }
    }
    hosts
}

impl Source for Caches {
    fn has_namespace(&self, namespace: &str) -> bool {
        self.namespaces.get(&ObjectKey::cluster(namespace)).is_some()
    }

    fn service(&self, namespace: &str, name: &str) -> Option<ServiceNames> {
        let key = ObjectKey::new(namespace.to_owned(), name.to_owned());
        let service = self.services.get(&key)?;
        let spec = service.spec.as_ref()?;
        let ports = spec.ports.iter().flatten().filter_map(|it| {
            Some(Port {
                name: it.name.clone().unwrap_or_default(),
                protocol: protocol(it.protocol.as_deref()),
                port: u16::try_from(it.port).ok()?,
            })
        });
        let ports: Vec<Port> = ports.collect();
        if spec.type_.as_deref() == Some("ExternalName") {
            let target = spec.external_name.clone().unwrap_or_default();
            let target = target.trim_end_matches('.').to_owned();
            return Some(ServiceNames { kind: ServiceKind::External(target), ports });
        }
        if !is_headless(&service) {
            let addresses = cluster_addresses(&service);
            let addresses = addresses.iter().filter_map(|it| it.parse().ok()).collect();
            return Some(ServiceNames { kind: ServiceKind::Cluster(addresses), ports });
        }
        let includes_unready = spec.publish_not_ready_addresses.unwrap_or(false);
        let mut hosts: Vec<Host> = Vec::new();
        for slice in self.slices.by_index(BY_SERVICE, &key.to_string()) {
            for host in hosts_of(&slice, includes_unready) {
                // Slices may overlap for a moment, and split the ports of one address.
                match hosts.iter_mut().find(|it| it.address == host.address) {
                    Some(known) => {
                        let new = host.ports.iter().filter(|it| !known.ports.contains(it));
                        let new: Vec<Port> = new.cloned().collect();
                        known.ports.extend(new);
                    }
                    None => hosts.push(host),
                }
            }
        }
        Some(ServiceNames { kind: ServiceKind::Headless(hosts), ports })
    }

    fn service_at(&self, address: IpAddr) -> Option<(String, String)> {
        let service =
            self.services.by_index(BY_ADDRESS, &address.to_string()).into_iter().next()?;
        Some((service.metadata.namespace.clone()?, service.metadata.name.clone()?))
    }

    fn endpoint_at(&self, address: IpAddr) -> Option<(String, String, String)> {
        for slice in self.slices.by_index(BY_ADDRESS, &address.to_string()) {
            let Some(key) = service_of(&slice) else { continue };
            if !self.services.get(&key).is_some_and(|it| is_headless(&it)) {
                continue;
            }
            if let Some(host) = hosts_of(&slice, true).into_iter().find(|it| it.address == address)
            {
                return Some((key.namespace.to_string(), key.name.to_string(), host.name));
            }
        }
        None
    }
}
