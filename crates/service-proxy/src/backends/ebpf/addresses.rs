//! The addresses of this node that node ports are at, and when they change.

use std::io;
use std::net::{IpAddr, Ipv6Addr};

use linux::netlink;
use linux::netlink::notices::{Notice, Notices};
use linux::netlink::route::RouteSocket;
use stdx::{Cidr, Family};
use tokio::io::unix::AsyncFd;

use super::layout::address_bytes;
use super::ruleset::Contents;
use crate::backends::Networks;
use crate::backends::strangers::watched;

#[derive(Debug)]
pub(super) struct NodeAddresses {
    socket: RouteSocket,
    /// Heard by nobody yet.
    opened: Option<Notices>,
    notices: Option<AsyncFd<Notices>>,
    families: Vec<Family>,
    ranges: Option<Vec<Cidr>>,
}

impl NodeAddresses {
    /// In the network namespace of the calling thread. Is told of changes from now on.
    pub(super) fn open(networks: &Networks) -> Result<Self, netlink::Error> {
        let families = [Family::V4, Family::V6].into_iter();
        Ok(Self {
            opened: Some(Notices::of_links()?),
            notices: None,
            socket: RouteSocket::open()?,
            families: families.filter(|it| networks.serves(*it)).collect(),
            ranges: networks.node_ports.clone(),
        })
    }

    pub(super) fn read(&mut self) -> Result<Contents, netlink::Error> {
        let addresses = self.socket.addresses()?.into_iter().map(|it| it.address);
        let (families, ranges) = (&*self.families, self.ranges.as_deref());
        Ok(contents(addresses.filter(|it| is_served(*it, families, ranges))))
    }

    /// Returns when there may be others. May be dropped and called again at any time.
    pub(super) async fn changed(&mut self) -> Result<(), netlink::Error> {
        let waiting =
            |source| netlink::Error { doing: "wait for the kernel's notices".to_owned(), source };
        let notices = match (self.opened.take(), &mut self.notices) {
            (Some(notices), none) => none.insert(watched(notices).map_err(waiting)?),
            (None, Some(notices)) => notices,
            (None, None) => return Err(waiting(io::ErrorKind::NotConnected.into())),
        };
        loop {
            let mut ready = notices.readable_mut().await.map_err(waiting)?;
            let is_change = |it: &Notice| matches!(it, Notice::Address { .. } | Notice::Missed);
            match ready.get_inner_mut().receive()? {
                None => ready.clear_ready(),
                Some(told) if told.iter().any(is_change) => return Ok(()),
                Some(_) => {}
            }
        }
    }
}

/// As in mode nftables, which has nothing like `route_localnet` for ::1.
fn is_served(address: IpAddr, families: &[Family], ranges: Option<&[Cidr]>) -> bool {
    address != IpAddr::V6(Ipv6Addr::LOCALHOST)
        && families.contains(&Family::of(address))
        && ranges.is_none_or(|it| it.iter().any(|range| range.contains(address)))
}

fn contents(addresses: impl Iterator<Item = IpAddr>) -> Contents {
    addresses.map(|it| (address_bytes(it).to_vec(), vec![0; 4])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_ports_are_at_addresses_of_served_families_in_the_ranges() {
        let check = |address: &str, families: &[Family], ranges: Option<&str>, expected| {
            let ranges = ranges.map(|it| vec![it.parse().unwrap()]);
            let address = address.parse().unwrap();
            assert_eq!(is_served(address, families, ranges.as_deref()), expected, "{address}");
        };
        let both = [Family::V4, Family::V6];
        check("192.0.2.1", &both, None, true);
        check("127.0.0.1", &both, None, true);
        check("::1", &both, None, false);
        check("2001:db8::1", &both, None, true);
        check("2001:db8::1", &[Family::V4], None, false);
        check("192.0.2.1", &both, Some("192.0.2.0/24"), true);
        check("192.0.3.1", &both, Some("192.0.2.0/24"), false);
    }
}
