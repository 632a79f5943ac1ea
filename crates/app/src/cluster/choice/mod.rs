//! What a cluster gets: what was asked for, what it had before, or the first that nobody has. Pure,
//! the look at ports apart.
//!
//! Defaults pass over what is taken, also by clusters that are stopped and may come back. What was
//! asked for, or was had before, is never changed: if somebody has it now, that is a problem that
//! says who.

#[cfg(test)]
pub(super) mod tests;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use apimachinery::validation::is_dns_subdomain;
use node_api::ClusterId;
use stdx::{Cidr, Family};

use super::neighborhood::{Neighbor, Neighborhood};
use super::ports::Transport;
use super::{Cluster, Joined, Name, Node};
use crate::commands::network::{Cidrs, PortRange, covers};

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
    pub(crate) service_cidrs: Option<Cidrs>,
    pub(crate) pod_cidrs: Option<Cidrs>,
    pub(crate) node_ports: Option<PortRange>,
    /// `None`: this start has no node.
    pub(crate) node: Option<NodeWishes>,
    /// The cluster elsewhere whose node this machine is to be.
    pub(crate) joins: Option<Joined>,
    /// The id of a cluster that has none yet.
    pub(crate) fresh_id: ClusterId,
}

pub(crate) struct NodeWishes {
    pub(crate) name: Option<String>,
    /// What it is called if nobody says.
    pub(crate) default_name: String,
    /// Empty: whichever it has.
    pub(crate) ips: Vec<IpAddr>,
    /// The machine's own, as far as it has any.
    pub(crate) default_ips: Vec<IpAddr>,
    pub(crate) kubelet_port: Option<u16>,
    pub(crate) cgroup_root: Option<String>,
    pub(crate) container_runtime: Option<ContainerRuntime>,
}

/// Who runs the pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ContainerRuntime {
    Embedded,
    /// Whoever speaks CRI there.
    Socket(PathBuf),
}

/// What one kind of range is called, and what it may be by default.
struct RangeKind {
    of: &'static str,
    flag: &'static str,
    /// The second numbers of the ranges below 10.0.0.0/8 and 172.16.0.0/12 that are tried.
    tens: std::ops::Range<u8>,
    seventeens: std::ops::Range<u8>,
    /// The length of the ranges of IPv6 that are tried, fd00:10:244::, with the same numbers.
    length_ipv6: u8,
}

const PODS: RangeKind = RangeKind {
    of: "pods",
    flag: "--pod-cidr",
    tens: 244..254,
    seventeens: 24..28,
    length_ipv6: 56,
};
const SERVICES: RangeKind = RangeKind {
    of: "Services",
    flag: "--service-cidr",
    tens: 96..106,
    seventeens: 28..32,
    length_ipv6: 112,
};

