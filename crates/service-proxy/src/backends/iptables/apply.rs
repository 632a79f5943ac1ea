//! Runs `iptables-save` and `iptables-restore`, one family after the other, and lets stale UDP
//! flows begin anew.

use std::collections::BTreeMap;

use apimachinery::ObjectKey;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use node_api::ClusterId;
use stdx::Family;

use super::programs::{Programs, Variant};
use super::rules::FamilyNetworks;
use super::ruleset::{Ruleset, is_owner_chain, owner_chain, removal};
use super::saved::Saved;
use crate::backends::flows::StaleFlows;
use crate::backends::strangers::Strangers;
use crate::backends::{Backend, Error, Networks, ProgramError};
use crate::service_port::ServicePort;

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];
/// What others may change of ours.
const TABLES: [&str; 2] = ["filter", "nat"];

pub(super) fn open(cluster: ClusterId, networks: &Networks) -> Result<Box<dyn Backend>, Error> {
    let mut sides = Vec::new();
    for family in FAMILIES.into_iter().filter(|it| networks.serves(*it)) {
        let programs = Programs::find(family)?;
        let (saved, _) = programs.save()?;
        if let Some(owner) = other_owner(cluster, &saved) {
            return Err(ProgramError::OtherCluster { owner }.into());
        }
        let ruleset = Ruleset::new(cluster, FamilyNetworks::of(family, networks));
        sides.push(Side { family, programs, ruleset });
    }
    // A family that is served no more.
    for family in FAMILIES.into_iter().filter(|it| !networks.serves(*it)) {
        purge_family(cluster, family)?;
    }
    let listen = || {
        let strangers = Strangers::listen(TABLES.map(str::to_owned).into(), Vec::new())?;
        Ok((StaleFlows::open()?, strangers))
    };
    let (flows, strangers) = listen().map_err(|source| Error::Open { source })?;
    Ok(Box::new(Chains { sides, flows, strangers }))
}

fn other_owner(cluster: ClusterId, saved: &BTreeMap<String, Saved>) -> Option<String> {
    let mut chains = saved.values().flat_map(|it| &it.chains);
    chains.find(|it| is_owner_chain(it) && **it != owner_chain(cluster)).cloned()
}

/// Removes the cluster's chains from both variants, if there are any.
pub(super) fn purge(cluster: ClusterId) -> Result<(), Error> {
    FAMILIES.into_iter().try_for_each(|family| purge_family(cluster, family))
}

fn purge_family(cluster: ClusterId, family: Family) -> Result<(), Error> {
    for variant in Variant::ALL {
        let programs = Programs::new(variant, family)?;
        if !programs.has_table()? {
            continue;
        }
        let saved = match programs.save() {
            Ok((saved, _)) => saved,
            // Without the programs nobody made any.
            Err(ProgramError::Missing { .. }) => continue,
            Err(err) => return Err(err.into()),
        };
        if let Some(input) = removal(cluster, &saved) {
            programs.restore(&input)?;
        }
    }
    Ok(())
}

/// What there is of one family.
#[derive(Debug)]
struct Side {
    family: Family,
    programs: Programs,
    ruleset: Ruleset,
}

impl Side {
    fn apply(&mut self, strangers: &mut Strangers) -> Result<(), Error> {
        let Some(input) = self.ruleset.take_changes() else { return Ok(()) };
        strangers.add_own(self.programs.restore(&input)?);
        Ok(())
    }

    fn resync(&mut self, strangers: &mut Strangers) -> Result<(), Error> {
        let (saved, _) = self.programs.save()?;
        let input = self.ruleset.whole(&saved);
        strangers.add_own(self.programs.restore(&input)?);
        Ok(())
    }
}

/// The chains in the kernel and what they should be.
#[derive(Debug)]
struct Chains {
    sides: Vec<Side>,
    flows: StaleFlows,
    strangers: Strangers,
}

impl Backend for Chains {
    /// Nothing is taken over: rules are written whole.
    fn adopt(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn set(&mut self, service: &ObjectKey, mut ports: Vec<ServicePort>) {
        for side in &mut self.sides {
            let (of_side, rest): (Vec<_>, _) =
                ports.into_iter().partition(|it| it.family() == side.family);
            self.flows.suspect(side.ruleset.ports(service), &of_side);
            side.ruleset.set(service, of_side);
            ports = rest;
        }
    }

    fn apply(&mut self) -> Result<(), Error> {
        self.sides.iter_mut().try_for_each(|it| it.apply(&mut self.strangers))?;
        self.flows.delete()
    }

    fn resync(&mut self) -> Result<(), Error> {
        self.sides.iter_mut().try_for_each(|it| it.resync(&mut self.strangers))?;
        for side in &self.sides {
            self.flows.suspect_all(side.ruleset.all_ports());
        }
        self.flows.delete()
    }

    /// Of the older variant the kernel tells nothing.
    fn disturbed(&mut self) -> BoxFuture<'_, Result<(), Error>> {
        let changed = self.strangers.changed();
        async { changed.await.map_err(|source| Error::Listen { source }) }.boxed()
    }
}
