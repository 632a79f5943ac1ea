//! Makes the kernel hold what the ruleset says, one transaction per change, and lets stale UDP
//! flows begin anew.

use std::collections::BTreeMap;

use apimachinery::ObjectKey;
use linux::netlink::Error;
use linux::netlink::conntrack::Conntrack;
use linux::netlink::nftables::{Nftables, Observed, TableFamily, TableId, changes};
use node_api::ClusterId;

use super::chains::Networks;
use super::flows::{Flows, is_stale, suspects};
use super::ruleset::Ruleset;
use super::sets::Frontend;
use crate::service_port::{Protocol, ServicePort};

fn table(cluster: ClusterId) -> TableId {
    TableId::new(TableFamily::Ip, cluster.table("services"))
}

/// The table in the kernel and what it should be. Whatever fails, [`Backend::resync`] puts right.
#[derive(Debug)]
pub struct Backend {
    cluster: ClusterId,
    nftables: Nftables,
    conntrack: Conntrack,
    ruleset: Ruleset,
    /// Frontends whose flows may go to endpoints that are gone, until those flows are deleted.
    suspects: Flows,
    /// What `adopt` read, for the first `resync`, so that a start reads the table once.
    adopted: Option<Observed>,
}

impl Backend {
    /// In the network namespace of the calling thread. Changes nothing yet.
    pub fn open(cluster: ClusterId, networks: Networks) -> Result<Self, Error> {
        let nftables = Nftables::open(table(cluster))?;
        let ruleset = Ruleset::new(networks);
        let conntrack = Conntrack::open()?;
        let suspects = Flows::new();
        Ok(Self { cluster, nftables, conntrack, ruleset, suspects, adopted: None })
    }

    /// The name of the table, and what notices of our own changes carry.
    pub(crate) fn identity(&self) -> (String, u32) {
        (table(self.cluster).name.into_owned(), self.nftables.port())
    }

    /// From now on the Service has these ports; none if it is gone. The kernel hears of it with the
    /// next `apply` or `resync`.
    pub fn set(&mut self, service: &ObjectKey, ports: Vec<ServicePort>) {
        let before = self.ruleset.udp_flows(service);
        self.ruleset.set(service, ports);
        let after = self.ruleset.udp_flows(service);
        self.suspects.extend(suspects(&before, &after));
    }

    /// Tells the kernel what changed since it was last told. On an error it holds what it held
    /// before, and only `resync` helps.
    pub fn apply(&mut self) -> Result<(), Error> {
        let changes = self.ruleset.take_changes();
        self.nftables.apply(&changes)?;
        self.delete_stale_flows()
    }

    /// Lets Services that come start from what the kernel holds. For the start, before any `set`.
    pub fn adopt(&mut self) -> Result<(), Error> {
        self.adopted = self.nftables.observe()?;
        if let Some(observed) = &self.adopted {
            self.ruleset.adopt(observed);
        }
        Ok(())
    }

    /// Compares everything with what the kernel holds, and changes what differs.
    pub fn resync(&mut self) -> Result<(), Error> {
        let observed = match self.adopted.take() {
            None => self.nftables.observe()?,
            adopted => adopted,
        };
        let desired = self.ruleset.table();
        self.nftables.apply(&changes(observed.as_ref(), &desired))?;
        self.ruleset.take_changes();
        let services: Vec<_> = self.ruleset.services().cloned().collect();
        let flows: BTreeMap<Frontend, _> =
            services.iter().flat_map(|it| self.ruleset.udp_flows(it)).collect();
        self.suspects.extend(flows);
        self.delete_stale_flows()
    }

    /// After the rules changed, so that what begins anew begins right.
    fn delete_stale_flows(&mut self) -> Result<(), Error> {
        if !self.suspects.is_empty() {
            let suspects = &self.suspects;
            let udp = Protocol::Udp.number();
            let n_deleted = self.conntrack.delete_where(udp, |it| is_stale(it, suspects))?;
            tracing::debug!(n_deleted, "deleted stale UDP flows");
            self.suspects.clear();
        }
        Ok(())
    }

    /// Removes the cluster's table, if it is there.
    pub fn purge(cluster: ClusterId) -> Result<(), Error> {
        Nftables::open(table(cluster))?.purge()
    }
}
