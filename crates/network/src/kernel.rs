//! Observing and changing the kernel: the only I/O beside the file of records.
//!
//! Its sockets stay in the network namespace in which it was opened.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::path::PathBuf;

use linux::netlink::conntrack::Conntrack;
use linux::netlink::nftables::{self, Nftables, Table};
use linux::netlink::notices::{Notice, Notices};
use linux::netlink::route::{
    Destination, HardwareAddress, Ipv4Setting, Link, LinkChange, Namespace, Neighbor, Peer, Route,
    RouteSocket, Scope, VethPair,
};
use linux::network_namespace::{self, NetworkNamespace};
use linux::{netlink, sysctl};
use node_api::ClusterId;
use node_api::network::{HostPort, Protocol};
use rustix::io::Errno;

use crate::kernel_state::{Bridge, Change, KernelState, PodLink};
use crate::range::Range;
use crate::records::Record;
use crate::{Config, host_ports, table};

/// Routes of ours carry this number, which nobody else has in iproute2's `rt_protos`.
const PROTOCOL: u8 = 120;
/// The name of a pod's own link, in the pod.
const POD_LINK: &str = "eth0";
const MTU: u32 = 1500;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Netlink(#[from] netlink::Error),
    #[error(transparent)]
    Setting(#[from] sysctl::Error),
    #[error(transparent)]
    Namespace(#[from] network_namespace::Error),
    #[error("open the pod's network namespace")]
    OpenNamespace(#[source] std::io::Error),
    #[error(
        "{0} is there and is no bridge: give the bridge another name, or remove it (`ip link delete`)"
    )]
    NoBridge(String),
    #[error(
        "{name} is not of this cluster ({cluster}): it is in link group {group:08x}; another cluster has it, or somebody else: \
         give the bridge another name, or remove it if nobody needs it (`ip link delete {name}`)"
    )]
    ForeignBridge { name: String, group: u32, cluster: ClusterId },
    #[error("link {0} is gone")]
    NoLink(String),
    #[error("change the pod's own network")]
    InPod(#[source] netlink::Error),
}

impl Error {
    /// Whether what is in the pod's namespace, which is the pod's to change, is at fault. A link that
    /// goes while it is being mended is one whose other end was deleted there; the kernel's notice
    /// of that is on its way, and the next look finds it missing.
    pub(crate) fn is_in_pod(&self) -> bool {
        matches!(self, Self::InPod(_) | Self::NoLink(_))
    }
}

impl From<Error> for node_api::Error {
    fn from(err: Error) -> Self {
        Self::node("set up the pod network", err)
    }
}

pub(crate) struct Kernel {
    namespace: NetworkNamespace,
    routes: RouteSocket,
    table: Nftables,
    /// `None` where the kernel has no IPv6.
    table_ipv6: Option<Nftables>,
    conntrack: Conntrack,
    cluster: ClusterId,
    bridge: String,
    gateway: Ipv4Addr,
    mtu: u32,
}

impl Kernel {
    /// In the network namespace of the calling thread. Without an MTU, that of the way to the
    /// world. Changes nothing yet.
    pub(crate) fn open(config: &Config, gateway: Ipv4Addr) -> Result<Self, Error> {
        let cluster = config.cluster;
        let mut routes = RouteSocket::open()?;
        let mtu = match config.mtu {
            Some(mtu) => mtu,
            None => routes.default_interface()?.map_or(MTU, |it| it.mtu),
        };
        let has_ipv6 = sysctl::read("net/ipv6/conf/all/disable_ipv6")?.is_some();
        let table_ipv6 = has_ipv6.then(|| Nftables::open(table::id_ipv6(cluster))).transpose()?;
        Ok(Self {
            namespace: NetworkNamespace::current()?,
            table: Nftables::open(table::id(cluster))?,
            table_ipv6,
            conntrack: Conntrack::open()?,
            cluster,
            bridge: config.bridge.clone(),
            routes,
            gateway,
            mtu,
        })
    }

