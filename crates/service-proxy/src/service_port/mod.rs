//! One port of a Service with the endpoints behind it, in plain terms: what every back end starts
//! from. Pure.
//!
//! Which endpoints take part is decided here, as upstream decides it (`pkg/proxy/topology.go`,
//! KEP-1669).

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use api::core::service::Service;
use api::discovery::EndpointSlice;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;

/// A Service with this label is somebody else's (KEP-2447).
const PROXY_NAME_LABEL: &str = "service.kubernetes.io/service-proxy-name";
/// Upstream's default for ClientIP affinity.
const AFFINITY_SECONDS: i32 = 10_800;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

impl Protocol {
    /// As in an IP header.
    pub const fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Sctp => 132,
        }
    }

    fn parse(text: Option<&str>) -> Option<Self> {
        match text {
            None | Some("TCP") => Some(Self::Tcp),
            Some("UDP") => Some(Self::Udp),
            Some("SCTP") => Some(Self::Sctp),
            Some(_) => None,
        }
    }
}

/// `internalTrafficPolicy` or `externalTrafficPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficPolicy {
    Cluster,
    Local,
}

impl TrafficPolicy {
    fn parse(text: Option<&str>) -> Self {
        if text == Some("Local") { Self::Local } else { Self::Cluster }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    pub address: Ipv4Addr,
    pub port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Network {
    pub address: Ipv4Addr,
    pub prefix_length: u8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    pub cluster_ip: Ipv4Addr,
    pub protocol: Protocol,
    pub port: u16,
    pub node_port: Option<u16>,
    pub external_ips: BTreeSet<Ipv4Addr>,
    pub load_balancer_ips: BTreeSet<Ipv4Addr>,
    /// Who may use the load balancer's addresses; empty: everybody.
    pub source_ranges: BTreeSet<Network>,
    /// How long a client stays with its endpoint.
    pub affinity: Option<Duration>,
    pub internal_policy: TrafficPolicy,
    pub external_policy: TrafficPolicy,
    pub endpoints: Endpoints,
}

/// The endpoints that take part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoints {
    /// The ready ones; if there are none, those that still serve while they terminate.
    pub cluster: BTreeSet<Endpoint>,
    /// The same choice among those on this node.
    pub local: BTreeSet<Endpoint>,
}

impl ServicePort {
    /// Whether it can be reached other than by its ClusterIP.
    pub fn has_external_frontends(&self) -> bool {
        self.node_port.is_some()
            || !self.external_ips.is_empty()
            || !self.load_balancer_ips.is_empty()
    }

    pub fn external_addresses(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.external_ips.union(&self.load_balancer_ips).copied()
    }
}

/// The ports that are ours to serve: none for headless Services, ExternalName, other families,
/// other proxies.
pub fn service_ports(
    service: &Service,
    slices: &[Arc<EndpointSlice>],
    node_name: &str,
) -> Vec<ServicePort> {
    let labels = service.metadata.labels.as_ref();
    let (Some(spec), None) = (&service.spec, labels.and_then(|it| it.get(PROXY_NAME_LABEL))) else {
        return Vec::new();
    };
    let Some(cluster_ip) = cluster_ip(spec) else { return Vec::new() };
    let ports = spec.ports.iter().flatten();
    ports
        .filter_map(|port| {
            Some(ServicePort {
                cluster_ip,
                protocol: Protocol::parse(port.protocol.as_deref())?,
                port: port_number(port.port)?,
                node_port: port.node_port.and_then(port_number),
                external_ips: addresses(spec.external_ips.iter().flatten()),
                load_balancer_ips: load_balancer_ips(service),
                source_ranges: source_ranges(spec),
                affinity: affinity(spec),
                internal_policy: TrafficPolicy::parse(spec.internal_traffic_policy.as_deref()),
                external_policy: TrafficPolicy::parse(spec.external_traffic_policy.as_deref()),
                endpoints: endpoints(port.name.as_deref(), slices, node_name),
            })
        })
        .collect()
}

/// Zero is no port: such as a node port that is not allocated.
fn port_number(number: i32) -> Option<u16> {
    u16::try_from(number).ok().filter(|it| *it != 0)
}

fn cluster_ip(spec: &core::ServiceSpec) -> Option<Ipv4Addr> {
    if spec.type_.as_deref() == Some("ExternalName") {
        return None;
    }
    let all = spec.cluster_ips.iter().flatten().chain(&spec.cluster_ip);
    all.filter_map(|it| it.parse().ok()).next()
}

fn addresses<'a>(texts: impl Iterator<Item = &'a String>) -> BTreeSet<Ipv4Addr> {
    texts.filter_map(|it| it.parse().ok()).collect()
}

