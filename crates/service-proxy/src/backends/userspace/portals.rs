//! The portals that a Service's ports need, and the same ports with the portals in place of their
//! endpoints: that is what the rules send packets to. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use apimachinery::ObjectKey;
use packets::{ENDPOINTS_MAX, Portal};

use crate::service_port::{Endpoint, Endpoints, Protocol, ServicePort, TrafficPolicy};

/// Among which endpoints a portal chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Cluster,
    Local,
}

impl Scope {
    pub(super) const BOTH: [Self; 2] = [Self::Cluster, Self::Local];

    fn endpoints(self, port: &ServicePort) -> &BTreeSet<Endpoint> {
        match self {
            Self::Cluster => &port.endpoints.cluster,
            Self::Local => &port.endpoints.local,
        }
    }

    /// Whether any traffic of the port is for these alone.
    fn is_needed(self, port: &ServicePort) -> bool {
        let is_local = [port.internal_policy, port.external_policy].contains(&TrafficPolicy::Local);
        match self {
            Self::Cluster => true,
            Self::Local => is_local,
        }
    }
}

/// Where a portal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Door {
    pub(super) protocol: Protocol,
    pub(super) address: IpAddr,
    pub(super) port: u16,
}

/// The name of a portal: none of another Service, port, family or scope is the same.
pub(super) fn id(service: &ObjectKey, port: &ServicePort, scope: Scope) -> String {
    let ServicePort { name, protocol, port: number, .. } = port;
    format!("{service}:{name}/{number}/{protocol:?}/{}/{scope:?}", port.family())
}

/// `None`: it has no endpoints, or nobody carries its protocol.
pub(super) fn portal(
    service: &ObjectKey,
    port: &ServicePort,
    scope: Scope,
    address: IpAddr,
) -> Option<Portal> {
    let protocol = match port.protocol {
        Protocol::Tcp => packets::Protocol::Tcp,
        Protocol::Udp => packets::Protocol::Udp,
        Protocol::Sctp => return None,
    };
    let sockets = |it: &BTreeSet<Endpoint>| -> Vec<SocketAddr> {
        let sockets = it.iter().map(|it| SocketAddr::new(it.address, it.port));
        sockets.take(ENDPOINTS_MAX).collect()
    };
    let endpoints = sockets(scope.endpoints(port));
    let is_some = scope.is_needed(port) && !endpoints.is_empty();
    is_some.then(|| Portal {
        id: id(service, port, scope),
        address,
        protocol,
        endpoints,
        serving: sockets(&port.endpoints.serving),
        affinity: port.affinity,
    })
}

/// Affinity is the worker's business. Without a portal there are no endpoints.
pub(super) fn behind_portals(
    service: &ObjectKey,
    port: ServicePort,
    doors: &BTreeMap<String, Door>,
) -> ServicePort {
    let door = |scope| -> BTreeSet<Endpoint> {
        let door = doors.get(&id(service, &port, scope));
        door.map(|it| Endpoint { address: it.address, port: it.port }).into_iter().collect()
    };
    let [cluster, local] = Scope::BOTH.map(door);
    let serving = cluster.union(&local).copied().collect();
    ServicePort { affinity: None, endpoints: Endpoints { cluster, local, serving }, ..port }
}