    /// What the kernel calls the time since it started.
    pub(crate) fn boot() -> Result<String, Error> {
        Ok(sysctl::read("kernel/random/boot_id")?.unwrap_or_else(|| "unknown".into()))
    }

    /// A file that names the namespace.
    fn namespace(&self) -> PathBuf {
        self.namespace.path()
    }

    /// Refuses to go on with a link that has the bridge's name and is not ours.
    pub(crate) fn validate_bridge(&mut self) -> Result<(), Error> {
        let Some(link) = self.routes.link(&self.bridge)? else { return Ok(()) };
        if link.kind.as_deref() != Some("bridge") {
            return Err(Error::NoBridge(link.name));
        }
        if !self.is_ours(&link) {
            let (name, group, cluster) = (link.name, link.group, self.cluster);
            return Err(Error::ForeignBridge { name, group, cluster });
        }
        Ok(())
    }

    fn is_ours(&self, link: &Link) -> bool {
        link.group == self.cluster.link_group()
    }

    /// Whose pod networks are in this network namespace beside ours.
    pub(crate) fn other_clusters(&mut self) -> Result<Vec<ClusterId>, Error> {
        let tables = self.table.tables()?;
        let clusters = tables.iter().filter_map(table::cluster_of);
        Ok(clusters.filter(|it| *it != self.cluster).collect())
    }

