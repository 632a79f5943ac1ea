//! The cable of one node: from the switch to the one link that the node has.

use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::PathBuf;

use linux::netlink::route::{
    Destination, Link, LinkChange, Namespace, Peer, Route, RouteSocket, Scope, VethPair,
};
use linux::network_namespace;
use stdx::Family;

use super::place::Place;
use super::switch::{End, Error, Switch, allow_ipv6, hardware};

/// Inside the node.
const LINK: &str = "eth0";

/// `None`: it is not there.
pub(super) fn is_up(place: &Place, switch: &Switch) -> Result<Option<bool>, Error> {
    let found = find(&mut RouteSocket::open()?, place, switch)?;
    Ok(found.map(|it| it.is_up))
}

fn find(routes: &mut RouteSocket, place: &Place, switch: &Switch) -> Result<Option<Link>, Error> {
    Ok(routes.link(&place.port())?.filter(|it| it.group == switch.group()))
}

/// Lays it anew, to the node whose first process is `init`; with addresses and the way out.
pub(super) fn lay(place: &Place, switch: &Switch, init: i32) -> Result<(), Error> {
    let namespace = File::open(format!("/proc/{init}/ns/net")).map_err(Error::OpenNamespace)?;
    let mut routes = RouteSocket::open()?;
    let port = place.port();
    if let Some(old) = find(&mut routes, place, switch)? {
        routes.delete_link(&old)?;
    }
    let bridge = switch.find(&mut routes)?.ok_or_else(|| Error::Gone(port.clone()))?;
    routes.create_veth(&VethPair {
        name: &port,
        address: hardware(End::Port, place.cluster, place.number),
        group: switch.group(),
        mtu: bridge.mtu,
        peer: Peer {
            name: LINK,
            address: hardware(End::Node, place.cluster, place.number),
            namespace: Namespace::File(namespace.as_fd()),
        },
    })?;
    let link = routes.link(&port)?.ok_or(Error::Gone(port))?;
    if has_ipv6(place) {
        routes.make_no_ipv6_addresses(&link)?;
    }
    let change = LinkChange { master: Some(bridge.index), ..LinkChange::default() };
    routes.change_link(&link, change)?;
    configure(place, &namespace)
}

fn has_ipv6(place: &Place) -> bool {
    place.addresses.iter().any(|(it, _)| Family::of(*it) == Family::V6)
}

/// The node's end.
fn configure(place: &Place, namespace: &File) -> Result<(), Error> {
    let path = PathBuf::from(format!("/proc/self/fd/{}", namespace.as_raw_fd()));
    let mut routes = RouteSocket::open_in(&path)?;
    let link = routes.link(LINK)?.ok_or_else(|| Error::Gone(LINK.to_owned()))?;
    if has_ipv6(place) {
        network_namespace::run_in(&path, || allow_ipv6(LINK))??;
    }
    for (address, prefix_length) in &place.addresses {
        routes.add_address(&link, *address, *prefix_length)?;
    }
    routes.change_link(&link, LinkChange { is_up: Some(true), ..LinkChange::default() })?;
    for gateway in &place.gateways {
        routes.put_route(&Route {
            destination: Destination::default_of(*gateway),
            link: Some(link.index),
            gateway: Some(*gateway),
            is_blackhole: false,
            is_onlink: false,
            source: None,
            scope: Scope::Universe,
            metric: 0,
            mtu: None,
            protocol: Route::BY_HAND,
        })?;
    }
    Ok(())
}

/// Lifts or cuts it, at the switch: the node sees a cable that was pulled.
pub(super) fn set(place: &Place, switch: &Switch, is_up: bool) -> Result<(), Error> {
    let mut routes = RouteSocket::open()?;
    let link = find(&mut routes, place, switch)?.ok_or_else(|| Error::Gone(place.port()))?;
    Ok(routes.change_link(&link, LinkChange { is_up: Some(is_up), ..LinkChange::default() })?)
}

pub(super) fn remove(place: &Place, switch: &Switch) -> Result<(), Error> {
    let mut routes = RouteSocket::open()?;
    match find(&mut routes, place, switch)? {
        Some(link) => Ok(routes.delete_link(&link)?),
        None => Ok(()),
    }
}
