//! What a cluster gets: what was asked for, what it had before, or the first that nobody has. Pure,
//! the look at ports apart.
//!
//! Defaults pass over what is taken, also by clusters that are stopped and may come back. What was
//! asked for, or was had before, is never changed: if somebody has it now, that is a problem that
//! says who.

#[cfg(test)]
pub(super) mod tests;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use apimachinery::validation::is_dns_subdomain;
use node_api::ClusterId;

use super::neighborhood::{Neighbor, Neighborhood};
use super::ports::Transport;
use super::{Cluster, Name, Node};
use crate::commands::network::{Cidr, PortRange};

const HTTPS_PORT: u16 = 6443;
const KUBELET_PORT: u16 = 10250;
const DNS_PORT: u16 = 53;
/// Ports that are tried, one after the other.
const PORTS_TRIED: u16 = 100;
const BRIDGES_TRIED: u32 = 1000;
/// Upstream's, for the first cluster. Others get a thousand each, below it.
const NODE_PORTS: PortRange = PortRange { first: 30_000, last: 32_767 };
const NODE_PORTS_BLOCK: u16 = 1000;
const NODE_PORTS_LOWEST: u16 = 11_000;

/// What the flags of this start say; `None` is whatever there is.
pub(crate) struct Wishes {
    pub(crate) name: Option<Name>,
    pub(crate) bind_address: IpAddr,
    /// 0: any that is free.
    pub(crate) https_port: Option<u16>,
    pub(crate) service_cidr: Option<Cidr>,
    pub(crate) pod_cidr: Option<Cidr>,
    pub(crate) node_ports: Option<PortRange>,
    /// `None`: this start has no node.
    pub(crate) node: Option<NodeWishes>,
    /// The id of a cluster that has none yet.
    pub(crate) fresh_id: ClusterId,
}

pub(crate) struct NodeWishes {
    pub(crate) name: Option<String>,
    /// What it is called if nobody says.
    pub(crate) default_name: String,
    pub(crate) ip: Option<IpAddr>,
    /// The machine's own, if it has one.
    pub(crate) default_ip: Option<IpAddr>,
    pub(crate) kubelet_port: Option<u16>,
    pub(crate) cgroup_root: Option<String>,
}

/// What one kind of range is called, and what it may be by default.
struct RangeKind {
    of: &'static str,
    flag: &'static str,
    /// The second numbers of the ranges below 10.0.0.0/8 and 172.16.0.0/12 that are tried.
    tens: std::ops::Range<u8>,
    seventeens: std::ops::Range<u8>,
}

const PODS: RangeKind =
    RangeKind { of: "pods", flag: "--pod-cidr", tens: 244..254, seventeens: 24..28 };
const SERVICES: RangeKind =
    RangeKind { of: "Services", flag: "--service-cidr", tens: 96..106, seventeens: 28..32 };

impl RangeKind {
    fn candidates(&self) -> impl Iterator<Item = Cidr> {
        let range = |a, b| Cidr { address: Ipv4Addr::new(a, b, 0, 0), prefix_length: 16 };
        let tens = self.tens.clone().map(move |it| range(10, it));
        tens.chain(self.seventeens.clone().map(move |it| range(172, it)))
    }
}

/// All problems are told at once.
pub(super) fn choose(
    wishes: &Wishes,
    kept: Option<&Cluster>,
    around: &Neighborhood<'_>,
) -> Result<Cluster, Vec<String>> {
    let id = kept.map_or(wishes.fresh_id, |it| it.id);
    let mut choosing = Choosing { wishes, kept, around, id, problems: Vec::new() };
    let cluster = choosing.choose();
    if choosing.problems.is_empty() { Ok(cluster) } else { Err(choosing.problems) }
}

struct Choosing<'a> {
    wishes: &'a Wishes,
    kept: Option<&'a Cluster>,
    around: &'a Neighborhood<'a>,
    id: ClusterId,
    problems: Vec<String>,
}

