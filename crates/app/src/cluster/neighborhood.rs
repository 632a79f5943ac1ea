//! Who else is on this machine, and what they have. Only looks.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use linux::netlink::route::{Link, Route, RouteSocket};
use stdx::Cidr;

use super::ports::Transport;
use super::{Cluster, Registry, ports};

/// Another cluster.
#[derive(Clone, Debug)]
pub(super) struct Neighbor {
    pub(super) cluster: Cluster,
    pub(super) data_dir: PathBuf,
    /// The process that runs it, if one does.
    pub(super) pid: Option<i32>,
    /// It runs, or its network is still there for containers that go on.
    pub(super) is_present: bool,
}

impl Neighbor {
    pub(super) fn has_port(&self, port: u16) -> bool {
        let kubelet = self.cluster.node.as_ref().map(|it| it.kubelet_port);
        self.cluster.https_port == port || kubelet == Some(port)
    }
}

impl fmt::Display for Neighbor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the cluster {} in {}", self.cluster.name, self.data_dir.display())?;
        match self.pid {
            Some(pid) => write!(f, " (process {pid})"),
            None => f.write_str(" (stopped)"),
        }
    }
}

/// Addresses that somebody else on the machine has.
#[derive(Clone, Debug)]
pub(super) struct Network {
    pub(super) range: Cidr,
    /// `the route 10.244.0.0/16 over eth0`
    pub(super) what: String,
}

pub(super) struct Neighborhood<'a> {
    pub(super) namespace: u64,
    pub(super) clusters: Vec<Neighbor>,
    /// Of others, where they could meet a node's.
    pub(super) networks: Vec<Network>,
    /// The group of each link, by its name.
    pub(super) links: BTreeMap<String, u32>,
    /// Who listens there, if somebody does.
    pub(super) port_holder: &'a dyn Fn(SocketAddr, Transport) -> Option<String>,
}

impl Neighborhood<'_> {
    /// Around the cluster in `data_dir`. Without a node nothing of it is in the kernel, and it
    /// meets nobody there.
    pub(super) fn look(
        registry: &Registry,
        data_dir: &Path,
        own: Option<&Cluster>,
        has_node: bool,
    ) -> Result<Self> {
        let (mut links, mut networks) = (Vec::new(), Vec::new());
        if has_node {
            let mut socket = RouteSocket::open()?;
            links = socket.links()?;
            networks = networks_of_others(&mut socket, &links, own)?;
            networks.extend(name_servers());
        }
        let links = links.into_iter().map(|it| (it.name, it.group)).collect();
        let own_dir = std::fs::canonicalize(data_dir).unwrap_or_else(|_| data_dir.to_owned());
        let others = registry.clusters()?.into_iter().filter(|it| it.data_dir != own_dir);
        let namespace = namespace()?;
        let clusters = others
            .map(|it| Neighbor {
                is_present: it.pid.is_some() || has_bridge(&it.cluster, &links),
                cluster: it.cluster,
                data_dir: it.data_dir,
                pid: it.pid,
            })
            .collect();
        Ok(Self { namespace, clusters, networks, links, port_holder: &ports::holder })
    }
}

/// A process in the network namespace that the cluster was last started in, if that is another one
/// than ours and still there.
pub(crate) fn process_in_namespace_of(cluster: &Cluster) -> Result<Option<String>> {
    if cluster.network_namespace == namespace()? {
        return Ok(None);
    }
    let processes = std::fs::read_dir("/proc").context("reading /proc")?.flatten();
    let is_there = |it: &std::fs::DirEntry| {
        let found = std::fs::metadata(it.path().join("ns/net"));
        found.is_ok_and(|it| it.ino() == cluster.network_namespace)
    };
    let found = processes.into_iter().find(is_there);
    Ok(found.map(|it| it.file_name().to_string_lossy().into_owned()))
}

/// Which network namespace this process is in.
pub(super) fn namespace() -> Result<u64> {
    let file = std::fs::metadata("/proc/self/ns/net").context("reading /proc/self/ns/net")?;
    Ok(file.ino())
}

fn has_bridge(cluster: &Cluster, links: &BTreeMap<String, u32>) -> bool {
    let bridge = cluster.node.as_ref().and_then(|it| links.get(&it.bridge));
    bridge == Some(&cluster.id.link_group())
}

/// Shorter prefixes are ways to the whole world, such as the two halves that VPNs put before the
/// default route.
const PREFIX_MIN: u8 = 8;

/// What every link has, and nobody can take: link-local addresses and multicast.
fn is_of_link(range: Cidr) -> bool {
    match range.network() {
        IpAddr::V4(_) => false,
        IpAddr::V6(it) => it.is_unicast_link_local() || it.is_multicast(),
    }
}

/// Whom this machine asks for names: where a pod or a Service had the address, it would ask that.
fn name_servers() -> impl Iterator<Item = Network> {
    let servers = crate::node::name_servers().into_iter();
    let servers = servers.map(|it| it.ip()).filter(|it| !it.is_loopback());
    servers.map(|it| Network {
        range: Cidr::host(it),
        what: format!("the name server {it} of /etc/resolv.conf"),
    })
}

fn networks_of_others(
    socket: &mut RouteSocket,
    links: &[Link],
    own: Option<&Cluster>,
) -> Result<Vec<Network>> {
    let link = |index: u32| links.iter().find(|it| it.index == index);
    let is_own_link = |index: u32| {
        link(index).is_some_and(|it| own.is_some_and(|own| own.id.link_group() == it.group))
    };
    let name = |index: u32| link(index).map_or_else(|| index.to_string(), |it| it.name.clone());
    let mut networks = Vec::new();
    for route in socket.routes()? {
        let Some(range) = range_of(&route) else { continue };
        match route.link {
            Some(index) if is_own_link(index) => {}
            // Ways of ours to the pods of other nodes.
            Some(_) if own.is_some_and(|it| it.id.link_group() == route.metric) => {}
            Some(index) => {
                let what = format!("the route {range} over {}", name(index));
                networks.push(Network { range, what });
            }
            // What is no pod's of ours is nowhere.
            None if own.is_some_and(|it| it.id.link_group() == route.metric) => {}
            None => {
                networks.push(Network { range, what: format!("the route {range} to nowhere") });
            }
        }
    }
    for address in socket.addresses()?.into_iter().filter(|it| !is_own_link(it.link)) {
        let range = Cidr::host(address.address);
        if !is_of_link(range) {
            let what = format!("the address {} of {}", address.address, name(address.link));
            networks.push(Network { range, what });
        }
    }
    Ok(networks)
}

fn range_of(route: &Route) -> Option<Cidr> {
    let range = Cidr::containing(route.destination.address, route.destination.prefix_length)?;
    (range.prefix_length() >= PREFIX_MIN && !is_of_link(range)).then_some(range)
}
