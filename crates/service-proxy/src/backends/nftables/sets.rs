//! The sets and maps of our table: what they are for and how their keys and data are made. Pure.

use std::net::Ipv4Addr;
use std::time::Duration;

use linux::netlink::nftables::{Data, Element, Key, Set, Type, Value, Verdict};

use crate::service_port::{Endpoint, Network, Protocol};

const FRONTEND: &[Type] = &[Type::Protocol, Type::Ipv4Address, Type::Port];
const ENDPOINT: &[Type] = &[Type::Ipv4Address, Type::Port];
const MEMBER: &[Type] =
    &[Type::Protocol, Type::Ipv4Address, Type::Port, Type::Ipv4Address, Type::Port];

/// Clients of Services with affinity that are remembered at once; one more is served without being
/// remembered.
const AFFINITY_MAX: u32 = 262_144;

/// Every ClusterIP.
pub(super) const CLUSTER_IPS: &str = "cluster-ips";
/// ClusterIP and port -> the chain that chooses an endpoint.
pub(super) const INTERNAL: &str = "internal";
/// External addresses, and node ports with address 0.0.0.0.
pub(super) const EXTERNAL: &str = "external";
/// The same for such whose traffic stays on this node.
pub(super) const EXTERNAL_LOCAL: &str = "external-local";
/// External frontend -> the chain that chooses among all endpoints.
pub(super) const CLUSTER: &str = "cluster";
/// External frontend -> the chain that chooses among this node's endpoints.
pub(super) const LOCAL: &str = "local";
/// Frontend and slot -> endpoint.
pub(super) const ENDPOINTS: &str = "endpoints";
/// Client and frontend -> endpoint.
pub(super) const AFFINITY: &str = "affinity";
/// Frontends with affinity and their endpoints, to tell a remembered endpoint that is gone.
const CLUSTER_MEMBERS: &str = "cluster-members";
const LOCAL_MEMBERS: &str = "local-members";
/// Each endpoint of this node twice: who talks to itself.
pub(super) const HAIRPIN: &str = "hairpin";
/// Frontends that refuse.
pub(super) const NO_ENDPOINTS: &str = "no-endpoints";
/// Frontends that drop: others have endpoints, this node has none.
pub(super) const NO_LOCAL_ENDPOINTS: &str = "no-local-endpoints";
/// Load balancer addresses that not everybody may use, and who may.
pub(super) const GUARDED: &str = "guarded";
pub(super) const SOURCES: &str = "sources";

pub(super) fn all() -> [(&'static str, Set); 15] {
    let slot = &[Type::Protocol, Type::Ipv4Address, Type::Port, Type::Mark];
    let source = &[Type::Protocol, Type::Ipv4Address, Type::Port, Type::Ipv4Address];
    let client = &[Type::Ipv4Address, Type::Protocol, Type::Ipv4Address, Type::Port];
    [
        (CLUSTER_IPS, Set::of(&[Type::Ipv4Address])),
        (INTERNAL, Set::verdict_map(FRONTEND)),
        (EXTERNAL, Set::of(FRONTEND)),
        (EXTERNAL_LOCAL, Set::of(FRONTEND)),
        (CLUSTER, Set::verdict_map(FRONTEND)),
        (LOCAL, Set::verdict_map(FRONTEND)),
        (ENDPOINTS, Set::map(slot, ENDPOINT)),
        (AFFINITY, Set::map(client, ENDPOINT).dynamic(AFFINITY_MAX)),
        (CLUSTER_MEMBERS, Set::of(MEMBER)),
        (LOCAL_MEMBERS, Set::of(MEMBER)),
        (HAIRPIN, Set::of(&[Type::Ipv4Address, Type::Ipv4Address])),
        (NO_ENDPOINTS, Set::of(FRONTEND)),
        (NO_LOCAL_ENDPOINTS, Set::of(FRONTEND)),
        (GUARDED, Set::of(FRONTEND)),
        (SOURCES, Set::of(source).interval()),
    ]
}

/// Where packets are sent to: an address and port, or a node port with address 0.0.0.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Frontend {
    pub protocol: Protocol,
    pub address: Ipv4Addr,
    pub port: u16,
}

impl Frontend {
    pub(super) fn key(self) -> Value {
        Value::new().protocol(self.protocol.number()).address(self.address).port(self.port)
    }
}

/// Among which endpoints of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    Cluster,
    Local,
}

