//! UDP flows that connection tracking would keep sending to an endpoint that is gone, or nowhere.
//! Pure.
//!
//! A UDP flow has no end, so as long as the client goes on, its entry lives. An entry is stale if
//! it was sent to a frontend and its packets go to none of the endpoints that the frontend has now.

use std::collections::{BTreeMap, BTreeSet};

use linux::netlink::conntrack::Entry;
use stdx::Family;

use super::ruleset::{cluster_frontend, external_frontends, unspecified};
use super::sets::Frontend;
use crate::service_port::{Endpoint, Protocol, ServicePort};

/// Frontends and where flows to them may go.
pub(super) type Flows = BTreeMap<Frontend, BTreeSet<Endpoint>>;

/// Both choices count, whatever the policy: it is decided when a flow begins.
pub(super) fn of(ports: &[ServicePort]) -> Flows {
    let mut flows = Flows::new();
    for port in ports.iter().filter(|it| it.protocol == Protocol::Udp) {
        let endpoints: BTreeSet<_> =
            port.endpoints.cluster.union(&port.endpoints.local).copied().collect();
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

pub(super) fn is_stale(entry: &Entry, suspects: &Flows) -> bool {
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
