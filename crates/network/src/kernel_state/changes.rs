//! The changes from what is to what should be. Pure.

use std::net::IpAddr;

use linux::netlink::route::HardwareAddress;

use super::{KernelState, Link, LinkKind, PodEnd, Route};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Set {
        name: String,
        value: String,
    },
    CreateBridge {
        link: String,
    },
    /// Makes the pair anew, with its other end in the sandbox's namespace, and that end whole.
    Connect {
        link: String,
        end: PodEnd,
    },
    BringUp {
        link: String,
    },
    AddAddress {
        link: String,
        address: IpAddr,
        prefix_length: u8,
    },
    DeleteAddress {
        link: String,
        address: IpAddr,
        prefix_length: u8,
    },
    PutNeighbor {
        link: String,
        address: IpAddr,
        hardware: HardwareAddress,
    },
    DeleteNeighbor {
        link: String,
        address: IpAddr,
    },
    /// In place of one that it replaces.
    PutRoute(Route),
    DeleteRoute(Route),
    /// With what is on it.
    DeleteLink {
        link: String,
    },
}

impl Change {
    /// The link of ours that it is about, if that should be there.
    pub(crate) fn link(&self) -> Option<&str> {
        match self {
            Self::CreateBridge { link }
            | Self::Connect { link, .. }
            | Self::BringUp { link }
            | Self::AddAddress { link, .. }
            | Self::DeleteAddress { link, .. }
            | Self::PutNeighbor { link, .. }
            | Self::DeleteNeighbor { link, .. } => Some(link),
            Self::PutRoute(route) | Self::DeleteRoute(route) => route.link(),
            Self::Set { .. } | Self::DeleteLink { .. } => None,
        }
    }

    /// What is broken until it is made; `None` if there is only too much.
    pub(crate) fn fault(&self) -> Option<String> {
        match self {
            Self::Set { name, value } => Some(format!("{name} is not {value}")),
            Self::CreateBridge { link } => Some(format!("its bridge {link} is gone")),
            Self::Connect { link, .. } => Some(format!("its link {link} is gone")),
            Self::BringUp { link } => Some(format!("its link {link} is down")),
            Self::AddAddress { link, address, .. } => {
                Some(format!("its link {link} has no address {address}"))
            }
            Self::PutNeighbor { link, address, .. } => {
                Some(format!("its link {link} does not know {address}"))
            }
            Self::PutRoute(Route { destination, .. }) => {
                Some(format!("the route for {destination} is gone"))
            }
            Self::DeleteAddress { .. }
            | Self::DeleteNeighbor { .. }
            | Self::DeleteRoute(_)
            | Self::DeleteLink { .. } => None,
        }
    }
}

/// Additions first, so that traffic always has a path.
pub(crate) fn changes(actual: &KernelState, desired: &KernelState) -> Vec<Change> {
    let mut changes = setting_changes(actual, desired);
    for (name, link) in &desired.links {
        changes.extend(link_changes(name, actual.links.get(name), link));
    }
    changes.extend(route_changes(actual, desired));
    let is_unwanted = |it: &&String| !desired.links.contains_key(*it);
    let unwanted = actual.links.keys().filter(is_unwanted);
    changes.extend(unwanted.map(|it| Change::DeleteLink { link: it.clone() }));
    changes
}

/// Forwarding comes last: when it is switched on, the kernel forgets what it learned from routers,
/// but for links on which it was told before that it is to listen to them still.
fn setting_changes(actual: &KernelState, desired: &KernelState) -> Vec<Change> {
    let differs = |it: &(&String, &String)| actual.settings.get(it.0) != Some(it.1);
    let mut different: Vec<_> = desired.settings.iter().filter(differs).collect();
    different.sort_by_key(|(name, _)| name.ends_with("forward") || name.ends_with("forwarding"));
    let set = |(name, value): (&String, &String)| Change::Set {
        name: name.clone(),
        value: value.clone(),
    };
    different.into_iter().map(set).collect()
}

fn link_changes(name: &str, actual: Option<&Link>, desired: &Link) -> Vec<Change> {
    let link = || name.to_owned();
    let mut changes = Vec::new();
    match (actual, &desired.kind) {
        (None, LinkKind::Bridge) => changes.push(Change::CreateBridge { link: link() }),
        (None, LinkKind::Pod { end: Some(end) }) => {
            changes.push(Change::Connect { link: link(), end: end.clone() });
        }
        // Nobody said what its other end is: it cannot be made.
        (None, LinkKind::Pod { end: None }) => return changes,
        (Some(actual), _) if !actual.is_up => changes.push(Change::BringUp { link: link() }),
        (Some(_), _) => {}
    }
    let has_address = |it: &_| actual.is_some_and(|actual| actual.addresses.contains(it));
    for (address, prefix_length) in desired.addresses.iter().filter(|it| !has_address(it)) {
        let (address, prefix_length) = (*address, *prefix_length);
        changes.push(Change::AddAddress { link: link(), address, prefix_length });
    }
    // The kernel forgets the neighbors of a link that goes down.
    let known = actual.filter(|it| it.is_up).map(|it| &it.neighbors);
    for (address, hardware) in &desired.neighbors {
        if known.and_then(|it| it.get(address)) != Some(hardware) {
            let (address, hardware) = (*address, *hardware);
            changes.push(Change::PutNeighbor { link: link(), address, hardware });
        }
    }
    let Some(actual) = actual else { return changes };
    for (address, prefix_length) in actual.addresses.difference(&desired.addresses) {
        let (address, prefix_length) = (*address, *prefix_length);
        changes.push(Change::DeleteAddress { link: link(), address, prefix_length });
    }
    for address in actual.neighbors.keys().filter(|it| !desired.neighbors.contains_key(it)) {
        changes.push(Change::DeleteNeighbor { link: link(), address: *address });
    }
    changes
}

/// Routes over a link that is down, or that goes, go by themselves.
fn route_changes(actual: &KernelState, desired: &KernelState) -> Vec<Change> {
    let is_on_link_of = |state: &KernelState, route: &Route, is_up_too: bool| {
        let Some(name) = route.link() else { return true };
        state.links.get(name).is_some_and(|it| it.is_up || !is_up_too)
    };
    let is_there = |it: &Route| actual.routes.contains(it) && is_on_link_of(actual, it, true);
    let put: Vec<_> = desired.routes.iter().filter(|it| !is_there(it)).cloned().collect();
    let delete = actual.routes.difference(&desired.routes).filter(|old| {
        let is_replaced = put.iter().any(|new| new.replaces(old));
        !is_replaced && is_on_link_of(desired, old, false)
    });
    let delete: Vec<_> = delete.cloned().map(Change::DeleteRoute).collect();
    put.into_iter().map(Change::PutRoute).chain(delete).collect()
}
