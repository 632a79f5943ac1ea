//! One port of a Service with the endpoints behind it, of one family, in plain terms: what every
//! back end starts from. Pure.
//!
//! Which endpoints take part is decided here, as upstream decides it (`pkg/proxy/topology.go`,
//! KEP-1669).

pub(crate) mod frontend;
#[cfg(test)]
pub(crate) mod text;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use api::core::service::Service;
use api::discovery::EndpointSlice;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use stdx::{Cidr, Family};

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
    pub address: IpAddr,
    pub port: u16,
}

/// All addresses in it are of one family, that of the ClusterIP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// Empty: the Service's only one.
    pub name: String,
    pub cluster_ip: IpAddr,
    pub protocol: Protocol,
    pub port: u16,
    pub node_port: Option<u16>,
    pub external_ips: BTreeSet<IpAddr>,
    pub load_balancer_ips: BTreeSet<IpAddr>,
    /// Who may use the load balancer's addresses; `None`: everybody. Ranges of the other family
    /// alone let nobody in.
    pub source_ranges: Option<BTreeSet<Cidr>>,
    /// How long a client stays with its endpoint.
    pub affinity: Option<Duration>,
    pub internal_policy: TrafficPolicy,
    pub external_policy: TrafficPolicy,
    /// Where load balancers ask whether this node has endpoints, over TCP.
    pub health_check_node_port: Option<u16>,
    pub endpoints: Endpoints,
}

/// Where the proxy is: endpoints may be meant for some places alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub node_name: String,
    /// Empty: not known, or the node has none.
    pub zone: String,
}

/// The endpoints that take part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoints {
    /// The ready ones, of these those that are meant for this place; if there are none that are
    /// ready, those that still serve while they terminate.
    pub cluster: BTreeSet<Endpoint>,
    /// The same choice among those on this node.
    pub local: BTreeSet<Endpoint>,
    /// Those that serve, wherever and for whomever: flows that go to them already go on.
    pub serving: BTreeSet<Endpoint>,
}

impl ServicePort {
    pub fn family(&self) -> Family {
        Family::of(self.cluster_ip)
    }

    /// Whether it can be reached other than by its ClusterIP.
    pub fn has_external_frontends(&self) -> bool {
        self.node_port.is_some()
            || !self.external_ips.is_empty()
            || !self.load_balancer_ips.is_empty()
    }

    pub fn external_addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.external_ips.union(&self.load_balancer_ips).copied()
    }
}

/// The ports that are ours to serve, for each family that the Service has: none for headless
/// Services, ExternalName, other proxies.
pub fn service_ports(
    service: &Service,
    slices: &[Arc<EndpointSlice>],
    place: &Place,
) -> Vec<ServicePort> {
    let labels = service.metadata.labels.as_ref();
    let (Some(spec), None) = (&service.spec, labels.and_then(|it| it.get(PROXY_NAME_LABEL))) else {
        return Vec::new();
    };
    let of = |cluster_ip| {
        let ports = spec.ports.iter().flatten();
        ports.filter_map(move |port| {
            let family = Family::of(cluster_ip);
            Some(ServicePort {
                name: port.name.clone().unwrap_or_default(),
                cluster_ip,
                protocol: Protocol::parse(port.protocol.as_deref())?,
                port: port_number(port.port)?,
                node_port: port.node_port.and_then(port_number),
                external_ips: addresses(family, spec.external_ips.iter().flatten()),
                load_balancer_ips: load_balancer_ips(family, service),
                source_ranges: source_ranges(family, spec),
                affinity: affinity(spec),
                internal_policy: TrafficPolicy::parse(spec.internal_traffic_policy.as_deref()),
                external_policy: TrafficPolicy::parse(spec.external_traffic_policy.as_deref()),
                health_check_node_port: health_check_node_port(spec),
                endpoints: endpoints(family, port.name.as_deref(), slices, place),
            })
        })
    };
    cluster_ips(spec).into_iter().flat_map(of).collect()
}