/// Without those whose traffic the load balancer sends on itself (`ipMode: Proxy`, KEP-1860).
fn load_balancer_ips(service: &Service) -> BTreeSet<Ipv4Addr> {
    let is_load_balancer =
        service.spec.as_ref().is_some_and(|it| it.type_.as_deref() == Some("LoadBalancer"));
    let status = service.status.as_ref().filter(|_| is_load_balancer);
    let ingress = status.and_then(|it| it.load_balancer.as_ref()?.ingress.as_ref());
    let is_ours = |it: &&core::LoadBalancerIngress| it.ip_mode.as_deref() != Some("Proxy");
    addresses(ingress.into_iter().flatten().filter(is_ours).filter_map(|it| it.ip.as_ref()))
}

fn source_ranges(spec: &core::ServiceSpec) -> BTreeSet<Network> {
    let texts = spec.load_balancer_source_ranges.iter().flatten();
    texts
        .filter_map(|it| {
            let (address, length) = it.trim().split_once('/')?;
            let prefix_length = length.parse().ok().filter(|it| *it <= 32)?;
            Some(Network { address: address.parse().ok()?, prefix_length })
        })
        .collect()
}

fn affinity(spec: &core::ServiceSpec) -> Option<Duration> {
    if spec.session_affinity.as_deref() != Some("ClientIP") {
        return None;
    }
    let client_ip = spec.session_affinity_config.as_ref().and_then(|it| it.client_ip.as_ref());
    let seconds = client_ip.and_then(|it| it.timeout_seconds).unwrap_or(AFFINITY_SECONDS);
    Some(Duration::from_secs(seconds.clamp(1, 86_400).unsigned_abs().into()))
}

/// A port of a slice belongs to the Service's port of the same name.
fn endpoints(name: Option<&str>, slices: &[Arc<EndpointSlice>], node_name: &str) -> Endpoints {
    let mut choice = Choice::default();
    for slice in slices.iter().filter(|it| it.address_type == "IPv4") {
        let ports = slice.ports.iter().flatten();
        let is_named = |it: &&discovery::EndpointPort| {
            it.name.as_deref().unwrap_or_default() == name.unwrap_or_default()
        };
        for port in ports.filter(is_named).filter_map(|it| it.port.and_then(port_number)) {
            for endpoint in slice.endpoints.iter().flatten() {
                choice.consider(endpoint, port, node_name);
            }
        }
    }
    choice.made()
}

/// The ready endpoints on this node, whatever their ports: what a load balancer weighs the node by.
pub fn local_ready_addresses(slices: &[Arc<EndpointSlice>], node_name: &str) -> BTreeSet<Ipv4Addr> {
    let is_ready =
        |it: &discovery::Endpoint| it.conditions.as_ref().and_then(|it| it.ready).unwrap_or(true);
    let slices = slices.iter().filter(|it| it.address_type == "IPv4");
    slices
        .flat_map(|it| it.endpoints.iter().flatten())
        .filter(|it| it.node_name.as_deref() == Some(node_name) && is_ready(it))
        .filter_map(|it| it.addresses.first()?.parse().ok())
        .collect()
}

/// Endpoints by how good they are. An endpoint may be in two slices for a moment, with different
/// conditions.
#[derive(Default)]
struct Choice {
    ready: Endpoints,
    terminating: Endpoints,
}

impl Choice {
    fn consider(&mut self, endpoint: &discovery::Endpoint, port: u16, node_name: &str) {
        let address = endpoint.addresses.first().and_then(|it| it.parse().ok());
        let Some(address) = address else { return };
        let conditions = endpoint.conditions.as_ref();
        let is_ready = conditions.and_then(|it| it.ready).unwrap_or(true);
        let is_serving = conditions.and_then(|it| it.serving).unwrap_or(is_ready);
        let is_terminating = conditions.and_then(|it| it.terminating).unwrap_or(false);
        let endpoints = match (is_ready, is_serving && is_terminating) {
            (true, _) => &mut self.ready,
            (false, true) => &mut self.terminating,
            (false, false) => return,
        };
        let is_local = endpoint.node_name.as_deref() == Some(node_name);
        let endpoint = Endpoint { address, port };
        endpoints.cluster.insert(endpoint);
        if is_local {
            endpoints.local.insert(endpoint);
        }
    }

    fn made(self) -> Endpoints {
        let or = |ready: BTreeSet<_>, rest| if ready.is_empty() { rest } else { ready };
        Endpoints {
            cluster: or(self.ready.cluster, self.terminating.cluster),
            local: or(self.ready.local, self.terminating.local),
        }
    }
}

#[cfg(test)]
mod tests;
