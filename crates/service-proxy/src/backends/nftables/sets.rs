//! The sets and maps of our tables: what they are for and how their keys and data are made. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use linux::netlink::nftables::draft::{ENDPOINT, types};
use linux::netlink::nftables::{Data, Element, Field, Key, Set, Value, Verdict};
use stdx::{Cidr, Family};

use super::levels::Level;
use crate::service_port::frontend::Frontend;
use crate::service_port::{Endpoint, Protocol};

/// What names the frontend that a packet is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// Its destination: a ClusterIP or an external address.
    Address,
    /// Only the port of its destination, under address 0.0.0.0 or ::.
    NodePort,
}

impl Way {
    pub(super) const BOTH: [Self; 2] = [Self::Address, Self::NodePort];
}

/// Protocol, address and port that the packet is sent to.
pub(super) const fn frontend(way: Way) -> [Field; 3] {
    let address = match way {
        Way::Address => Field::Destination,
        Way::NodePort => Field::Unspecified,
    };
    [Field::Protocol, address, Field::DestinationPort]
}

pub(super) fn client(way: Way) -> [Field; 4] {
    let [protocol, address, port] = frontend(way);
    [Field::Source, protocol, address, port]
}

/// A frontend with one more field.
pub(super) fn frontend_and(way: Way, field: Field) -> [Field; 4] {
    let [protocol, address, port] = frontend(way);
    [protocol, address, port, field]
}

pub(super) const PAIR: [Field; 2] = [Field::Source, Field::Destination];

/// Clients of Services with affinity that are remembered at once; one more is served without being
/// remembered.
const AFFINITY_MAX: u32 = 262_144;

/// Every ClusterIP.
pub(super) const CLUSTER_IPS: &str = "cluster-ips";
/// ClusterIP and port whose traffic stays on this node.
pub(super) const INTERNAL_LOCAL: &str = "internal-local";
/// External addresses, and node ports with address 0.0.0.0 or ::.
pub(super) const EXTERNAL: &str = "external";
/// The same for such whose traffic stays on this node.
pub(super) const EXTERNAL_LOCAL: &str = "external-local";
/// Frontend with affinity -> the chain that chooses among all endpoints. The others are in the sets
/// of [`Level`]s.
pub(super) const STICKY: &str = "sticky";
/// The same among this node's endpoints.
pub(super) const STICKY_LOCAL: &str = "sticky-local";
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

pub(super) fn all(family: Family) -> BTreeMap<&'static str, Set> {
    let types = |fields: &[Field]| types(family, fields);
    let frontend = || types(&frontend(Way::Address));
    let slot = types(&frontend_and(Way::Address, Field::Random { modulus: 1, offset: 0 }));
    let source = types(&frontend_and(Way::Address, Field::Source));
    let client = types(&client(Way::Address));
    let endpoint = || types(ENDPOINT);
    let member = || [frontend(), endpoint()].concat();
    let of_levels = Scope::BOTH
        .into_iter()
        .flat_map(|scope| Level::all().map(move |level| (level.set(scope), Set::of(frontend()))));
    let others = [
        (CLUSTER_IPS, Set::of(types(&[Field::Destination]))),
        (INTERNAL_LOCAL, Set::of(frontend())),
        (EXTERNAL, Set::of(frontend())),
        (EXTERNAL_LOCAL, Set::of(frontend())),
        (STICKY, Set::verdict_map(frontend())),
        (STICKY_LOCAL, Set::verdict_map(frontend())),
        (ENDPOINTS, Set::map(slot, endpoint())),
        (AFFINITY, Set::map(client, endpoint()).dynamic(AFFINITY_MAX)),
        (CLUSTER_MEMBERS, Set::of(member())),
        (LOCAL_MEMBERS, Set::of(member())),
        (HAIRPIN, Set::of(types(&PAIR))),
        (NO_ENDPOINTS, Set::of(frontend())),
        (NO_LOCAL_ENDPOINTS, Set::of(frontend())),
        (GUARDED, Set::of(frontend())),
        (SOURCES, Set::of(source).interval()),
    ];
    of_levels.chain(others).collect()
}

/// How packets find the frontend.
pub(super) fn way_of(frontend: Frontend) -> Way {
    if frontend.address.is_unspecified() { Way::NodePort } else { Way::Address }
}

pub(super) fn key_of(frontend: Frontend) -> Value {
    let Frontend { protocol, address, port } = frontend;
    Value::new().protocol(protocol.number()).address(address).port(port)
}

/// Among which endpoints of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    Cluster,
    Local,
}

impl Scope {
    pub(super) const BOTH: [Self; 2] = [Self::Cluster, Self::Local];

    /// Added to the slots, so that both scopes share a map.
    pub(super) const fn offset(self) -> u32 {
        match self {
            Self::Cluster => 0,
            Self::Local => 0x1_0000,
        }
    }

