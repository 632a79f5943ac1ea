//! Ways to make the kernel serve Services: one folder for each proxy mode, one line in [`ALL`].
//!
//! A back end describes purely what should be; its `apply.rs` alone asks the kernel. Every one
//! passes `tests/traffic`.

pub mod ebpf;
mod flows;
pub mod iptables;
pub mod nftables;
mod strangers;
#[cfg(test)]
mod tests;
pub mod userspace;

use std::fmt;

use apimachinery::ObjectKey;
use futures_util::future::BoxFuture;
use node_api::ClusterId;
use stdx::{Cidr, Family};

use crate::service_port::ServicePort;

/// Every mode, by name.
pub const ALL: &[&Mode] = &[&ebpf::MODE, &iptables::MODE, &nftables::MODE, &userspace::MODE];

/// Where nobody chooses.
pub const DEFAULT: &Mode = &nftables::MODE;

pub type Open = fn(ClusterId, &Networks) -> Result<Box<dyn Backend>, Error>;

/// What `--proxy-mode` chooses from.
pub struct Mode {
    pub name: &'static str,
    /// In the network namespace of the calling thread. Changes nothing yet.
    pub open: Open,
    /// Removes all that the cluster has in the kernel, if there is anything. Needs nothing running.
    pub purge: fn(ClusterId) -> Result<(), Error>,
}

impl fmt::Debug for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no proxy mode {name:?}; there is: {}", names())]
pub struct UnknownMode {
    name: String,
}

fn names() -> String {
    ALL.iter().map(|it| it.name).collect::<Vec<_>>().join(", ")
}

pub fn mode(name: &str) -> Result<&'static Mode, UnknownMode> {
    let found = ALL.iter().find(|it| it.name == name).copied();
    found.ok_or_else(|| UnknownMode { name: name.to_owned() })
}

/// What rules depend on beside Services, the first family first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Networks {
    /// All pods. Others that use a ClusterIP are masqueraded, so that the answer comes back through
    /// this node.
    pub cluster: Vec<Cidr>,
    /// All ClusterIPs. These families are served.
    pub services: Vec<Cidr>,
    /// Addresses of the node on which node ports are served; `None`: all.
    pub node_ports: Option<Vec<Cidr>>,
    /// Where the process is that carries connections; the mode userspace alone needs it.
    pub worker: Option<packets::Place>,
}

impl Networks {
    pub fn serves(&self, family: Family) -> bool {
        self.services.iter().any(|it| it.family() == family)
    }
}

/// What the kernel holds for Services, and what it should hold.
///
/// Promises: connections go on whatever changes; dropping a back end leaves everything in place. In
/// mode nftables what is right in the kernel is not touched, and a change of one Service costs the
/// same for any number of others.
/// Does not promise that an error leaves all families as they were: [`Backend::resync`] puts that
/// right.
pub trait Backend: fmt::Debug + Send {
    /// Below which the pods of this node are, where a mode wants to know: before anything else.
    fn set_pods_cgroup(&mut self, _name: &str) {}

    /// Lets Services that come start from what the kernel holds. For the start, before any `set`.
    fn adopt(&mut self) -> Result<(), Error>;

    /// From now on the Service has these ports; none if it is gone. The kernel hears of it with the
    /// next `apply` or `resync`.
    fn set(&mut self, service: &ObjectKey, ports: Vec<ServicePort>);

    /// Tells the kernel what changed since it was last told. On an error only `resync` helps.
    fn apply(&mut self) -> Result<(), Error>;

    /// Compares everything with what the kernel holds, and changes what differs.
    fn resync(&mut self) -> Result<(), Error>;

    /// Returns when somebody else has changed what is ours in the kernel since the back end was
    /// opened. May be dropped and called again at any time.
    fn disturbed(&mut self) -> BoxFuture<'_, Result<(), Error>>;
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("open the kernel's rules for Services")]
    Open { source: linux::netlink::Error },
    #[error("take over the kernel's rules for Services")]
    Adopt { source: linux::netlink::Error },
    #[error("change the kernel's rules for Services")]
    Apply { source: linux::netlink::Error },
    #[error("compare the kernel's rules for Services")]
    Resync { source: linux::netlink::Error },
    #[error("end flows to endpoints that are gone")]
    EndFlows { source: linux::netlink::Error },
    #[error("hear of changes to the kernel's rules for Services")]
    Listen { source: linux::netlink::Error },
    #[error("remove the kernel's rules for Services")]
    Purge { source: linux::netlink::Error },
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Carry(#[from] userspace::CarryError),
    #[error(transparent)]
    Sockets(#[from] ebpf::SocketError),
}

/// Of a mode whose rules are written by programs.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    #[error(
        "the program {program} is not there: install the package iptables, or choose the mode nftables"
    )]
    Missing { program: String },
    #[error("run {program}")]
    Run { program: String, source: std::io::Error },
    #[error("{program} failed ({status}): {complaint}")]
    Refused { program: String, status: String, complaint: String },
    #[error(
        "the chains of iptables mode belong to another cluster on this host ({owner}): choose the mode \
         nftables, or purge that cluster"
    )]
    OtherCluster { owner: String },
}