/// Only where external traffic stays on the node.
pub(crate) fn health_check_node_port(spec: &core::ServiceSpec) -> Option<u16> {
    let is_local = spec.external_traffic_policy.as_deref() == Some("Local");
    spec.health_check_node_port.filter(|_| is_local).and_then(port_number)
}

/// Zero is no port: such as a node port that is not allocated.
fn port_number(number: i32) -> Option<u16> {
    u16::try_from(number).ok().filter(|it| *it != 0)
}

/// The first of each family.
fn cluster_ips(spec: &core::ServiceSpec) -> Vec<IpAddr> {
    if spec.type_.as_deref() == Some("ExternalName") {
        return Vec::new();
    }
    let all = spec.cluster_ips.iter().flatten().chain(&spec.cluster_ip);
    let mut found: Vec<IpAddr> = Vec::new();
    for address in all.filter_map(|it| it.parse().ok()) {
        if !found.iter().any(|it| Family::of(*it) == Family::of(address)) {
            found.push(address);
        }
    }
    found
}

fn addresses<'a>(family: Family, texts: impl Iterator<Item = &'a String>) -> BTreeSet<IpAddr> {
    texts.filter_map(|it| it.parse().ok()).filter(|it| Family::of(*it) == family).collect()
}

/// Without those whose traffic the load balancer sends on itself (`ipMode: Proxy`, KEP-1860).
fn load_balancer_ips(family: Family, service: &Service) -> BTreeSet<IpAddr> {
    let is_load_balancer =
        service.spec.as_ref().is_some_and(|it| it.type_.as_deref() == Some("LoadBalancer"));
    let status = service.status.as_ref().filter(|_| is_load_balancer);
    let ingress = status.and_then(|it| it.load_balancer.as_ref()?.ingress.as_ref());
    let is_ours = |it: &&core::LoadBalancerIngress| it.ip_mode.as_deref() != Some("Proxy");
    let ips = ingress.into_iter().flatten().filter(is_ours).filter_map(|it| it.ip.as_ref());
    addresses(family, ips)
}

fn source_ranges(family: Family, spec: &core::ServiceSpec) -> Option<BTreeSet<Cidr>> {
    let texts = spec.load_balancer_source_ranges.as_ref().filter(|it| !it.is_empty())?;
    let range = |text: &String| {
        let (address, length) = text.trim().split_once('/')?;
        Cidr::containing(address.parse().ok()?, length.parse().ok()?)
    };
    Some(texts.iter().filter_map(range).filter(|it| it.family() == family).collect())
}

fn affinity(spec: &core::ServiceSpec) -> Option<Duration> {
    if spec.session_affinity.as_deref() != Some("ClientIP") {
        return None;
    }
    let client_ip = spec.session_affinity_config.as_ref().and_then(|it| it.client_ip.as_ref());
    let seconds = client_ip.and_then(|it| it.timeout_seconds).unwrap_or(AFFINITY_SECONDS);
    Some(Duration::from_secs(seconds.clamp(1, 86_400).unsigned_abs().into()))
}

fn is_of(slice: &EndpointSlice, family: Family) -> bool {
    slice.address_type == family.to_string()
}

/// A port of a slice belongs to the Service's port of the same name.
fn endpoints(
    family: Family,
    name: Option<&str>,
    slices: &[Arc<EndpointSlice>],
    place: &Place,
) -> Endpoints {
    let mut choice = Choice::default();
    for slice in slices.iter().filter(|it| is_of(it, family)) {
        let ports = slice.ports.iter().flatten();
        let is_named = |it: &&discovery::EndpointPort| {
            it.name.as_deref().unwrap_or_default() == name.unwrap_or_default()
        };
        for port in ports.filter(is_named).filter_map(|it| it.port.and_then(port_number)) {
            for endpoint in slice.endpoints.iter().flatten() {
                choice.consider(endpoint, (family, port), place);
            }
        }
    }
    choice.made()
}

