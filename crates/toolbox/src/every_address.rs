//! Where a server of the toolbox listens.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// To be tried in turn: `::` is every address of both families; where there is no IPv6, those of
/// IPv4.
pub(crate) fn every_address(port: u16) -> [SocketAddr; 2] {
    [(Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into()]
}
