//! Hardware addresses of the two ends of a pod's link, and of a node's end of a tunnel. Pure.
//!
//! They follow from the pod's first address and the node's range, so that they are the same after
//! any restart and nobody has to ask for them. The second lowest bit of the first byte says that no vendor gave it.

use std::net::IpAddr;

use linux::netlink::route::HardwareAddress;
use stdx::Cidr;

use crate::node::digest;

pub(crate) fn of_pod(address: IpAddr) -> HardwareAddress {
    with_last_octets(0x0a, address)
}

pub(crate) fn of_host(address: IpAddr) -> HardwareAddress {
    with_last_octets(0x0e, address)
}

/// The end of a tunnel of the node with this range. Of ranges of IPv6 the last bytes
/// are all the same: five bytes of a digest.
pub(crate) fn of_tunnel(range: Cidr) -> HardwareAddress {
    let octets = match range.network() {
        IpAddr::V4(it) => it.octets().to_vec(),
        IpAddr::V6(it) => it.octets().to_vec(),
    };
    let [a, b, c, d, e, ..] = digest(&octets).to_be_bytes();
    HardwareAddress([0x06, a, b, c, d, e])
}

/// The last four tell the pods of a node apart: its range is given from its start on.
fn with_last_octets(first: u8, address: IpAddr) -> HardwareAddress {
    let [a, b, c, d] = match address {
        IpAddr::V4(it) => it.octets(),
        IpAddr::V6(it) => it.octets().last_chunk().copied().unwrap_or_default(),
    };
    HardwareAddress([first, 0x58, a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_a_link_are_known_by_the_pods_address() {
        let check = |address: &str, pod: &str, host: &str| {
            let address = address.parse().unwrap();
            let found = (of_pod(address).to_string(), of_host(address).to_string());
            assert_eq!(found, (pod.to_owned(), host.to_owned()));
        };
        check("10.244.1.2", "0a:58:0a:f4:01:02", "0e:58:0a:f4:01:02");
        check("fd00::1:203", "0a:58:00:01:02:03", "0e:58:00:01:02:03");
    }
}