/// How many ready endpoints there are on this node, whatever their ports: what a load balancer
/// weighs the node by. An endpoint of two families counts once.
pub fn n_ready_local(slices: &[Arc<EndpointSlice>], node_name: &str) -> usize {
    let is_ready =
        |it: &discovery::Endpoint| it.conditions.as_ref().and_then(|it| it.ready).unwrap_or(true);
    let of = |family| {
        let slices = slices.iter().filter(|it| is_of(it, family));
        let endpoints = slices
            .flat_map(|it| it.endpoints.iter().flatten())
            .filter(|it| it.node_name.as_deref() == Some(node_name) && is_ready(it));
        let addresses = endpoints.filter_map(|it| it.addresses.first()?.parse::<IpAddr>().ok());
        addresses.collect::<BTreeSet<_>>().len()
    };
    of(Family::V4).max(of(Family::V6))
}

/// Endpoints by how good they are. An endpoint may be in two slices for a moment, with different
/// conditions.
#[derive(Default)]
struct Choice {
    ready: Endpoints,
    terminating: Endpoints,
    serving: BTreeSet<Endpoint>,
    for_node: Meant,
    for_zone: Meant,
}

/// The ready endpoints that are meant for this place, by hints of one sort (`forNodes` or
/// `forZones`). Hints count if all ready endpoints have them: else somebody does not know yet who
/// gets what, and would be left out or overrun.
#[derive(Default)]
struct Meant {
    here: BTreeSet<Endpoint>,
    is_told_of_all: Option<bool>,
}

impl Meant {
    fn consider<'a>(
        &mut self,
        endpoint: Endpoint,
        mut hints: impl ExactSizeIterator<Item = &'a str>,
        here: &str,
    ) {
        let is_told = hints.len() > 0;
        self.is_told_of_all = Some(is_told && self.is_told_of_all.unwrap_or(true));
        if !here.is_empty() && hints.any(|it| it == here) {
            self.here.insert(endpoint);
        }
    }

    fn chosen(self) -> Option<BTreeSet<Endpoint>> {
        let counts = self.is_told_of_all == Some(true) && !self.here.is_empty();
        counts.then_some(self.here)
    }
}

impl Choice {
    fn consider(
        &mut self,
        endpoint: &discovery::Endpoint,
        (family, port): (Family, u16),
        place: &Place,
    ) {
        let address = endpoint.addresses.first().and_then(|it| it.parse().ok());
        let Some(address) = address.filter(|it| Family::of(*it) == family) else { return };
        let conditions = endpoint.conditions.as_ref();
        let is_ready = conditions.and_then(|it| it.ready).unwrap_or(true);
        let is_serving = conditions.and_then(|it| it.serving).unwrap_or(is_ready);
        let is_terminating = conditions.and_then(|it| it.terminating).unwrap_or(false);
        let endpoints = match (is_ready, is_serving && is_terminating) {
            (true, _) => &mut self.ready,
            (false, true) => &mut self.terminating,
            (false, false) => return,
        };
        let is_local = endpoint.node_name.as_deref() == Some(place.node_name.as_str());
        let one = Endpoint { address, port };
        self.serving.insert(one);
        endpoints.cluster.insert(one);
        if is_local {
            endpoints.local.insert(one);
        }
        if is_ready {
            let hints = endpoint.hints.as_ref();
            let nodes = hints.and_then(|it| it.for_nodes.as_deref()).unwrap_or_default();
            let zones = hints.and_then(|it| it.for_zones.as_deref()).unwrap_or_default();
            self.for_node.consider(one, nodes.iter().map(|it| &*it.name), &place.node_name);
            self.for_zone.consider(one, zones.iter().map(|it| &*it.name), &place.zone);
        }
    }

    fn made(self) -> Endpoints {
        let or = |ready: BTreeSet<_>, rest| if ready.is_empty() { rest } else { ready };
        let meant = self.for_node.chosen().or_else(|| self.for_zone.chosen());
        Endpoints {
            cluster: or(meant.unwrap_or(self.ready.cluster), self.terminating.cluster),
            local: or(self.ready.local, self.terminating.local),
            serving: self.serving,
        }
    }
}

#[cfg(test)]
mod tests;