    /// The first of these ports that another cluster sends to one of its pods, and which one does.
    pub(crate) fn host_port_of_others<'a>(
        &mut self,
        ports: &'a [HostPort],
    ) -> Result<Option<(&'a HostPort, ClusterId)>, Error> {
        if ports.is_empty() {
            return Ok(None);
        }
        for cluster in self.other_clusters()? {
            let observed = self.table.observe_other(&table::id(cluster))?.unwrap_or_default();
            if let Some(port) = ports.iter().find(|it| table::has_host_port(&observed, it)) {
                return Ok(Some((port, cluster)));
            }
        }
        Ok(None)
    }

    /// What is there of ours, and these settings.
    pub(crate) fn observe(&mut self, settings: &[&str]) -> Result<KernelState, Error> {
        let links = self.routes.links()?;
        let addresses = self.routes.addresses()?;
        let routes = self.routes.routes()?;
        let mut state = KernelState::default();
        for link in links.into_iter().filter(|it| self.is_ours(it)) {
            if link.name == self.bridge {
                let of_bridge = addresses.iter().filter(|it| it.link == link.index);
                let addresses = of_bridge
                    .filter_map(|it| ipv4(it.address).map(|address| (address, it.prefix_length)))
                    .collect();
                state.bridge = Some(Bridge { is_up: link.is_up, addresses });
            } else if link.kind.as_deref() == Some("veth") {
                let of_link = routes.iter().filter(|it| it.link == Some(link.index));
                let routes = of_link.filter_map(|it| ipv4(it.destination.address)).collect();
                state.links.insert(link.name, PodLink { is_up: link.is_up, routes });
            }
        }
        state.unreachable = routes
            .iter()
            .filter(|it| it.link.is_none() && it.protocol == PROTOCOL)
            .filter(|it| it.metric == self.cluster.link_group())
            .filter_map(|it| {
                Some(Range::new(ipv4(it.destination.address)?, it.destination.prefix_length))
            })
            .collect::<BTreeSet<_>>();
        state.settings = self.namespace.run(|| read_settings(settings))??;
        Ok(state)
    }

    pub(crate) fn apply(&mut self, change: &Change) -> Result<(), Error> {
        match change {
            Change::Set { name, value } => {
                self.namespace.run(|| sysctl::write(name, value))??;
            }
            Change::CreateBridge => {
                let group = self.cluster.link_group();
                self.routes.create_bridge(&self.bridge, group, self.mtu)?;
            }
            Change::BringBridgeUp => {
                let bridge = self.find(&self.bridge.clone())?;
                self.routes.change_link(&bridge, UP)?;
            }
            Change::AddAddress(address, prefix_length) => {
                let bridge = self.find(&self.bridge.clone())?;
                self.routes.add_address(&bridge, (*address).into(), *prefix_length)?;
            }
            Change::DeleteAddress(address, prefix_length) => {
                let bridge = self.find(&self.bridge.clone())?;
                self.routes.delete_address(&bridge, (*address).into(), *prefix_length)?;
            }
            Change::DeleteBridge => self.delete_own_link(&self.bridge.clone())?,
            Change::Connect { link, address } => self.connect_host(link, *address)?,
            // Takes a namespace: see `connect`.
            Change::Reconnect { link, .. } => return Err(Error::NoLink(link.clone())),
            Change::DeleteRoute { link, address } => {
                let link = self.find(link)?;
                let route = route_to(Destination::host((*address).into()), Some(link.index));
                self.routes.delete_route(&Route { scope: Scope::Link, ..route })?;
            }
            Change::DeleteLink(name) => self.delete_own_link(name)?,
            Change::AddUnreachable(range) => self.routes.put_route(&self.to_nowhere(*range))?,
            Change::DeleteUnreachable(range) => {
                self.routes.delete_route(&self.to_nowhere(*range))?;
            }
        }
        Ok(())
    }

    /// Makes the rules as they should be, whatever they were. Says whether anything had to change.
    pub(crate) fn converge_table(&mut self, desired: &Table) -> Result<bool, Error> {
        Ok(self.table.converge(desired)?)
    }

    pub(crate) fn converge_table_ipv6(&mut self, desired: &Table) -> Result<(), Error> {
        if let Some(table) = &mut self.table_ipv6 {
            table.converge(desired)?;
        }
        Ok(())
    }

    pub(crate) fn has_other_rules(
        &mut self,
        table: &Table,
        table_ipv6: &Table,
    ) -> Result<bool, Error> {
        let ipv6 = self.table_ipv6.as_mut().map(|it| it.differs(table_ipv6)).transpose()?;
        Ok(ipv6 == Some(true) || self.table.differs(table)?)
    }

    /// Notices of links and of tables from now on, and which of them are about us.
    pub(crate) fn listen(&self) -> Result<(Notices, Notices, Ours), Error> {
        let open = || Ok((Notices::of_links()?, Notices::of_tables()?));
        let (links, tables) = self.namespace.run(open)?.map_err(Error::Netlink)?;
        let ipv6 = self.table_ipv6.iter().map(Nftables::port);
        let ours = Ours {
            cluster: self.cluster,
            bridge: self.bridge.clone(),
            table: table::id(self.cluster).name.into_owned(),
            ports: ipv6.chain([self.table.port()]).collect(),
        };
        Ok((links, tables, ours))
    }

    pub(crate) fn apply_to_table(&mut self, changes: &[nftables::Change]) -> Result<(), Error> {
        Ok(self.table.apply(changes)?)
    }

    /// Lets UDP flows to the pod's host ports be looked at anew.
    pub(crate) fn forget_flows(&mut self, pod: &Record) -> Result<(), Error> {
        if pod.host_ports.iter().all(|it| it.protocol != Protocol::Udp) {
            return Ok(());
        }
        let addresses = self.routes.addresses()?;
        let local: BTreeSet<_> = addresses.iter().filter_map(|it| ipv4(it.address)).collect();
        let is_stale = |it: &_| host_ports::is_stale(it, pod, |address| local.contains(&address));
        self.conntrack.delete_where(host_ports::protocol_number(Protocol::Udp), is_stale)?;
        Ok(())
    }

    pub(crate) fn purge_table(&mut self) -> Result<(), Error> {
        if let Some(table) = &mut self.table_ipv6 {
            table.purge()?;
        }
        Ok(self.table.purge()?)
    }

    /// What holds for every link that we make, also for one that an earlier version made: it hears
    /// nothing but the packets of its pod. One that is gone is no concern.
    pub(crate) fn harden(&mut self, name: &str) -> Result<(), Error> {
        let Some(link) = self.routes.link(name)? else { return Ok(()) };
        self.routes.set_ipv4(&link, HARDENED)?;
        let setting = format!("net/ipv6/conf/{name}/disable_ipv6");
        self.namespace.run(|| match sysctl::read(&setting)? {
            Some(value) if value != "1" => sysctl::write(&setting, "1"),
            _ => Ok(()),
        })??;
        Ok(())
    }

    pub(crate) fn harden_bridge(&mut self) -> Result<(), Error> {
        self.harden(&self.bridge.clone())
    }

    /// Makes the pair and all that a pod needs to send and receive. What is right already stays.
    pub(crate) fn connect(
        &mut self,
        link: &str,
        namespace: BorrowedFd<'_>,
        address: Ipv4Addr,
    ) -> Result<(), Error> {
        let path = PathBuf::from(format!("/proc/self/fd/{}", namespace.as_raw_fd()));
        let mut pod = RouteSocket::open_in(&path)?;
        let in_pod = pod.link(POD_LINK).map_err(Error::InPod)?;
        let is_connected = self.routes.link(link)?.is_some_and(|it| self.is_ours(&it))
            && in_pod.is_some_and(|it| it.address == Some(pod_hardware(address)));
        if !is_connected {
            // What is left of an earlier attempt goes with its other end.
            self.delete_own_link(link)?;
            let pair = VethPair {
                name: link,
                address: host_hardware(address),
                group: self.cluster.link_group(),
                mtu: self.mtu,
                peer: Peer {
                    name: POD_LINK,
                    address: pod_hardware(address),
                    namespace: Namespace::File(namespace),
                },
            };
            self.routes.create_veth(&pair).map_err(|err| match err.is(Errno::EXIST) {
                true => Error::InPod(err),
                false => err.into(),
            })?;
        }
        self.connect_pod(&mut pod, address).map_err(Error::InPod)?;
        self.connect_host(link, address)
    }

    /// The pod's side: one address, and everything else is behind the gateway. The gateway's
    /// hardware address is known for good, so nobody asks for it.
    fn connect_pod(&self, pod: &mut RouteSocket, address: Ipv4Addr) -> Result<(), netlink::Error> {
        if let Some(loopback) = pod.link("lo")? {
            pod.change_link(&loopback, UP)?;
        }
        let Some(link) = pod.link(POD_LINK)? else {
            let (doing, source) = (format!("find link {POD_LINK}"), Errno::NODEV.into());
            return Err(netlink::Error { doing, source });
        };
        pod.change_link(&link, UP)?;
        pod.add_address(&link, address.into(), 32)?;
        let gateway = IpAddr::from(self.gateway);
        let hardware_address = host_hardware(address);
        pod.put_neighbor(&link, Neighbor { address: gateway, hardware_address })?;
        let to_gateway = route_to(Destination::host(gateway), Some(link.index));
        pod.put_route(&Route { scope: Scope::Link, ..to_gateway })?;
        let to_all = route_to(Destination::DEFAULT, Some(link.index));
        pod.put_route(&Route { gateway: Some(gateway), ..to_all })
    }

    /// The host's side: the pod's address is routed over its own link, and nothing else may come
    /// from there.
    fn connect_host(&mut self, name: &str, address: Ipv4Addr) -> Result<(), Error> {
        let link = self.find(name)?;
        if !link.is_up {
            self.routes.change_link(&link, UP)?;
        }
        self.harden(name)?;
        self.routes.set_ipv4(&link, &[(Ipv4Setting::RouteLocalnet, 1)])?;
        let hardware_address = pod_hardware(address);
        let neighbor = Neighbor { address: address.into(), hardware_address };
        self.routes.put_neighbor(&link, neighbor)?;
        let route = route_to(Destination::host(address.into()), Some(link.index));
        let source = Some(self.gateway.into());
        Ok(self.routes.put_route(&Route { scope: Scope::Link, source, ..route })?)
    }

    /// One of ours.
    fn find(&mut self, name: &str) -> Result<Link, Error> {
        let link = self.routes.link(name)?.filter(|it| self.is_ours(it));
        link.ok_or_else(|| Error::NoLink(name.to_owned()))
    }

    fn delete_own_link(&mut self, name: &str) -> Result<(), Error> {
        delete_link(&mut self.routes, self.cluster, name)
    }

    /// Its metric, which nothing depends on, says whose it is.
    fn to_nowhere(&self, range: Range) -> Route {
        let address = range.network().into();
        let destination = Destination { address, prefix_length: range.prefix_length() };
        Route { metric: self.cluster.link_group(), ..route_to(destination, None) }
    }

    /// Removes a pod's link on another socket than ours. The kernel takes about 20 ms for it, most
    /// of which others need not wait for.
    pub(crate) fn link_remover(&self) -> impl FnOnce(&str) -> Result<(), Error> + use<> {
        let (namespace, cluster) = (self.namespace(), self.cluster);
        move |name| delete_link(&mut RouteSocket::open_in(&namespace)?, cluster, name)
    }
}

