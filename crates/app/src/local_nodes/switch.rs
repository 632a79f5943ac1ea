//! The switch that joins the nodes of a machine: a bridge on which the machine has the first
//! address, and rules by which nodes reach the world as the machine.

use std::collections::BTreeMap;
use std::net::IpAddr;

use linux::netlink::nftables::draft::table_family;
use linux::netlink::nftables::{
    Chain, ChainKind, Hook, HookPoint, Nftables, Rule, Table, TableId, priority,
};
use linux::netlink::route::{HardwareAddress, Link, LinkChange, RouteSocket};
use linux::{netlink, network_namespace, sysctl};
use node_api::ClusterId;
use stdx::{Cidr, Family};

use crate::cluster::{Cluster, switch_group};
use crate::commands::network::Cidrs;

const MTU: u32 = 1500;

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(transparent)]
    Netlink(#[from] netlink::Error),
    #[error(transparent)]
    Setting(#[from] sysctl::Error),
    #[error(
        "the link {0} is there and is not the bridge of this cluster's nodes: remove it (`ip link delete {0}`)"
    )]
    Foreign(String),
    #[error("the link {0} is gone")]
    Gone(String),
    #[error("open the network namespace of the node")]
    OpenNamespace(#[source] std::io::Error),
    #[error(transparent)]
    Namespace(#[from] network_namespace::Error),
}

#[derive(Clone, Debug)]
pub(super) struct Switch {
    cluster: ClusterId,
    ranges: Cidrs,
}

impl Switch {
    /// `None`: no nodes are to be joined.
    pub(super) fn of(cluster: &Cluster) -> Option<Self> {
        let ranges = cluster.local_nodes.as_ref()?.ranges.clone();
        Some(Self { cluster: cluster.id, ranges })
    }

    fn name(&self) -> String {
        format!("nodes-{}", self.cluster)
    }

    /// The first of the machine's own addresses on it.
    pub(super) fn gateway(&self) -> Option<IpAddr> {
        self.ranges.nth(1).first().copied()
    }

    pub(super) fn group(&self) -> u32 {
        switch_group(self.cluster)
    }

    /// Makes what is not there, in the network namespace of the calling thread.
    pub(super) fn make(&self) -> Result<(), Error> {
        let mut routes = RouteSocket::open()?;
        let name = self.name();
        if routes.link(&name)?.is_none() {
            routes.create_bridge(&name, self.group(), MTU)?;
        }
        let bridge = self.find(&mut routes)?.ok_or_else(|| Error::Gone(name.clone()))?;
        // Its own, or it has that of one of its ports, and another one when that goes.
        let address = hardware(End::Switch, self.cluster, 1);
        let change = LinkChange { is_up: Some(true), address: Some(address), ..Default::default() };
        routes.change_link(&bridge, change)?;
        if self.ranges.of(Family::V6).is_some() {
            routes.make_no_ipv6_addresses(&bridge)?;
            allow_ipv6(&name)?;
        }
        for range in self.ranges.all() {
            if let Some(address) = range.nth(1) {
                routes.add_address(&bridge, address, range.prefix_length())?;
            }
            Nftables::open(self.table(range.family()))?.converge(&table(*range))?;
        }
        Ok(())
    }

    /// What is this cluster's own.
    pub(super) fn find(&self, routes: &mut RouteSocket) -> Result<Option<Link>, Error> {
        let Some(link) = routes.link(&self.name())? else { return Ok(None) };
        let is_ours = link.group == self.group() && link.kind.as_deref() == Some("bridge");
        if is_ours { Ok(Some(link)) } else { Err(Error::Foreign(link.name)) }
    }

    /// With all cables that are plugged in. Goes on after a failure and returns all.
    pub(super) fn remove(&self) -> Vec<Error> {
        let mut problems = Vec::new();
        problems.extend(self.remove_links().err());
        for family in [Family::V4, Family::V6] {
            let purged = Nftables::open(self.table(family)).and_then(|mut it| it.purge());
            // A kernel without a family has no tables of it.
            let is_used = self.ranges.of(family).is_some();
            problems.extend(purged.err().filter(|_| is_used).map(Error::from));
        }
        problems
    }

    fn remove_links(&self) -> Result<(), Error> {
        let mut routes = RouteSocket::open()?;
        let group = self.group();
        for link in routes.links()?.into_iter().filter(|it| it.group == group) {
            routes.delete_link(&link)?;
        }
        Ok(())
    }

    fn table(&self, family: Family) -> TableId {
        TableId::new(table_family(family), self.cluster.table("nodes"))
    }
}

/// Links of this thread's namespace may be made without.
pub(super) fn allow_ipv6(link: &str) -> Result<(), sysctl::Error> {
    let setting = format!("net/ipv6/conf/{link}/disable_ipv6");
    match sysctl::read(&setting)?.as_deref() {
        None | Some("0") => Ok(()),
        Some(_) => sysctl::write(&setting, "0"),
    }
}

/// Nodes are nobody's neighbors outside: what leaves their network comes from the machine.
fn table(range: Cidr) -> Table {
    let rule = Rule::draft(range.family(), "nodes reach the world as the machine")
        .source_in(range)
        .destination_not_in(range)
        .masquerade();
    let hook = Hook::new(ChainKind::Nat, HookPoint::Postrouting, priority::SOURCE_NAT);
    let chains = BTreeMap::from([("sources".to_owned(), Chain::at(hook, vec![rule]))]);
    Table { chains, ..Table::default() }
}

/// Whose hardware address it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Switch,
    Port,
    Node,
}

/// Locally administered, and the same at every start.
pub(super) fn hardware(end: End, cluster: ClusterId, number: u8) -> HardwareAddress {
    let kind = match end {
        End::Switch => 0x06,
        End::Port => 0x0e,
        End::Node => 0x0a,
    };
    let [a, b, c, d] = cluster.link_group().to_be_bytes();
    HardwareAddress([kind, a, b, c, d, number])
}
