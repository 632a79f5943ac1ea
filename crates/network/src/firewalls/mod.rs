//! Firewalls of others (Docker's, ufw's, firewalld's): where one refuses packets that are forwarded,
//! those of pods pass by a rule of ours. An accepting rule in a table of ours could not undo the
//! refusal in theirs.
//!
//! Which rule has to be where is decided purely (`plan`, `rules`). A rule names the cluster, is put
//! back as soon as the kernel tells that somebody removed it, goes when nobody refuses any more, and
//! at the latest with the cluster. Where a table is its owner's alone, its owner is asked.

mod firewalld;
mod follow;
mod legacy;
mod nf_tables;
mod plan;
mod programs;
mod rules;

use std::path::Path;

use linux::netlink;
use linux::netlink::nftables::Nftables;
use linux::network_namespace::NetworkNamespace;
use node_api::ClusterId;
use stdx::{Cidr, Family, error_chain};

use self::firewalld::{Zone, ZoneError};
use self::nf_tables::{Owned, Tables};
use crate::table;

pub(crate) use follow::follow;
pub(crate) use legacy::program as legacy_program;
pub(crate) use programs::Error as ProgramError;
pub(crate) use programs::run as run_program;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("look at the rules of others")]
    Look(#[source] netlink::Error),
    #[error("let packets of pods pass")]
    Change(#[source] netlink::Error),
    #[error("let packets of pods pass where iptables-legacy is used")]
    Legacy(#[source] programs::Error),
    #[error("have firewalld trust pods' addresses: until then try `{advice}`")]
    Firewalld {
        advice: String,
        #[source]
        source: ZoneError,
    },
    #[error(
        "table {table} lets pass no packets of pods, and nobody but the program that made it can change that: accept \
         there what comes from and goes to {pods}"
    )]
    Owned { table: String, pods: String },
}

pub(crate) struct Firewalls {
    namespace: NetworkNamespace,
    cluster: ClusterId,
    pods: Vec<Cidr>,
    tables: Tables,
    zone: Zone,
    /// What of it cannot be done, as it was told.
    told: Vec<String>,
}

impl Firewalls {
    /// In the network namespace of the calling thread. `directory`: of the network.
    pub(crate) fn open(
        cluster: ClusterId,
        pods: Vec<Cidr>,
        directory: &Path,
    ) -> Result<Self, node_api::Error> {
        let opening = |err: netlink::Error| node_api::Error::node("look for firewalls", err);
        let namespace = NetworkNamespace::current()
            .map_err(|err| node_api::Error::node("look for firewalls", err))?;
        let socket = Nftables::open(table::id(cluster, Family::V4)).map_err(opening)?;
        let tables = Tables::new(socket, cluster, pods.clone());
        let zone = Zone::new(Path::new(firewalld::PROGRAM), directory);
        Ok(Self { namespace, cluster, pods, tables, zone, told: Vec::new() })
    }

    /// Lets packets of pods pass; what cannot be done is logged, once.
    pub(crate) fn converge(&mut self) {
        let problems = self.try_to_converge();
        let problems: Vec<_> = problems.iter().map(|it| error_chain(it).to_string()).collect();
        for problem in problems.iter().filter(|it| !self.told.contains(it)) {
            tracing::warn!(problem, "a firewall drops packets of pods");
        }
        self.told = problems;
    }

    fn try_to_converge(&mut self) -> Vec<Error> {
        let mut problems = Vec::new();
        match self.tables.open() {
            Ok((owned, errors)) => {
                problems.extend(errors.into_iter().map(Error::Change));
                problems.extend(owned.iter().filter_map(|it| self.ask_owner(it).err()));
            }
            Err(err) => problems.push(Error::Look(err)),
        }
        let legacy = legacy::open(&self.namespace, self.cluster, &self.pods);
        problems.extend(legacy.err().map(Error::Legacy));
        problems
    }

    fn ask_owner(&self, Owned(id): &Owned) -> Result<(), Error> {
        if id.name != firewalld::TABLE {
            let pods: Vec<_> = self.pods.iter().map(ToString::to_string).collect();
            return Err(Error::Owned { table: id.to_string(), pods: pods.join(" and ") });
        }
        let failed = |source| Error::Firewalld { advice: Zone::advice(&self.pods), source };
        self.zone.trust(&self.namespace, &self.pods).map_err(failed)
    }

    /// Where packets from pods to this machine itself are refused, which its DNS and API server are
    /// behind; nothing is done about it.
    pub(crate) fn warn_of_closed_inputs(&mut self, gateways: &[std::net::IpAddr]) {
        match self.tables.closed_to_the_machine() {
            Ok(chains) if chains.is_empty() => {}
            Ok(chains) => tracing::warn!(
                ?chains,
                ?gateways,
                "these chains of other programs drop what is for this machine: unless a rule there accepts it, pods \
                 do not reach cluster DNS and the API server, and other nodes do not reach this one"
            ),
            Err(err) => {
                let error = error_chain(&err);
                tracing::warn!(
                    error,
                    "could not look for rules that drop what is for this machine"
                );
            }
        }
    }

    /// Goes on after an error, and returns all of them.
    pub(crate) fn purge(&mut self) -> Vec<node_api::Error> {
        let doing = "remove the rules by which packets of pods pass";
        let mut errors = Vec::new();
        errors.extend(self.tables.purge().err().map(|err| node_api::Error::node(doing, err)));
        let legacy = legacy::purge(&self.namespace, self.cluster);
        errors.extend(legacy.err().map(|err| node_api::Error::node(doing, err)));
        let zone = self.zone.purge(&self.namespace);
        errors.extend(zone.err().map(|err| node_api::Error::node(doing, err)));
        errors
    }
}
