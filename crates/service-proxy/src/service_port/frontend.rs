//! Where packets of a Service's port are sent to. Pure.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stdx::Family;

use super::{Protocol, ServicePort};

/// An address and port, or a node port with address 0.0.0.0 or ::.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Frontend {
    pub(crate) protocol: Protocol,
    pub(crate) address: IpAddr,
    pub(crate) port: u16,
}

/// Names the port, too.
pub(crate) fn cluster_frontend(port: &ServicePort) -> Frontend {
    Frontend { protocol: port.protocol, address: port.cluster_ip, port: port.port }
}

/// The address of node ports.
pub(crate) fn unspecified(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
        Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// External frontends of a port: where packets are sent to.
pub(crate) fn external_frontends(port: &ServicePort) -> impl Iterator<Item = Frontend> {
    let at = cluster_frontend(port);
    let addresses = port.external_addresses().map(move |address| Frontend { address, ..at });
    let node_port = port.node_port.map(|port| {
        let address = unspecified(Family::of(at.address));
        Frontend { address, port, ..at }
    });
    addresses.chain(node_port)
}

/// Where packets to the port are sent to.
pub(crate) fn frontends(ports: &[ServicePort]) -> BTreeSet<Frontend> {
    ports.iter().flat_map(|it| external_frontends(it).chain([cluster_frontend(it)])).collect()
}
