//! Makes the kernel hold what the rulesets say, one transaction per family and change, and lets
//! stale UDP flows begin anew.

use apimachinery::ObjectKey;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use linux::netlink;
use linux::netlink::nftables::draft::table_family;
use linux::netlink::nftables::{Nftables, Observed, TableId, changes};
use node_api::ClusterId;
use stdx::Family;

use super::chains::FamilyNetworks;
use super::ruleset::Ruleset;
use crate::backends::flows::StaleFlows;
use crate::backends::strangers::Strangers;
use crate::backends::{Backend, Error, Networks};
use crate::service_port::ServicePort;

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

const TABLE: &str = "services";

fn table(cluster: ClusterId, family: Family, table: &str) -> TableId {
    TableId::new(table_family(family), cluster.table(table))
}

pub(super) fn open(cluster: ClusterId, networks: &Networks) -> Result<Box<dyn Backend>, Error> {
    open_table(cluster, networks, TABLE)
}

/// For another mode, whose packets are sent on in the same way.
pub(in crate::backends) fn open_table(
    cluster: ClusterId,
    networks: &Networks,
    of: &str,
) -> Result<Box<dyn Backend>, Error> {
    let open = || {
        let id = |family| table(cluster, family, of);
        let sides = FAMILIES.map(|family| Side::open(id(family), family, networks));
        let sides = sides.into_iter().collect::<Result<Vec<_>, _>>()?;
        let own_ports = sides.iter().map(|it| it.nftables.port()).collect();
        let name = id(Family::V4).name.into_owned();
        let strangers = Strangers::listen(vec![name], own_ports)?;
        Ok(Tables { sides, flows: StaleFlows::open()?, strangers })
    };
    let tables = open().map_err(|source| Error::Open { source })?;
    Ok(Box::new(tables))
}

/// Removes the cluster's tables, if they are there.
pub(super) fn purge(cluster: ClusterId) -> Result<(), Error> {
    purge_table(cluster, TABLE)
}

pub(in crate::backends) fn purge_table(cluster: ClusterId, of: &str) -> Result<(), Error> {
    let purge = |family| Nftables::open(table(cluster, family, of))?.purge();
    let purged = FAMILIES.map(purge).into_iter().collect::<Result<(), _>>();
    purged.map_err(|source| Error::Purge { source })
}

/// The tables in the kernel and what they should be.
#[derive(Debug)]
struct Tables {
    sides: Vec<Side>,
    flows: StaleFlows,
    strangers: Strangers,
}

/// What there is of one family.
#[derive(Debug)]
struct Side {
    family: Family,
    nftables: Nftables,
    /// `None` if the family is not served: then there is no table.
    ruleset: Option<Ruleset>,
    /// What `adopt` read, for the first `resync`, so that a start reads the table once.
    adopted: Option<Observed>,
}

impl Side {
    fn open(id: TableId, family: Family, networks: &Networks) -> Result<Self, netlink::Error> {
        let nftables = Nftables::open(id)?;
        let is_served = networks.serves(family);
        let ruleset = is_served.then(|| Ruleset::new(FamilyNetworks::of(family, networks)));
        Ok(Self { family, nftables, ruleset, adopted: None })
    }

    fn adopt(&mut self) -> Result<(), netlink::Error> {
        let Some(ruleset) = &mut self.ruleset else { return Ok(()) };
        self.adopted = self.nftables.observe()?;
        if let Some(observed) = &self.adopted {
            ruleset.adopt(observed);
        }
        Ok(())
    }

    fn set(&mut self, service: &ObjectKey, ports: Vec<ServicePort>, flows: &mut StaleFlows) {
        let Some(ruleset) = &mut self.ruleset else { return };
        flows.suspect(ruleset.ports(service), &ports);
        ruleset.set(service, ports);
    }

    fn apply(&mut self) -> Result<(), netlink::Error> {
        let changes = self.ruleset.as_mut().map(Ruleset::take_changes).unwrap_or_default();
        if changes.is_empty() { Ok(()) } else { self.nftables.apply(&changes) }
    }

    fn resync(&mut self, flows: &mut StaleFlows) -> Result<(), netlink::Error> {
        // The family may have been served before.
        let Some(ruleset) = &mut self.ruleset else { return self.nftables.purge() };
        let observed = match self.adopted.take() {
            None => self.nftables.observe()?,
            adopted => adopted,
        };
        let desired = ruleset.table();
        self.nftables.apply(&changes(observed.as_ref(), &desired))?;
        ruleset.take_changes();
        flows.suspect_all(ruleset.all_ports());
        Ok(())
    }
}

impl Backend for Tables {
    fn adopt(&mut self) -> Result<(), Error> {
        let adopted = self.sides.iter_mut().try_for_each(Side::adopt);
        adopted.map_err(|source| Error::Adopt { source })
    }

    fn set(&mut self, service: &ObjectKey, mut ports: Vec<ServicePort>) {
        for side in &mut self.sides {
            let (of_side, rest) = ports.into_iter().partition(|it| it.family() == side.family);
            side.set(service, of_side, &mut self.flows);
            ports = rest;
        }
    }

    fn apply(&mut self) -> Result<(), Error> {
        let applied = self.sides.iter_mut().try_for_each(Side::apply);
        applied.map_err(|source| Error::Apply { source })?;
        self.flows.delete()
    }

    fn resync(&mut self) -> Result<(), Error> {
        let synced = self.sides.iter_mut().try_for_each(|it| it.resync(&mut self.flows));
        synced.map_err(|source| Error::Resync { source })?;
        self.flows.delete()
    }

    fn disturbed(&mut self) -> BoxFuture<'_, Result<(), Error>> {
        let changed = self.strangers.changed();
        async { changed.await.map_err(|source| Error::Listen { source }) }.boxed()
    }
}
