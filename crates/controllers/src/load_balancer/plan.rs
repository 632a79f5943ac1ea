//! Which addresses a Service of type LoadBalancer has. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use api::Identified as _;
use api::core::node::NodeView;
use api::core::pod::PodView;
use api::core::service::Service;
use api::discovery::endpoint_slice::EndpointSlice;
use stdx::Family;

use super::pool::Range;
use crate::{backends, owners};

pub(crate) const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
/// Asks for certain addresses, one of each family at most, before `spec.loadBalancerIP`.
pub(crate) const WANTED: &str = "xebec.local/load-balancer-ips";
const EXCLUDED: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// So many nodes' addresses of one family are enough for a Service: each leads everywhere.
const NODES_MAX: usize = 16;

/// A port that is open on an address: protocol and number.
type Port = (String, i32);

/// Who has ports of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    /// As an event names it.
    pub name: String,
    pub addresses: BTreeSet<IpAddr>,
    pub ports: BTreeSet<Port>,
}

impl Holder {
    pub(crate) fn of_service(service: &Service, addresses: BTreeSet<IpAddr>) -> Self {
        let name = format!("Service {}", service.key());
        Self { name, addresses, ports: ports(service) }
    }

    /// Of the slice that says where the API server is.
    pub(crate) fn of_server(slice: &EndpointSlice) -> Self {
        let endpoints = slice.endpoints.iter().flatten();
        let addresses = endpoints.flat_map(|it| &it.addresses);
        let ports = slice.ports.iter().flatten().filter_map(|it| {
            let protocol = backends::protocol(it.protocol.as_deref()).to_owned();
            Some((protocol, it.port?))
        });
        Self {
            name: "the API server".to_owned(),
            addresses: addresses.filter_map(|it| it.parse().ok()).collect(),
            ports: ports.collect(),
        }
    }

    /// A port that it has of an address, of those that are asked for.
    fn taken(&self, address: IpAddr, ports: &BTreeSet<Port>) -> Option<String> {
        let (protocol, number) =
            self.ports.intersection(ports).next().filter(|_| self.addresses.contains(&address))?;
        Some(format!("port {number}/{protocol} of {address} is taken by {}", self.name))
    }
}

/// Where addresses come from.
pub(crate) enum Source {
    Nodes(Vec<Arc<NodeView>>),
    Pool(Vec<Range>),
}

pub(crate) struct Observed {
    pub service: Arc<Service>,
    pub source: Source,
    /// Everybody else.
    pub holders: Vec<Holder>,
    /// Of the Service.
    pub slices: Vec<Arc<EndpointSlice>>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Settled,
    /// These, and none else.
    Give(BTreeSet<IpAddr>),
    /// None, and why.
    Hold(String),
    /// It is no such Service any more.
    Release,
}

/// Whether it wants addresses from here, or had some.
pub(crate) fn is_concerned(service: &Service) -> bool {
    is_wanting(service) || finalizers(service).any(|it| it == FINALIZER)
}

fn is_wanting(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    spec.is_some_and(|it| {
        it.type_.as_deref() == Some("LoadBalancer") && it.load_balancer_class.is_none()
    })
}

fn finalizers(service: &Service) -> impl Iterator<Item = &String> {
    service.metadata.finalizers.iter().flatten()
}

/// Its finalizers with ours.
pub(crate) fn protected(service: &Service) -> Vec<String> {
    let mut all: Vec<String> = finalizers(service).cloned().collect();
    if !all.iter().any(|it| it == FINALIZER) {
        all.push(FINALIZER.to_owned());
    }
    all
}

pub(crate) fn unprotected(service: &Service) -> Vec<String> {
    finalizers(service).filter(|it| *it != FINALIZER).cloned().collect()
}

/// The addresses that it has.
pub(crate) fn given(service: &Service) -> BTreeSet<IpAddr> {
    let balancer = service.status.as_ref().and_then(|it| it.load_balancer.as_ref());
    let ingress = balancer.and_then(|it| it.ingress.as_deref()).unwrap_or_default();
    ingress.iter().filter_map(|it| it.ip.as_ref()?.parse().ok()).collect()
}

fn ports(service: &Service) -> BTreeSet<Port> {
    let port = |it: &k8s_openapi::api::core::v1::ServicePort| {
        (backends::protocol(it.protocol.as_deref()).to_owned(), it.port)
    };
    backends::ports(service).iter().map(port).collect()
}