impl Choosing<'_> {
    fn choose(&mut self) -> Cluster {
        self.validate_copy();
        let name = self.name();
        let given_services =
            self.wishes.service_cidr.or_else(|| self.kept.map(|it| it.service_cidr));
        let given_pods = self.wishes.pod_cidr.or_else(|| self.kept.map(|it| it.pod_cidr));
        let pod_cidr = self.range(&PODS, given_pods, given_services);
        let service_cidr = self.range(&SERVICES, given_services, Some(pod_cidr));
        if pod_cidr.overlaps(service_cidr) {
            self.problems.push(format!(
                "the addresses of pods, {pod_cidr}, and of Services, {service_cidr}, overlap: choose others with --pod-cidr or --service-cidr"
            ));
        }
        let mut cluster = Cluster {
            id: self.id,
            name,
            network_namespace: self.around.namespace,
            bind_address: self.wishes.bind_address,
            https_port: 0,
            service_cidr,
            pod_cidr,
            node_ports: self.node_ports(),
            node: self.kept.and_then(|it| it.node.clone()),
        };
        let gateway = IpAddr::V4(cluster.node_cidr().first_address());
        cluster.https_port = self.https_port(gateway);
        if let Some(wishes) = &self.wishes.node {
            cluster.node = Some(self.node(wishes, gateway));
            if self.problems.is_empty() {
                self.validate_dns(SocketAddr::new(gateway, DNS_PORT));
            }
        }
        cluster
    }

    /// Two directories with one id would take each other's things for their own.
    fn validate_copy(&mut self) {
        let same = self.around.clusters.iter().find(|it| it.cluster.id == self.id);
        if let Some(other) = same {
            self.problems.push(format!(
                "this directory is a copy of {other}: remove cluster.json from the copy, and it is a cluster of its own"
            ));
        }
    }

    fn name(&mut self) -> Name {
        let owner = |name: &Name| self.around.clusters.iter().find(|it| it.cluster.name == *name);
        let (wished, kept) = (self.wishes.name.as_ref(), self.kept.map(|it| &it.name));
        let Some(name) = wished.or(kept) else {
            return Name::defaults().find(|it| owner(it).is_none()).unwrap_or_default();
        };
        // Unless somebody else is called so by now: then there is no other way.
        if let Some(kept) = kept.filter(|it| *it != name && owner(it).is_none()) {
            self.problems.push(format!(
                "--name {name}: the cluster in this directory is called {kept}, and stays so"
            ));
        }
        if let Some(owner) = owner(name) {
            self.problems
                .push(format!("the name {name} is that of {owner}: choose another with --name"));
        }
        name.clone()
    }

    /// Others with a node where this one has one: those that are there now, or all that are known.
    fn neighbors(&self, with_absent: bool) -> impl Iterator<Item = &Neighbor> {
        let has_node = self.wishes.node.is_some();
        let is_met = move |it: &&Neighbor| {
            has_node
                && it.cluster.node.is_some()
                && it.cluster.network_namespace == self.around.namespace
                && (with_absent || it.is_present)
        };
        self.around.clusters.iter().filter(is_met)
    }

    fn range(&mut self, kind: &RangeKind, given: Option<Cidr>, avoid: Option<Cidr>) -> Cidr {
        let RangeKind { of, flag, .. } = kind;
        if let Some(range) = given {
            if let Some(owner) = self.owner_of_range(range, false) {
                self.problems.push(format!(
                    "the addresses of {of}, {range}, are taken by {owner}: choose others with {flag}"
                ));
            }
            return range;
        }
        let mut first_owner = None;
        for range in kind.candidates().filter(|it| avoid.is_none_or(|avoid| !it.overlaps(avoid))) {
            match self.owner_of_range(range, true) {
                None => return range,
                Some(owner) => first_owner = first_owner.or(Some((range, owner))),
            }
        }
        let taken = first_owner.map(|(range, owner)| format!(" ({range} is taken by {owner})"));
        self.problems.push(format!(
            "no range is free for the addresses of {of}{}: choose one with {flag}",
            taken.unwrap_or_default()
        ));
        kind.candidates().next().unwrap_or(Cidr { address: Ipv4Addr::LOCALHOST, prefix_length: 32 })
    }

    fn owner_of_range(&self, range: Cidr, with_absent: bool) -> Option<String> {
        let has = |it: &&Neighbor| {
            range.overlaps(it.cluster.pod_cidr) || range.overlaps(it.cluster.service_cidr)
        };
        if let Some(neighbor) = self.neighbors(with_absent).find(has) {
            return Some(neighbor.to_string());
        }
        let network = self.around.networks.iter().find(|it| it.range.overlaps(range));
        network.map(|it| it.what.clone())
    }

    fn node_ports(&mut self) -> PortRange {
        let given = self.wishes.node_ports.or_else(|| self.kept.map(|it| it.node_ports));
        let owner = |range: PortRange, with_absent| {
            self.neighbors(with_absent).find(|it| it.cluster.node_ports.overlaps(range))
        };
        if let Some(range) = given {
            if let Some(owner) = owner(range, false) {
                self.problems.push(format!(
                    "the node ports {range} are taken by {owner}: choose others with --service-node-port-range"
                ));
            }
            return range;
        }
        let blocks = (1..).map_while(|it: u16| {
            let first = NODE_PORTS.first.checked_sub(it.checked_mul(NODE_PORTS_BLOCK)?)?;
            let last = first + NODE_PORTS_BLOCK - 1;
            (first >= NODE_PORTS_LOWEST).then_some(PortRange { first, last })
        });
        let free = std::iter::once(NODE_PORTS).chain(blocks).find(|it| owner(*it, true).is_none());
        free.unwrap_or_else(|| {
            self.problems.push(
                "no node ports are free: choose some with --service-node-port-range".to_owned(),
            );
            NODE_PORTS
        })
    }

    fn https_port(&mut self, gateway: IpAddr) -> u16 {
        let mut addresses = vec![self.wishes.bind_address];
        if self.wishes.node.is_some() && !self.wishes.bind_address.is_unspecified() {
            addresses.push(gateway);
        }
        let given = self.wishes.https_port.or_else(|| self.kept.map(|it| it.https_port));
        self.port(&addresses, HTTPS_PORT, given, "--https-port")
    }

    fn port(&mut self, addresses: &[IpAddr], default: u16, given: Option<u16>, flag: &str) -> u16 {
        let held = |port: u16| {
            let mut addresses = addresses.iter().map(|it| SocketAddr::new(*it, port));
            addresses.find_map(|it| self.holder(it, Transport::Tcp).map(|holder| (it, holder)))
        };
        if let Some(port) = given {
            if let Some((address, holder)) = held(port).filter(|_| port != 0) {
                self.problems.push(format!(
                    "cannot listen on {address}, which {holder} has: choose another port with {flag}"
                ));
            }
            return port;
        }
        let is_reserved = |port: u16| {
            let of = |it: &&Neighbor| it.cluster.network_namespace == self.around.namespace;
            self.around.clusters.iter().filter(of).any(|it| it.has_port(port))
        };
        let mut ports = default..default.saturating_add(PORTS_TRIED);
        let free = ports.find(|it| !is_reserved(*it) && held(*it).is_none());
        free.unwrap_or_else(|| {
            self.problems.push(format!(
                "none of the {PORTS_TRIED} ports from {default} on is free: choose one with {flag}"
            ));
            default
        })
    }

    fn holder(&self, address: SocketAddr, transport: Transport) -> Option<String> {
        let holder = (self.around.port_holder)(address, transport)?;
        let of = |it: &&Neighbor| {
            it.pid.is_some()
                && it.cluster.network_namespace == self.around.namespace
                && it.has_port(address.port())
        };
        Some(self.around.clusters.iter().find(of).map_or(holder, Neighbor::to_string))
    }

    fn node(&mut self, wishes: &NodeWishes, gateway: IpAddr) -> Node {
        let kept = self.kept.and_then(|it| it.node.as_ref());
        let name = wishes.name.clone().or_else(|| kept.map(|it| it.name.clone()));
        let name = name.unwrap_or_else(|| wishes.default_name.clone());
        for problem in is_dns_subdomain(&name) {
            self.problems.push(format!("--node-name {name:?}: {problem}"));
        }
        let ip = wishes.ip.or_else(|| kept.and_then(|it| it.ip));
        let address = ip.or(wishes.default_ip).unwrap_or(gateway);
        let given = wishes.kubelet_port.or_else(|| kept.map(|it| it.kubelet_port));
        Node {
            name,
            ip,
            bridge: self.bridge(kept),
            cgroup_root: self.cgroup_root(wishes, kept),
            kubelet_port: self.port(&[address], KUBELET_PORT, given, "--kubelet-port"),
        }
    }

    /// Nobody asks for one by name, so any will do.
    fn bridge(&mut self, kept: Option<&Node>) -> String {
        let is_free = |name: &str, with_absent: bool| {
            let group = self.around.links.get(name);
            let mut neighbors = self.neighbors(with_absent);
            group.is_none_or(|it| *it == self.id.link_group())
                && !neighbors.any(|it| it.cluster.node.as_ref().is_some_and(|it| it.bridge == name))
        };
        if let Some(kept) = kept.filter(|it| is_free(&it.bridge, false)) {
            return kept.bridge.clone();
        }
        let mut names = (0..BRIDGES_TRIED).map(|it| format!("xebec{it}"));
        let free = names.find(|it| is_free(it, true));
        free.unwrap_or_else(|| {
            self.problems.push(format!("all links from xebec0 to xebec{BRIDGES_TRIED} are taken"));
            String::new()
        })
    }

    /// Cgroups are of the whole machine, whatever the network namespace.
    fn cgroup_root(&mut self, wishes: &NodeWishes, kept: Option<&Node>) -> String {
        let given = wishes.cgroup_root.clone().or_else(|| kept.map(|it| it.cgroup_root.clone()));
        let root = given.unwrap_or_else(|| self.id.cgroup());
        let has = |it: &&Neighbor| {
            it.cluster
                .node
                .as_ref()
                .is_some_and(|it| it.cgroup_root.trim_matches('/') == root.trim_matches('/'))
        };
        if let Some(owner) = self.around.clusters.iter().find(has) {
            self.problems.push(format!(
                "the cgroup /{} is that of {owner}: choose another with --cgroup-root",
                root.trim_matches('/')
            ));
        }
        root
    }

    fn validate_dns(&mut self, listen: SocketAddr) {
        for transport in [Transport::Udp, Transport::Tcp] {
            if let Some(holder) = self.holder(listen, transport) {
                self.problems.push(format!(
                    "the cluster's DNS cannot listen on {listen}, which {holder} has: let it listen on its own addresses only"
                ));
                return;
            }
        }
    }
}
