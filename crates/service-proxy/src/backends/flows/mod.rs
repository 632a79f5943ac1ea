//! UDP flows that connection tracking would keep sending to an endpoint that is gone, or nowhere.
//!
//! A UDP flow has no end, so as long as the client goes on, its entry lives. An entry is stale if
//! it was sent to a frontend and its packets go to none of the endpoints that the frontend has now.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use linux::netlink;
use linux::netlink::conntrack::{Conntrack, Entry};
use stdx::Family;

use super::Error;
use crate::service_port::frontend::{Frontend, cluster_frontend, external_frontends, unspecified};
use crate::service_port::{Endpoint, Endpoints, Protocol, ServicePort};

/// Frontends and where flows to them may go.
pub(super) type Flows = BTreeMap<Frontend, BTreeSet<Endpoint>>;

/// Frontends whose flows may go to endpoints that are gone, until those flows are deleted.
#[derive(Debug)]
pub(super) struct StaleFlows {
    conntrack: Conntrack,
    suspects: Flows,
}

impl StaleFlows {
    /// In the network namespace of the calling thread.
    pub(super) fn open() -> Result<Self, netlink::Error> {
        Ok(Self { conntrack: Conntrack::open()?, suspects: Flows::new() })
    }

    /// A Service's ports change.
    pub(super) fn suspect(&mut self, before: &[ServicePort], after: &[ServicePort]) {
        self.suspects.extend(suspects(&of(before), &of(after)));
    }

    /// Whatever was there before, these are the ports.
    pub(super) fn suspect_all<'a>(&mut self, ports: impl Iterator<Item = &'a [ServicePort]>) {
        self.suspects.extend(ports.flat_map(of));
    }

    /// After the rules changed, so that what begins anew begins right.
    pub(super) fn delete(&mut self) -> Result<(), Error> {
        let udp = Protocol::Udp.number();
        for family in [Family::V4, Family::V6] {
            let is_of = |it: &Frontend| Family::of(it.address) == family;
            if !self.suspects.keys().any(is_of) {
                continue;
            }
            let suspects = &self.suspects;
            let deleted = self.conntrack.delete_where(family, udp, |it| is_stale(it, suspects));
            let n_deleted = deleted.map_err(|source| Error::EndFlows { source })?;
            tracing::debug!(%family, n_deleted, "deleted stale UDP flows");
        }
        self.suspects.clear();
        Ok(())
    }
}

/// All that serve count, whatever the policy: it is decided when a flow begins.
pub(super) fn of(ports: &[ServicePort]) -> Flows {
    let mut flows = Flows::new();
    for port in ports.iter().filter(|it| it.protocol == Protocol::Udp) {
        let Endpoints { cluster, local, serving } = &port.endpoints;
        let endpoints: BTreeSet<_> = cluster.iter().chain(local).chain(serving).copied().collect();
        for frontend in external_frontends(port).chain([cluster_frontend(port)]) {
            flows.entry(frontend).or_default().extend(endpoints.iter().copied());
        }
    }
    flows
}

/// What may have become stale: frontends that lost an endpoint, and such that had none. The
/// endpoints are those of now.
pub(super) fn suspects(before: &Flows, after: &Flows) -> Flows {
    let nothing = BTreeSet::new();
    let frontends: BTreeSet<_> = before.keys().chain(after.keys()).copied().collect();
    let ends = frontends.into_iter().map(|frontend| {
        let of = |flows: &Flows| flows.get(&frontend).unwrap_or(&nothing).clone();
        (frontend, of(before), of(after))
    });
    ends.filter(|(_, before, after)| {
        (before.is_empty() && !after.is_empty()) || !before.is_subset(after)
    })
    .map(|(frontend, _, after)| (frontend, after))
    .collect()
}

fn is_stale(entry: &Entry, suspects: &Flows) -> bool {
    let sent_to = |address| Frontend {
        protocol: Protocol::Udp,
        address,
        port: entry.original.destination_port,
    };
    let goes_to = Endpoint { address: entry.reply.source, port: entry.reply.source_port };
    let endpoints = suspects.get(&sent_to(entry.original.destination)).or_else(|| {
        // A node port is one on the node's own addresses only, which are not known here: what was
        // not translated may be other traffic.
        let is_translated = goes_to.address != entry.original.destination
            || goes_to.port != entry.original.destination_port;
        suspects.get(&sent_to(unspecified(Family::of(goes_to.address)))).filter(|_| is_translated)
    });
    endpoints.is_some_and(|it| !it.contains(&goes_to))
}