impl Scope {
    /// Added to the slots, so that both scopes share a map.
    pub(super) const fn offset(self) -> u32 {
        match self {
            Self::Cluster => 0,
            Self::Local => 0x1_0000,
        }
    }

    /// As it appears in the names of chains.
    pub(super) const fn infix(self) -> &'static str {
        match self {
            Self::Cluster => "",
            Self::Local => "local-",
        }
    }

    pub(super) const fn members(self) -> &'static str {
        match self {
            Self::Cluster => CLUSTER_MEMBERS,
            Self::Local => LOCAL_MEMBERS,
        }
    }
}

/// More than any Service has; slots of one scope must not reach into the other's.
pub(super) const ENDPOINTS_MAX: usize = 0xffff;

/// How to choose an endpoint. Services that choose alike share one chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Choice {
    pub(super) affinity: Option<Duration>,
    pub(super) scope: Scope,
    pub(super) n_endpoints: u32,
}

impl Choice {
    fn seconds(self) -> u32 {
        self.affinity.map_or(0, |it| u32::try_from(it.as_secs()).unwrap_or(u32::MAX))
    }

    pub(super) fn verdict(self) -> Data {
        Data::Verdict(Verdict::Goto(self.chain()))
    }

    /// `pick-3`, `pick-local-3`, `stick-10800-3`, `stick-local-10800-3`.
    pub(super) fn chain(self) -> String {
        let (infix, n_endpoints) = (self.scope.infix(), self.n_endpoints);
        match self.affinity {
            None => format!("pick-{infix}{n_endpoints}"),
            Some(_) => format!("stick-{infix}{}-{n_endpoints}", self.seconds()),
        }
    }

    /// Of the chain that serves remembered clients, whatever the number of endpoints.
    pub(super) fn known_chain(self) -> String {
        format!("known-{}{}", self.scope.infix(), self.seconds())
    }

    pub(super) fn without_affinity(self) -> Self {
        Self { affinity: None, ..self }
    }
}

pub(super) fn endpoint(endpoint: Endpoint) -> Data {
    Data::Value(Value::new().address(endpoint.address).port(endpoint.port))
}

pub(super) fn slot(frontend: Frontend, scope: Scope, slot: usize) -> Key {
    let slot = u32::try_from(slot).unwrap_or(u32::MAX);
    frontend.key().mark(scope.offset().saturating_add(slot)).into()
}

/// The frontend, scope, slot and endpoint of an element of [`ENDPOINTS`]; `None` if it is not of
/// our making.
pub(super) fn read_slot(key: &Key, data: &Data) -> Option<(Frontend, Scope, usize, Endpoint)> {
    let [protocol, address, port, slot] = fields(&key.start)[..] else { return None };
    let slot = u32::from_ne_bytes(slot);
    let scope = if slot < Scope::Local.offset() { Scope::Cluster } else { Scope::Local };
    let slot = usize::try_from(slot - scope.offset()).ok()?;
    Some((read_frontend(protocol, address, port)?, scope, slot, read_endpoint(data)?))
}

fn fields(value: &Value) -> Vec<[u8; 4]> {
    value.as_bytes().as_chunks().0.to_vec()
}

fn read_port(field: [u8; 4]) -> u16 {
    u16::from_be_bytes([field[0], field[1]])
}

fn read_frontend(protocol: [u8; 4], address: [u8; 4], port: [u8; 4]) -> Option<Frontend> {
    let protocol = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp]
        .into_iter()
        .find(|it| it.number() == protocol[0])?;
    Some(Frontend { protocol, address: address.into(), port: read_port(port) })
}

fn read_endpoint(data: &Data) -> Option<Endpoint> {
    let Data::Value(value) = data else { return None };
    let [address, port] = fields(value)[..] else { return None };
    Some(Endpoint { address: address.into(), port: read_port(port) })
}

pub(super) fn member(frontend: Frontend, endpoint: Endpoint) -> Key {
    frontend.key().address(endpoint.address).port(endpoint.port).into()
}

pub(super) fn hairpin(address: Ipv4Addr) -> Key {
    Value::new().address(address).address(address).into()
}

/// The clients of a network at a frontend.
pub(super) fn source_range(frontend: Frontend, network: Network) -> Key {
    let mask = linux::netlink::nftables::expression::network_mask(network.prefix_length);
    let first = network.address & mask;
    let key = |address| frontend.key().address(address);
    Element::range(key(first), key(first | !mask)).key
}
