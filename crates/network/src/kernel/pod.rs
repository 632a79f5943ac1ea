//! The pod's own end of its link: its addresses, and everything else behind the gateways.

use std::net::IpAddr;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::path::PathBuf;

use linux::netlink::route::{Destination, Link, LinkChange, Neighbor, Route, RouteSocket, Scope};
use linux::{netlink, network_namespace, sysctl};
use rustix::io::Errno;
use stdx::Family;

use super::apply::UP;
use super::{Error, route_to};
use crate::kernel_state::PodEnd;

/// The name of a pod's own link, in the pod.
pub(super) const POD_LINK: &str = "eth0";

/// A pod's network namespace, with a socket in it.
pub(crate) struct PodNamespace<'a> {
    pub(super) descriptor: BorrowedFd<'a>,
    pub(super) socket: RouteSocket,
}

impl<'a> PodNamespace<'a> {
    pub(crate) fn open(descriptor: BorrowedFd<'a>) -> Result<Self, Error> {
        let socket = RouteSocket::open_in(&path_of(descriptor))?;
        Ok(Self { descriptor, socket })
    }

    /// Makes the pod's side whole, also where it is right already.
    pub(crate) fn set_up(&mut self, end: &PodEnd) -> Result<(), Error> {
        match try_set_up(&mut self.socket, end) {
            // Kernels can be told to begin every namespace without IPv6.
            Err(err) if err.is(Errno::ACCESS) || err.is(Errno::PERM) => {
                network_namespace::run_in(&path_of(self.descriptor), allow_ipv6)??;
                try_set_up(&mut self.socket, end).map_err(Error::InPod)
            }
            result => result.map_err(Error::InPod),
        }
    }

    /// Of the pod's end of its link.
    pub(super) fn set_mtu(&mut self, mtu: u32) -> Result<(), Error> {
        let Some(link) = self.socket.link(POD_LINK).map_err(Error::InPod)? else { return Ok(()) };
        let change = LinkChange { mtu: Some(mtu), ..LinkChange::default() };
        self.socket.change_link(&link, change).map_err(Error::InPod)
    }
}

fn path_of(namespace: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", namespace.as_raw_fd()))
}

fn allow_ipv6() -> Result<(), sysctl::Error> {
    sysctl::write(&format!("net/ipv6/conf/{POD_LINK}/disable_ipv6"), "0")
}

fn try_set_up(pod: &mut RouteSocket, end: &PodEnd) -> Result<(), netlink::Error> {
    if let Some(loopback) = pod.link("lo")? {
        pod.change_link(&loopback, UP)?;
    }
    let Some(link) = pod.link(POD_LINK)? else {
        let (doing, source) = (format!("find link {POD_LINK}"), Errno::NODEV.into());
        return Err(netlink::Error { doing, source });
    };
    pod.change_link(&link, UP)?;
    end.addresses.iter().try_for_each(|it| set_up_family(pod, &link, end, *it))
}

/// One address, and one gateway whose hardware address is known for good, so nobody asks for it.
fn set_up_family(
    pod: &mut RouteSocket,
    link: &Link,
    end: &PodEnd,
    (address, gateway): (IpAddr, IpAddr),
) -> Result<(), netlink::Error> {
    pod.add_address(link, address, Family::of(address).bits())?;
    let hardware_address = end.host_hardware;
    pod.put_neighbor(link, Neighbor { address: gateway, hardware_address })?;
    let to_gateway = route_to(Destination::host(gateway), Some(link.index));
    pod.put_route(&Route { scope: Scope::Link, ..to_gateway })?;
    let to_all = route_to(Destination::default_of(gateway), Some(link.index));
    pod.put_route(&Route { gateway: Some(gateway), ..to_all })
}
