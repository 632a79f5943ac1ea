//! At which address of the node the worker listens. Pure.
//!
//! Packets are sent there from wherever they came, so it is none of the loopback; the pods' links may
//! have none at all.

use std::net::IpAddr;

use linux::netlink::route::Address;
use stdx::{Cidr, Family};

/// The first that is there for all, on the oldest link that has one.
pub(super) fn choose(addresses: &[Address], family: Family, services: &[Cidr]) -> Option<IpAddr> {
    let is_one = |it: &&Address| {
        let of_services = services.iter().any(|range| range.contains(it.address));
        let is_global = it.scope == 0 && !it.address.is_loopback();
        Family::of(it.address) == family && is_global && !of_services
    };
    let of_family = addresses.iter().filter(is_one);
    of_family.min_by_key(|it| (it.link, it.address)).map(|it| it.address)
}