/// What of a node its part in this depends on.
pub(crate) fn face(node: &NodeView) -> (Vec<IpAddr>, bool) {
    (addresses(node), is_serving(node))
}

fn is_serving(node: &NodeView) -> bool {
    node.is_ready() && node.meta.labels.get(EXCLUDED).is_none() && !node.meta.is_deleting
}

/// Where clients outside reach it: external addresses if it has some, else internal ones.
fn addresses(node: &NodeView) -> Vec<IpAddr> {
    let of = |kind: &str| -> Vec<IpAddr> {
        let all = node.addresses.iter().filter(|it| it.type_ == kind);
        all.filter_map(|it| it.address.parse().ok()).collect()
    };
    Some(of("ExternalIP")).filter(|it| !it.is_empty()).unwrap_or_else(|| of("InternalIP"))
}

/// The ports of its node that a pod has: protocol, number and address, if it is a certain one.
pub(crate) fn host_ports(pod: &PodView) -> impl Iterator<Item = (Port, Option<IpAddr>)> {
    let is_there = pod.node().is_some() && !pod.is_terminal();
    let containers = pod.spec.containers.iter().filter(move |_| is_there);
    containers.flat_map(|it| &it.ports).filter(|it| it.host_port > 0).map(|it| {
        let protocol = Some(it.protocol.as_str()).filter(|it| !it.is_empty());
        let address = it.host_ip.as_str().parse().ok().filter(|it: &IpAddr| !it.is_unspecified());
        ((backends::protocol(protocol).to_owned(), it.host_port), address)
    })
}

pub(crate) fn holders_of_pods(nodes: &[Arc<NodeView>], pods: &[Arc<PodView>]) -> Vec<Holder> {
    let mut holders = Vec::new();
    for pod in pods {
        let node = nodes.iter().find(|it| Some(it.name()) == pod.node());
        for (port, address) in host_ports(pod) {
            let of_node = node.map(|it| addresses(it)).unwrap_or_default();
            let mine = |it: &IpAddr| address.is_none_or(|wanted| wanted == *it);
            holders.push(Holder {
                name: format!("Pod {}", pod.key()),
                addresses: of_node.into_iter().filter(mine).collect(),
                ports: [port].into(),
            });
        }
    }
    holders
}

pub(crate) fn plan(observed: &Observed) -> Outcome {
    let service = &observed.service;
    if owners::is_deleting(&service.metadata) || !is_wanting(service) {
        let is_ours = finalizers(service).any(|it| it == FINALIZER);
        return if is_ours { Outcome::Release } else { Outcome::Settled };
    }
    let has = given(service);
    if !has.is_empty() && !finalizers(service).any(|it| it == FINALIZER) {
        // Somebody else gave it these.
        return Outcome::Settled;
    }
    match choose(observed, &has) {
        Ok(chosen) if chosen == has => Outcome::Settled,
        Ok(chosen) => Outcome::Give(chosen),
        Err(why) => Outcome::Hold(why),
    }
}

fn choose(observed: &Observed, has: &BTreeSet<IpAddr>) -> Result<BTreeSet<IpAddr>, String> {
    let wanted = wanted(&observed.service)?;
    match &observed.source {
        Source::Pool(ranges) => choose_of_pool(observed, ranges, &wanted, has),
        Source::Nodes(nodes) => choose_of_nodes(observed, nodes, &wanted),
    }
}

/// Certain addresses, where the Service asks for some.
fn wanted(service: &Service) -> Result<BTreeSet<IpAddr>, String> {
    let annotation = service.metadata.annotations.as_ref().and_then(|it| it.get(WANTED));
    let field = service.spec.as_ref().and_then(|it| it.load_balancer_ip.as_ref());
    let text = annotation.or(field).map(String::as_str).unwrap_or_default();
    let texts = text.split(',').map(str::trim).filter(|it| !it.is_empty());
    texts.map(|it| it.parse().map_err(|_| format!("{it:?} is no address"))).collect()
}

fn families(service: &Service) -> Vec<Family> {
    let texts = service.spec.as_ref().and_then(|it| it.ip_families.as_deref());
    let of = |it: &String| if it == "IPv6" { Family::V6 } else { Family::V4 };
    let all: Vec<Family> = texts.unwrap_or_default().iter().map(of).collect();
    if all.is_empty() { vec![Family::V4] } else { all }
}