    /// The verdict map of its frontends with affinity.
    pub(super) const fn sticky(self) -> &'static str {
        match self {
            Self::Cluster => STICKY,
            Self::Local => STICKY_LOCAL,
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

/// How to choose an endpoint for clients that stay with it. Services that choose alike share one
/// chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Choice {
    pub(super) affinity: Duration,
    pub(super) scope: Scope,
    pub(super) way: Way,
    pub(super) level: Level,
}

impl Choice {
    fn seconds(self) -> u32 {
        u32::try_from(self.affinity.as_secs()).unwrap_or(u32::MAX)
    }

    fn infix(self) -> String {
        infix(self.scope, self.way)
    }

    pub(super) fn verdict(self) -> Data {
        Data::Verdict(Verdict::Goto(self.chain()))
    }

    /// `stick-10800-4`, `stick-local-node-port-10800-4`.
    pub(super) fn chain(self) -> String {
        format!("stick-{}{}-{}", self.infix(), self.seconds(), self.level.n_slots())
    }

    /// Of the chain that serves remembered clients, whatever the number of endpoints.
    pub(super) fn known_chain(self) -> String {
        format!("known-{}{}", self.infix(), self.seconds())
    }
}

/// What the names of chains have after their first word.
fn infix(scope: Scope, way: Way) -> String {
    let scope = match scope {
        Scope::Cluster => "",
        Scope::Local => "local-",
    };
    let way = match way {
        Way::Address => "",
        Way::NodePort => "node-port-",
    };
    format!("{scope}{way}")
}

/// Of the chain that finds out among how many endpoints is chosen: `choose`, `choose-local`,
/// `choose-node-port`, `choose-local-node-port`.
pub(super) fn choose_chain(scope: Scope, way: Way) -> String {
    format!("choose-{}", infix(scope, way)).trim_end_matches('-').to_owned()
}

/// Of the chain that takes one of so many slots: `pick-4`, `pick-local-node-port-4`.
pub(super) fn pick_chain(scope: Scope, way: Way, level: Level) -> String {
    format!("pick-{}{}", infix(scope, way), level.n_slots())
}

pub(super) fn endpoint(endpoint: Endpoint) -> Data {
    Data::Value(Value::new().address(endpoint.address).port(endpoint.port))
}

pub(super) fn slot(frontend: Frontend, scope: Scope, slot: usize) -> Key {
    let slot = u32::try_from(slot).unwrap_or(u32::MAX);
    key_of(frontend).mark(scope.offset().saturating_add(slot)).into()
}

/// The frontend, scope, slot and endpoint of an element of [`ENDPOINTS`]; `None` if it is not of
/// our making.
pub(super) fn read_slot(
    family: Family,
    key: &Key,
    data: &Data,
) -> Option<(Frontend, Scope, usize, Endpoint)> {
    let Data::Value(data) = data else { return None };
    let mut key = Fields(key.start.as_bytes());
    let frontend =
        Frontend { protocol: key.protocol()?, address: key.address(family)?, port: key.port()? };
    let slot = key.mark()?;
    let mut data = Fields(data.as_bytes());
    let endpoint = Endpoint { address: data.address(family)?, port: data.port()? };
    let is_whole = key.0.is_empty() && data.0.is_empty();
    let scope = if slot < Scope::Local.offset() { Scope::Cluster } else { Scope::Local };
    let slot = usize::try_from(slot - scope.offset()).ok().filter(|_| is_whole)?;
    Some((frontend, scope, slot, endpoint))
}

/// The fields of a value that are not read yet.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    fn protocol(&mut self) -> Option<Protocol> {
        let [number, ..] = self.take::<4>()?;
        let known = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
        known.into_iter().find(|it| it.number() == number)
    }

    fn address(&mut self, family: Family) -> Option<IpAddr> {
        match family {
            Family::V4 => self.take::<4>().map(IpAddr::from),
            Family::V6 => self.take::<16>().map(IpAddr::from),
        }
    }

    fn port(&mut self) -> Option<u16> {
        let [high, low, ..] = self.take::<4>()?;
        Some(u16::from_be_bytes([high, low]))
    }

    fn mark(&mut self) -> Option<u32> {
        self.take().map(u32::from_ne_bytes)
    }
}

pub(super) fn member(frontend: Frontend, endpoint: Endpoint) -> Key {
    key_of(frontend).address(endpoint.address).port(endpoint.port).into()
}

pub(super) fn hairpin(address: IpAddr) -> Key {
    Value::new().address(address).address(address).into()
}

/// The clients of a range at a frontend.
pub(super) fn source_range(frontend: Frontend, range: Cidr) -> Key {
    let key = |address| key_of(frontend).address(address);
    Element::range(key(range.network()), key(range.last())).key
}