/// By what we know notices that somebody changed what is ours.
#[derive(Debug)]
pub(crate) struct Ours {
    cluster: ClusterId,
    bridge: String,
    table: String,
    /// Of the sockets by which we change the tables ourselves.
    ports: Vec<u32>,
}

impl Ours {
    pub(crate) fn concerns(&self, notice: &Notice) -> bool {
        match notice {
            Notice::Link(link) => {
                link.group == self.cluster.link_group() || link.name == self.bridge
            }
            Notice::Route(route) => route.protocol == PROTOCOL,
            Notice::Table { name, port } => *name == self.table && !self.ports.contains(port),
            Notice::Address { .. } | Notice::Setting | Notice::Missed => true,
        }
    }
}

/// If it is there, and the cluster's.
fn delete_link(routes: &mut RouteSocket, cluster: ClusterId, name: &str) -> Result<(), Error> {
    match routes.link(name)? {
        Some(link) if link.group == cluster.link_group() => Ok(routes.delete_link(&link)?),
        _ => Ok(()),
    }
}

const HARDENED: &[(Ipv4Setting, u32)] = &[
    (Ipv4Setting::ReversePathFilter, 1),
    (Ipv4Setting::AcceptRedirects, 0),
    (Ipv4Setting::SendRedirects, 0),
    (Ipv4Setting::AcceptSourceRoute, 0),
    (Ipv4Setting::ProxyArp, 0),
    (Ipv4Setting::ArpAccept, 0),
];

const UP: LinkChange =
    LinkChange { is_up: Some(true), mtu: None, address: None, group: None, master: None };

fn read_settings(names: &[&str]) -> Result<BTreeMap<String, String>, sysctl::Error> {
    let mut settings = BTreeMap::new();
    for name in names {
        if let Some(value) = sysctl::read(name)? {
            settings.insert((*name).to_owned(), value);
        }
    }
    Ok(settings)
}

fn route_to(destination: Destination, link: Option<u32>) -> Route {
    let scope = Scope::Universe;
    Route { destination, link, gateway: None, source: None, scope, metric: 0, protocol: PROTOCOL }
}

fn ipv4(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }
}

/// Derived from the address, so that it is the same after any restart. The second lowest bit says
/// that no vendor gave it.
fn pod_hardware(address: Ipv4Addr) -> HardwareAddress {
    let [a, b, c, d] = address.octets();
    HardwareAddress([0x0a, 0x58, a, b, c, d])
}

fn host_hardware(address: Ipv4Addr) -> HardwareAddress {
    let [a, b, c, d] = address.octets();
    HardwareAddress([0x0e, 0x58, a, b, c, d])
}
