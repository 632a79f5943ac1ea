//! Observing and changing the kernel: the only I/O beside the file of records.
//!
//! Its sockets stay in the network namespace in which it was opened.

mod apply;
mod carrying;
mod hardening;
mod observe;
mod pod;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use linux::netlink::conntrack::Conntrack;
use linux::netlink::ethtool::Ethtool;
use linux::netlink::nftables::{self, Nftables, Table};
use linux::netlink::notices::{Notice, Notices};
use linux::netlink::route::{Destination, Link, Route, RouteSocket, Scope};
use linux::netlink::wireguard::Wireguard;
use linux::network_namespace::{self, NetworkNamespace};
use linux::{netlink, sysctl};
use node_api::ClusterId;
use node_api::network::{HostPort, Protocol};
use rustix::io::Errno;
use stdx::Family;

pub(crate) use carrying::Carried;
pub(crate) use observe::Observed;
pub(crate) use pod::PodNamespace;

use self::carrying::Carrying;
use crate::records::Record;
use crate::{Config, host_ports, table};

/// Routes of ours carry this number, which nobody else has in iproute2's `rt_protos`.
const PROTOCOL: u8 = 120;

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
    #[error("pods are to have IPv6 addresses, and this kernel has no IPv6")]
    NoIpv6,
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
    #[error(
        "this kernel has no links of kind {kind}: load the module {kind} (`modprobe {kind}`), or choose another --network"
    )]
    NoKind {
        kind: &'static str,
        #[source]
        source: netlink::Error,
    },
    #[error(
        "{name} is not of this cluster ({cluster}), or somebody else has what only one link can have:          look for it with `ip -d link`"
    )]
    TakenLink {
        name: String,
        cluster: ClusterId,
        #[source]
        source: netlink::Error,
    },
    #[error(
        "make the link {name} of kind tun: the kernel's module is called tun (`modprobe tun`), its device is \
         /dev/net/tun; without them choose another --network"
    )]
    NoTun {
        name: String,
        #[source]
        source: std::io::Error,
    },
    #[error(
        "have datagrams to {local} for the pod network: another cluster of this machine, or flannel, may have it"
    )]
    Listen {
        local: std::net::SocketAddrV4,
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    Carry(#[from] packets::Error),
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

    /// Whether a link was there when we looked, and was not when it was to be changed.
    pub(crate) fn is_missing_link(&self) -> bool {
        match self {
            Self::NoLink(_) => true,
            Self::Netlink(err) => err.is(Errno::NODEV),
            _ => false,
        }
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
    /// Without that of IPv6 where the kernel has none.
    tables: BTreeMap<Family, Nftables>,
    conntrack: Conntrack,
    cluster: ClusterId,
    bridge: String,
    /// Of pods' addresses.
    families: Vec<Family>,
    /// Opened when there is the first such link: the kernel's module comes with it.
    wireguard: Option<Wireguard>,
    carrying: Carrying,
    watched: Arc<Mutex<Watched>>,
}

/// Indices of links of which notices are about us: ours, and those by which nodes are reached.
#[derive(Debug, Default)]
struct Watched {
    own: BTreeSet<u32>,
    uplinks: BTreeSet<u32>,
}

impl Kernel {
    /// In the network namespace of the calling thread. Changes nothing yet.
    pub(crate) fn open(config: &Config) -> Result<Self, Error> {
        let cluster = config.cluster;
        let routes = RouteSocket::open()?;
        let mut tables =
            BTreeMap::from([(Family::V4, Nftables::open(table::id(cluster, Family::V4))?)]);
        let families: Vec<_> = config.ranges.iter().map(|it| it.node.family()).collect();
        if sysctl::read("net/ipv6/conf/all/disable_ipv6")?.is_some() {
            tables.insert(Family::V6, Nftables::open(table::id(cluster, Family::V6))?);
        } else if families.contains(&Family::V6) {
            return Err(Error::NoIpv6);
        }
        Ok(Self {
            namespace: NetworkNamespace::current()?,
            tables,
            conntrack: Conntrack::open()?,
            cluster,
            bridge: config.bridge.clone(),
            families,
            routes,
            wireguard: None,
            carrying: Carrying::new(config.worker.clone()),
            watched: Arc::default(),
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
        let Some(socket) = self.tables.get_mut(&Family::V4) else { return Ok(Vec::new()) };
        let tables = socket.tables()?;
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
            for (family, socket) in &mut self.tables {
                let id = table::id(cluster, *family);
                let observed = socket.observe_other(&id)?.unwrap_or_default();
                let has = |it: &&HostPort| table::has_host_port(&observed, it, *family);
                if let Some(port) = ports.iter().find(has) {
                    return Ok(Some((port, cluster)));
                }
            }
        }
        Ok(None)
    }

    /// Makes the rules as they should be, whatever they were.
    pub(crate) fn converge_tables(
        &mut self,
        desired: &BTreeMap<Family, Table>,
    ) -> Result<(), Error> {
        for (family, socket) in &mut self.tables {
            if let Some(table) = desired.get(family) {
                socket.converge(table)?;
            }
        }
        Ok(())
    }

    pub(crate) fn has_other_rules(
        &mut self,
        desired: &BTreeMap<Family, Table>,
    ) -> Result<bool, Error> {
        for (family, socket) in &mut self.tables {
            if let Some(table) = desired.get(family)
                && socket.differs(table)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The link leaves checksums to nobody. One that is gone is no concern.
    pub(crate) fn compute_checksums(&mut self, link: &str) -> Result<(), Error> {
        let Some(mut ethtool) = Ethtool::open_in(&self.namespace())? else { return Ok(()) };
        let is_there = self.routes.link(link)?.is_some_and(|it| self.is_ours(&it));
        if is_there && ethtool.leaves_checksums(link)? {
            ethtool.leave_checksums(link, false)?;
        }
        Ok(())
    }

    /// The worker, if packets are carried by one.
    pub(crate) fn carried(&self) -> Option<Carried> {
        self.carrying.follow()
    }

    /// Notices of links and of tables from now on, and which of them are about us.
    pub(crate) fn listen(&self) -> Result<(Notices, Notices, Ours), Error> {
        let open = || Ok((Notices::of_links()?, Notices::of_tables()?));
        let (links, tables) = self.namespace.run(open)?.map_err(Error::Netlink)?;
        let ours = Ours {
            cluster: self.cluster,
            bridge: self.bridge.clone(),
            table: table::id(self.cluster, Family::V4).name.into_owned(),
            ports: self.tables.values().map(Nftables::port).collect(),
            watched: Arc::clone(&self.watched),
        };
        Ok((links, tables, ours))
    }

    pub(crate) fn apply_to_table(
        &mut self,
        family: Family,
        changes: &[nftables::Change],
    ) -> Result<(), Error> {
        match self.tables.get_mut(&family) {
            Some(socket) if !changes.is_empty() => Ok(socket.apply(changes)?),
            _ => Ok(()),
        }
    }

    /// Lets UDP flows to the pod's host ports be looked at anew.
    pub(crate) fn forget_flows(&mut self, pod: &Record) -> Result<(), Error> {
        if pod.host_ports.iter().all(|it| it.protocol != Protocol::Udp) {
            return Ok(());
        }
        let addresses = self.routes.addresses()?;
        let local: BTreeSet<IpAddr> = addresses.iter().map(|it| it.address).collect();
        let is_stale = |it: &_| host_ports::is_stale(it, pod, |address| local.contains(&address));
        let udp = host_ports::protocol_number(Protocol::Udp);
        for family in self.families.clone() {
            self.conntrack.delete_where(family, udp, is_stale)?;
        }
        Ok(())
    }

    pub(crate) fn purge_tables(&mut self) -> Result<(), Error> {
        self.tables.values_mut().try_for_each(|it| Ok(it.purge()?))
    }

    /// Removes a pod's link on another socket than ours. The kernel takes about 20 ms for it, most
    /// of which others need not wait for. It is the link that is called so now, and none that gets
    /// the name meanwhile.
    pub(crate) fn link_remover(
        &mut self,
        name: &str,
    ) -> Result<impl FnOnce() -> Result<(), Error> + use<>, Error> {
        let link = self.routes.link(name)?.filter(|it| self.is_ours(it));
        let namespace = self.namespace();
        Ok(move || match link {
            Some(link) => Ok(RouteSocket::open_in(&namespace)?.delete_link(&link)?),
            None => Ok(()),
        })
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
    watched: Arc<Mutex<Watched>>,
}

impl Ours {
    pub(crate) fn concerns(&self, notice: &Notice) -> bool {
        match notice {
            Notice::Link(link) => {
                link.group == self.cluster.link_group()
                    || link.name == self.bridge
                    || lock(&self.watched).uplinks.contains(&link.index)
            }
            Notice::Neighbor { link } => lock(&self.watched).own.contains(link),
            Notice::Route(route) => has_our_protocol(route),
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

/// Others may have it, too.
fn has_our_protocol(route: &Route) -> bool {
    let number = if route.is_blackhole { Route::OF_BIRD } else { PROTOCOL };
    route.protocol == number
}

fn route_to(destination: Destination, link: Option<u32>) -> Route {
    Route {
        destination,
        link,
        is_blackhole: false,
        gateway: None,
        is_onlink: false,
        source: None,
        scope: Scope::Universe,
        metric: 0,
        mtu: None,
        protocol: PROTOCOL,
    }
}

/// Indices are whole whatever happened to who wrote them.
fn lock(watched: &Mutex<Watched>) -> MutexGuard<'_, Watched> {
    watched.lock().unwrap_or_else(PoisonError::into_inner)
}
