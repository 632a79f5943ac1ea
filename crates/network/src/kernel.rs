//! Observing and changing the kernel: the only I/O beside the file of records.
//!
//! Its sockets stay in the network namespace in which it was opened.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use linux::netlink::conntrack::Conntrack;
use linux::netlink::nftables::{self, Nftables, Table};
use linux::netlink::route::{
    Destination, HardwareAddress, Ipv4Setting, Link, LinkChange, Namespace, Neighbor, Peer, Route,
    RouteSocket, Scope, VethPair,
};
use linux::network_namespace::{self, NetworkNamespace};
use linux::{netlink, sysctl};
use node_api::network::Protocol;

use crate::kernel_state::{Bridge, Change, KernelState, PodLink};
use crate::range::Range;
use crate::records::Record;
use crate::{host_ports, table};

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
    #[error("bridge {0} is not of this cluster: its link group is {1:#x}")]
    OthersBridge(String, u32),
    #[error("link {0} is gone")]
    NoLink(String),
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
    /// Rules match it, and we know our links by it.
    group: u32,
    bridge: String,
    gateway: Ipv4Addr,
    mtu: u32,
}

impl Kernel {
    /// In the network namespace of the calling thread. Without an MTU, that of the way to the world.
    pub(crate) fn open(
        cluster: node_api::ClusterId,
        bridge: &str,
        gateway: Ipv4Addr,
        mtu: Option<u32>,
    ) -> Result<Self, Error> {
        let mut routes = RouteSocket::open()?;
        let mtu = match mtu {
            Some(mtu) => mtu,
            None => routes.default_interface()?.map_or(MTU, |it| it.mtu),
        };
        let has_ipv6 = sysctl::read("net/ipv6/conf/all/disable_ipv6")?.is_some();
        let table_ipv6 = has_ipv6
            .then(|| Nftables::open(table::id(nftables::TableFamily::Ip6, cluster)))
            .transpose()?;
        Ok(Self {
            namespace: NetworkNamespace::current()?,
            table: Nftables::open(table::id(nftables::TableFamily::Ip, cluster))?,
            table_ipv6,
            conntrack: Conntrack::open()?,
            group: cluster.link_group(),
            bridge: bridge.to_owned(),
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
    pub(crate) fn namespace(&self) -> PathBuf {
        self.namespace.path()
    }

    /// What is there of ours, and these settings.
    pub(crate) fn observe(&mut self, settings: &[&str]) -> Result<KernelState, Error> {
        let links = self.routes.links()?;
        let addresses = self.routes.addresses()?;
        let routes = self.routes.routes()?;
        let mut state = KernelState::default();
        for link in links {
            if link.name == self.bridge {
                if link.kind.as_deref() != Some("bridge") {
                    return Err(Error::NoBridge(link.name));
                }
                if link.group != self.group {
                    return Err(Error::OthersBridge(link.name, link.group));
                }
                let of_bridge = addresses.iter().filter(|it| it.link == link.index);
                let addresses = of_bridge
                    .filter_map(|it| ipv4(it.address).map(|address| (address, it.prefix_length)))
                    .collect();
                state.bridge = Some(Bridge { is_up: link.is_up, addresses });
            } else if link.group == self.group && link.kind.as_deref() == Some("veth") {
                let of_link = routes.iter().filter(|it| it.link == Some(link.index));
                let routes = of_link.filter_map(|it| ipv4(it.destination.address)).collect();
                state.links.insert(link.name, PodLink { is_up: link.is_up, routes });
            }
        }
        state.unreachable = routes
            .iter()
            .filter(|it| it.link.is_none() && it.protocol == PROTOCOL)
            .filter_map(|it| {
                Some(Range::new(ipv4(it.destination.address)?, it.destination.prefix_length))
            })
            .filter(|it| it.network() == gateway_range(self.gateway, it.prefix_length()))
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
                self.routes.create_bridge(&self.bridge, self.mtu)?;
                let bridge = self.find(&self.bridge.clone())?;
                let ours = LinkChange { group: Some(self.group), ..LinkChange::default() };
                self.routes.change_link(&bridge, ours)?;
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
            Change::DeleteBridge => self.routes.delete_link(&self.bridge)?,
            Change::Connect { link, address } => self.connect_host(link, *address)?,
            Change::DeleteRoute { link, address } => {
                let link = self.find(link)?;
                let route = route_to(Destination::host((*address).into()), Some(link.index));
                self.routes.delete_route(&Route { scope: Scope::Link, ..route })?;
            }
            Change::DeleteLink(name) => self.routes.delete_link(name)?,
            Change::AddUnreachable(range) => self.routes.put_route(&to_nowhere(*range))?,
            Change::DeleteUnreachable(range) => self.routes.delete_route(&to_nowhere(*range))?,
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

    /// What holds for every link that we make, also for one that an earlier version made: it hears nothing but the packets of its
    /// pod. One that is gone is no concern.
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
        namespace: &Path,
        address: Ipv4Addr,
    ) -> Result<(), Error> {
        let mut pod = RouteSocket::open_in(namespace)?;
        let group = self.group;
        let is_connected = self.routes.link(link)?.is_some_and(|it| it.group == group)
            && pod.link(POD_LINK)?.is_some_and(|it| it.address == Some(pod_hardware(address)));
        if !is_connected {
            // What is left of an earlier attempt goes with its other end.
            self.routes.delete_link(link)?;
            let file = File::open(namespace).map_err(Error::OpenNamespace)?;
            self.routes.create_veth(&VethPair {
                name: link,
                address: host_hardware(address),
                group: self.group,
                mtu: self.mtu,
                peer: Peer {
                    name: POD_LINK,
                    address: pod_hardware(address),
                    namespace: Namespace::File(file.as_fd()),
                },
            })?;
        }
        self.connect_pod(&mut pod, address)?;
        self.connect_host(link, address)
    }

    /// The pod's side: one address, and everything else is behind the gateway. The gateway's hardware address is known for good, so
    /// nobody asks for it.
    fn connect_pod(&self, pod: &mut RouteSocket, address: Ipv4Addr) -> Result<(), Error> {
        if let Some(loopback) = pod.link("lo")? {
            pod.change_link(&loopback, UP)?;
        }
        let link = pod.link(POD_LINK)?.ok_or_else(|| Error::NoLink(POD_LINK.into()))?;
        pod.change_link(&link, UP)?;
        pod.add_address(&link, address.into(), 32)?;
        let gateway = IpAddr::from(self.gateway);
        let hardware_address = host_hardware(address);
        pod.put_neighbor(&link, Neighbor { address: gateway, hardware_address })?;
        let to_gateway = route_to(Destination::host(gateway), Some(link.index));
        pod.put_route(&Route { scope: Scope::Link, ..to_gateway })?;
        let to_all = route_to(Destination::DEFAULT, Some(link.index));
        Ok(pod.put_route(&Route { gateway: Some(gateway), ..to_all })?)
    }

    /// The host's side: the pod's address is routed over its own link, and nothing else may come from there.
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

    fn find(&mut self, name: &str) -> Result<Link, Error> {
        self.routes.link(name)?.ok_or_else(|| Error::NoLink(name.to_owned()))
    }
}

/// Removes a pod's link. The kernel takes about 20 ms for it, most of which others need not wait for.
pub(crate) fn delete_link(namespace: &Path, name: &str) -> Result<(), Error> {
    Ok(RouteSocket::open_in(namespace)?.delete_link(name)?)
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

fn to_nowhere(range: Range) -> Route {
    let address = range.network().into();
    route_to(Destination { address, prefix_length: range.prefix_length() }, None)
}

/// The start of the range of this length that has the gateway in it: routes to others are other clusters'.
fn gateway_range(gateway: Ipv4Addr, prefix_length: u8) -> Ipv4Addr {
    Range::new(gateway, prefix_length).network()
}

fn ipv4(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }
}

/// Derived from the address, so that it is the same after any restart. The second lowest bit says that no vendor gave it.
fn pod_hardware(address: Ipv4Addr) -> HardwareAddress {
    let [a, b, c, d] = address.octets();
    HardwareAddress([0x0a, 0x58, a, b, c, d])
}

fn host_hardware(address: Ipv4Addr) -> HardwareAddress {
    let [a, b, c, d] = address.octets();
    HardwareAddress([0x0e, 0x58, a, b, c, d])
}