fn conflict(observed: &Observed, address: IpAddr) -> Option<String> {
    let ports = ports(&observed.service);
    observed.holders.iter().find_map(|it| it.taken(address, &ports))
}

/// One address for each family, the one that it has if it can stay, and otherwise one that nobody
/// has: only who asks for a certain address shares it.
fn choose_of_pool(
    observed: &Observed,
    ranges: &[Range],
    wanted: &BTreeSet<IpAddr>,
    has: &BTreeSet<IpAddr>,
) -> Result<BTreeSet<IpAddr>, String> {
    let held: BTreeSet<IpAddr> =
        observed.holders.iter().flat_map(|it| it.addresses.iter().copied()).collect();
    let mut chosen = BTreeSet::new();
    let mut why = None;
    for family in families(&observed.service) {
        let of_family: Vec<&Range> = ranges.iter().filter(|it| it.family() == family).collect();
        let contains = |address: IpAddr| of_family.iter().any(|it| it.contains(address));
        if let Some(address) = wanted.iter().find(|it| Family::of(**it) == family) {
            if !contains(*address) {
                return Err(format!("{address} is not in --load-balancer-pool"));
            }
            match conflict(observed, *address) {
                Some(conflict) => return Err(conflict),
                None => chosen.insert(*address),
            };
            continue;
        }
        let kept = has.iter().copied().find(|it| {
            Family::of(*it) == family && contains(*it) && conflict(observed, *it).is_none()
        });
        let free = || {
            let mut all = of_family.iter().flat_map(|it| it.addresses());
            all.find(|it| !held.contains(it))
        };
        match kept.or_else(free) {
            Some(address) => _ = chosen.insert(address),
            None => {
                why.get_or_insert_with(|| {
                    format!("--load-balancer-pool has no {family} address left")
                });
            }
        }
    }
    // One family is better than none.
    if chosen.is_empty() { Err(why.unwrap_or_default()) } else { Ok(chosen) }
}

/// The addresses of nodes whose ports are free; of those with endpoints, where traffic stays on the
/// node that it comes to.
fn choose_of_nodes(
    observed: &Observed,
    nodes: &[Arc<NodeView>],
    wanted: &BTreeSet<IpAddr>,
) -> Result<BTreeSet<IpAddr>, String> {
    let service = &observed.service;
    let policy = service.spec.as_ref().and_then(|it| it.external_traffic_policy.as_deref());
    let is_local = policy == Some("Local");
    let mut serving: Vec<&Arc<NodeView>> = nodes.iter().filter(|it| is_serving(it)).collect();
    serving.sort_by_key(|it| it.name());
    if serving.is_empty() {
        return Err("there are no available nodes for LoadBalancer".to_owned());
    }
    if is_local {
        let hosts = hosts(&observed.slices);
        serving.retain(|it| hosts.contains(it.name()));
        if serving.is_empty() {
            return Err("no node has an endpoint, and externalTrafficPolicy is Local".to_owned());
        }
    }
    let mut chosen = BTreeSet::new();
    let mut why = None;
    for family in families(service) {
        let all = serving.iter().flat_map(|it| addresses(it));
        let all = all.filter(|it| Family::of(*it) == family);
        let meant = all.filter(|it| wanted.is_empty() || wanted.contains(it));
        let mut n = 0;
        for address in meant {
            match conflict(observed, address) {
                Some(conflict) => _ = why.get_or_insert(conflict),
                None if n < NODES_MAX => {
                    chosen.insert(address);
                    n += 1;
                }
                None => break,
            }
        }
    }
    if !chosen.is_empty() {
        return Ok(chosen);
    }
    Err(why.unwrap_or_else(|| match wanted.first() {
        Some(address) => format!("{address} is no address of a node that can have it"),
        None => "no node has an address of the Service's families".to_owned(),
    }))
}

/// The nodes of endpoints that are ready.
fn hosts(slices: &[Arc<EndpointSlice>]) -> BTreeSet<&str> {
    let endpoints = slices.iter().flat_map(|it| it.endpoints.iter().flatten());
    let is_ready = |it: &&k8s_openapi::api::discovery::v1::Endpoint| {
        it.conditions.as_ref().and_then(|it| it.ready) != Some(false)
    };
    endpoints.filter(is_ready).filter_map(|it| it.node_name.as_deref()).collect()
}