impl RangeKind {
    fn candidates(&self, family: Family) -> impl Iterator<Item = Cidr> {
        let v4 = |a: u8, b: u8| Cidr::containing([a, b, 0, 0].into(), 16);
        // The digits of IPv6 are hexadecimal: 0x0244 reads as 244.
        let digits = |it: u8| u16::from_str_radix(&it.to_string(), 16).ok();
        let v6 = move |it: u8| {
            let address = IpAddr::from([0xfd00, 0x10, digits(it)?, 0, 0, 0, 0, 0]);
            Cidr::containing(address, self.length_ipv6)
        };
        let is_v4 = family == Family::V4;
        let tens = self.tens.clone().filter_map(move |it| if is_v4 { v4(10, it) } else { v6(it) });
        let seventeens = self.seventeens.clone().filter(move |_| is_v4);
        tens.chain(seventeens.filter_map(move |it| v4(172, it)))
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

/// The first one's family is that of the pods' first; those that were asked for, else the machine's,
/// else the bridge's: a machine without a network. Never empty if there is a gateway.
pub(crate) fn node_addresses(
    given: &[IpAddr],
    machine: &[IpAddr],
    gateways: &[IpAddr],
) -> Vec<IpAddr> {
    let mut addresses = match (given, machine) {
        ([], []) => gateways.to_vec(),
        ([], machine) => machine.to_vec(),
        (given, _) => given.to_vec(),
    };
    let first = gateways.first().map(IpAddr::is_ipv4);
    addresses.sort_by_key(|it| Some(it.is_ipv4()) != first);
    addresses
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
        self.validate_sort();
        let name = self.name();
        let (service_cidrs, pod_cidrs) = self.ranges();
        let mut cluster = Cluster {
            id: self.id,
            name,
            network_namespace: self.around.namespace,
            bind_address: self.wishes.bind_address,
            https_port: 0,
            service_cidrs,
            pod_cidrs,
            node_ports: self.node_ports(),
            node: self.kept.and_then(|it| it.node.clone()),
            joined: self.wishes.joins.clone(),
        };
        let gateways = cluster.gateways();
        if cluster.joined.is_none() {
            cluster.https_port = self.https_port(&gateways);
        }
        if let Some(wishes) = &self.wishes.node {
            cluster.node = Some(self.node(wishes, &gateways));
            for gateway in gateways {
                if self.problems.is_empty() {
                    self.validate_dns(SocketAddr::new(gateway, DNS_PORT));
                }
            }
        }
        cluster
    }

    /// Of Services and of pods. Where one of the two was given, the other has the same families.
    fn ranges(&mut self) -> (Cidrs, Cidrs) {
        let kept = self.kept;
        let given_services =
            self.wishes.service_cidrs.clone().or_else(|| kept.map(|it| it.service_cidrs.clone()));
        let given_pods =
            self.wishes.pod_cidrs.clone().or_else(|| kept.map(|it| it.pod_cidrs.clone()));
        let given = given_pods.as_ref().or(given_services.as_ref());
        let families = given.map_or_else(|| vec![Family::V4], Cidrs::families);
        let pods = self.cidrs(&PODS, given_pods, &families, given_services.as_ref());
        let services = self.cidrs(&SERVICES, given_services, &families, Some(&pods));
        if pods.overlaps(&services) {
            self.problems.push(format!(
                "the addresses of pods, {pods}, and of Services, {services}, overlap: choose others with --pod-cidr or --service-cidr"
            ));
        }
        let lacking = services.families().into_iter().find(|it| pods.of(*it).is_none());
        if let Some(family) = lacking {
            self.problems.push(format!(
                "Services have {family} addresses, {services}, and pods have none, {pods}: nobody could answer there; \
                 choose others with --pod-cidr or --service-cidr"
            ));
        }
        (services, pods)
    }

    fn cidrs(
        &mut self,
        kind: &RangeKind,
        given: Option<Cidrs>,
        families: &[Family],
        avoid: Option<&Cidrs>,
    ) -> Cidrs {
        if let Some(given) = given {
            given.all().iter().for_each(|it| self.validate_range(kind, *it));
            return given;
        }
        let free = |family: &Family| self.free_range(kind, *family, avoid);
        let chosen = Cidrs::new(families.iter().map(free).collect());
        chosen.expect("the families are those of other ranges, and so differ")
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

    /// A directory is a cluster's or a node's, and stays so.
    fn validate_sort(&mut self) {
        let Some(kept) = self.kept else { return };
        match (&kept.joined, &self.wishes.joins) {
            (Some(joined), None) => self.problems.push(format!(
                "this directory is that of a node of the cluster at {}: start it with `xebec join`, or choose another with --name or --data-dir",
                joined.server
            )),
            (None, Some(_)) => self.problems.push(format!(
                "this directory is that of the cluster {}, which a machine does not join beside: choose another with --name or --data-dir",
                kept.name
            )),
            _ => {}
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

    fn validate_range(&mut self, kind: &RangeKind, range: Cidr) {
        let RangeKind { of, flag, .. } = kind;
        if let Some(owner) = self.owner_of_range(range, false) {
            let mut candidates = kind.candidates(range.family());
            let free = candidates.find(|it| self.owner_of_range(*it, true).is_none());
            let advice = free.map(|it| format!(", such as {it}")).unwrap_or_default();
            self.problems.push(format!(
                "the addresses of {of}, {range}, are taken by {owner}: choose others with {flag}{advice}"
            ));
        }
    }

    fn free_range(&mut self, kind: &RangeKind, family: Family, avoid: Option<&Cidrs>) -> Cidr {
        let RangeKind { of, flag, .. } = kind;
        let avoid = avoid.and_then(|it| it.of(family));
        let is_apart = |it: &Cidr| avoid.is_none_or(|avoid| !it.overlaps(avoid));
        let mut first_owner = None;
        for range in kind.candidates(family).filter(is_apart) {
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
        // The problem ends the start; it is only that there must be one.
        kind.candidates(family).next().expect("every kind has some of each family")
    }

    fn owner_of_range(&self, range: Cidr, with_absent: bool) -> Option<String> {
        let has = |it: &&Neighbor| {
            let cidrs = [&it.cluster.pod_cidrs, &it.cluster.service_cidrs];
            cidrs.into_iter().any(|it| it.all().iter().any(|it| it.overlaps(range)))
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

    fn https_port(&mut self, gateways: &[IpAddr]) -> u16 {
        let mut addresses = vec![self.wishes.bind_address];
        if self.wishes.node.is_some() {
            let bind = self.wishes.bind_address;
            addresses.extend(gateways.iter().filter(|it| !covers(bind, **it)));
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

    fn node(&mut self, wishes: &NodeWishes, gateways: &[IpAddr]) -> Node {
        let kept = self.kept.and_then(|it| it.node.as_ref());
        let name = wishes.name.clone().or_else(|| kept.map(|it| it.name.clone()));
        let name = name.unwrap_or_else(|| wishes.default_name.clone());
        for problem in is_dns_subdomain(&name) {
            self.problems.push(format!("--node-name {name:?}: {problem}"));
        }
        let ips = match (&wishes.ips[..], kept) {
            ([], Some(kept)) => kept.ips.clone(),
            (wished, _) => wished.to_vec(),
        };
        let listen = node_addresses(&ips, &wishes.default_ips, gateways);
        let given = wishes.kubelet_port.or_else(|| kept.map(|it| it.kubelet_port));
        Node {
            name,
            ips,
            bridge: self.bridge(kept),
            cgroup_root: self.cgroup_root(wishes, kept),
            kubelet_port: self.port(
                listen.get(..1).unwrap_or_default(),
                KUBELET_PORT,
                given,
                "--kubelet-port",
            ),
            pod_cidrs: kept.map(|it| it.pod_cidrs.clone()).unwrap_or_default(),
            container_runtime: match &wishes.container_runtime {
                Some(ContainerRuntime::Socket(path)) => Some(path.clone()),
                Some(ContainerRuntime::Embedded) => None,
                None => kept.and_then(|it| it.container_runtime.clone()),
            },
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
