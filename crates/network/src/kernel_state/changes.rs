//! The changes from what is to what should be. Pure.

use std::net::IpAddr;

use linux::netlink::route::HardwareAddress;
use linux::netlink::wireguard;
use packets::Tunnel;

use super::{KernelState, Link, LinkKind, PodEnd, Remote, Route};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Set {
        name: String,
        value: String,
    },
    /// One that has no other end, with this MTU; not yet up if it is no bridge.
    Create {
        link: String,
        kind: LinkKind,
        mtu: u32,
    },
    /// In place of one of ours that has the name and cannot be made this one.
    Remake {
        link: String,
        kind: LinkKind,
        mtu: u32,
    },
    /// Makes the pair anew, with its other end in the sandbox's namespace, and that end whole.
    Connect {
        link: String,
        end: PodEnd,
        mtu: u32,
    },
    /// Of a pod's link: of both its ends.
    SetMtu {
        link: String,
        mtu: u32,
    },
    /// Its keys and peers. A difference in where peers are heard from alone is no fault.
    Configure {
        link: String,
        device: wireguard::Device,
        is_fault: bool,
    },
    /// What the worker carries for it.
    Carry {
        link: String,
        tunnel: Tunnel,
        is_fault: bool,
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
    PutForward {
        link: String,
        hardware: HardwareAddress,
        remote: Remote,
    },
    DeleteForward {
        link: String,
        hardware: HardwareAddress,
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
            Self::Create { link, .. }
            | Self::Remake { link, .. }
            | Self::Connect { link, .. }
            | Self::SetMtu { link, .. }
            | Self::Configure { link, .. }
            | Self::Carry { link, .. }
            | Self::PutForward { link, .. }
            | Self::DeleteForward { link, .. }
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
            Self::Create { link, kind: LinkKind::Bridge, .. } => {
                Some(format!("its bridge {link} is gone"))
            }
            Self::Create { link, .. } => Some(format!("its link {link} is gone")),
            Self::Remake { link, .. } => Some(format!("its link {link} is another")),
            Self::Configure { link, is_fault: true, .. } => {
                Some(format!("the peers of its link {link} are others"))
            }
            Self::Carry { link, is_fault: true, .. } => {
                Some(format!("nobody carries the packets of its link {link}"))
            }
            Self::PutForward { link, hardware, .. } => {
                Some(format!("its link {link} does not know where {hardware} is"))
            }
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
            | Self::SetMtu { .. }
            | Self::Configure { .. }
            | Self::Carry { .. }
            | Self::DeleteForward { .. }
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
    let (mut changes, is_kept) = making(name, actual, desired);
    // What is on a link that is made anew goes with the one that was there.
    let actual = actual.filter(|_| is_kept);
    if actual.is_none() && changes.is_empty() {
        return changes;
    }
    changes.extend(address_changes(name, actual, desired));
    changes.extend(neighbor_changes(name, actual, desired));
    changes.extend(forward_changes(name, actual, desired));
    changes
}

/// The link itself; and whether the one that is there stays.
fn making(name: &str, actual: Option<&Link>, desired: &Link) -> (Vec<Change>, bool) {
    let link = || name.to_owned();
    let (mtu, kind) = (desired.mtu, desired.kind.clone());
    let Some(actual) = actual else {
        let change = match &desired.kind {
            LinkKind::Pod { end: Some(end) } => {
                Change::Connect { link: link(), end: end.clone(), mtu }
            }
            // Nobody said what its other end is: it cannot be made.
            LinkKind::Pod { end: None } => return (Vec::new(), false),
            LinkKind::Bridge => return (vec![Change::Create { link: link(), kind, mtu }], false),
            LinkKind::Vxlan { .. }
            | LinkKind::Ipip { .. }
            | LinkKind::Wireguard(_)
            | LinkKind::Udp(_) => {
                return (made(Change::Create { link: link(), kind, mtu }, desired), false);
            }
        };
        return (vec![change], false);
    };
    if !actual.kind.becomes(&desired.kind) {
        return (made(Change::Remake { link: link(), kind, mtu }, desired), false);
    }
    let mut changes = Vec::new();
    if actual.mtu != mtu {
        changes.push(Change::SetMtu { link: link(), mtu });
    }
    changes.extend(configuring(name, &actual.kind, &desired.kind));
    if !actual.is_up {
        changes.push(Change::BringUp { link: link() });
    }
    (changes, true)
}

/// A link that is made configured, before it is up.
fn made(change: Change, desired: &Link) -> Vec<Change> {
    let link = change.link().unwrap_or_default().to_owned();
    let none = match desired.kind {
        LinkKind::Udp(_) => LinkKind::Udp(Tunnel::default()),
        _ => LinkKind::Wireguard(wireguard::Device::default()),
    };
    let configure = configuring(&link, &none, &desired.kind);
    [change].into_iter().chain(configure).chain([Change::BringUp { link: link.clone() }]).collect()
}

/// A peer is where it was heard from last, which may be another place than it said.
fn configuring(name: &str, actual: &LinkKind, desired: &LinkKind) -> Option<Change> {
    if let (LinkKind::Udp(actual), LinkKind::Udp(tunnel)) = (actual, desired) {
        return carrying(name, actual, tunnel);
    }
    let (LinkKind::Wireguard(actual), LinkKind::Wireguard(device)) = (actual, desired) else {
        return None;
    };
    let silent = |it: &wireguard::Device| {
        let mut it = it.clone();
        it.peers.values_mut().for_each(|peer| peer.endpoint = None);
        it
    };
    let is_fault = silent(actual) != silent(device);
    let (link, device_wanted) = (name.to_owned(), device.clone());
    (actual != device).then_some(Change::Configure { link, device: device_wanted, is_fault })
}

/// Other peers are no fault; nobody who carries is one.
fn carrying(name: &str, actual: &Tunnel, desired: &Tunnel) -> Option<Change> {
    let is_fault = actual.local.is_none();
    let (link, tunnel) = (name.to_owned(), desired.clone());
    (actual != desired).then_some(Change::Carry { link, tunnel, is_fault })
}

fn address_changes(name: &str, actual: Option<&Link>, desired: &Link) -> Vec<Change> {
    let link = || name.to_owned();
    let mut changes = Vec::new();
    let has_address = |it: &_| actual.is_some_and(|actual| actual.addresses.contains(it));
    for (address, prefix_length) in desired.addresses.iter().filter(|it| !has_address(it)) {
        let (address, prefix_length) = (*address, *prefix_length);
        changes.push(Change::AddAddress { link: link(), address, prefix_length });
    }
    let Some(actual) = actual else { return changes };
    for (address, prefix_length) in actual.addresses.difference(&desired.addresses) {
        let (address, prefix_length) = (*address, *prefix_length);
        changes.push(Change::DeleteAddress { link: link(), address, prefix_length });
    }
    changes
}

/// The kernel forgets the neighbors of a link that goes down.
fn neighbor_changes(name: &str, actual: Option<&Link>, desired: &Link) -> Vec<Change> {
    let link = || name.to_owned();
    let mut changes = Vec::new();
    let known = actual.filter(|it| it.is_up).map(|it| &it.neighbors);
    for (address, hardware) in &desired.neighbors {
        if known.and_then(|it| it.get(address)) != Some(hardware) {
            let (address, hardware) = (*address, *hardware);
            changes.push(Change::PutNeighbor { link: link(), address, hardware });
        }
    }
    let gone = actual.iter().flat_map(|it| it.neighbors.keys());
    for address in gone.filter(|it| !desired.neighbors.contains_key(it)) {
        changes.push(Change::DeleteNeighbor { link: link(), address: *address });
    }
    changes
}

fn forward_changes(name: &str, actual: Option<&Link>, desired: &Link) -> Vec<Change> {
    let link = || name.to_owned();
    let known = |it: &HardwareAddress| actual.and_then(|actual| actual.forwards.get(it));
    let missing =
        desired.forwards.iter().filter(|(hardware, remote)| known(hardware) != Some(remote));
    let put = missing.map(|(hardware, remote)| Change::PutForward {
        link: link(),
        hardware: *hardware,
        remote: *remote,
    });
    let gone = actual.iter().flat_map(|it| it.forwards.keys());
    let gone = gone.filter(|it| !desired.forwards.contains_key(it));
    let delete = gone.map(|it| Change::DeleteForward { link: link(), hardware: *it });
    put.chain(delete).collect()
}

/// Routes over a link that is down, that goes or is made anew go by themselves.
fn route_changes(actual: &KernelState, desired: &KernelState) -> Vec<Change> {
    let is_on_link_of = |state: &KernelState, route: &Route, is_up_too: bool| {
        let Some(name) = route.link() else { return true };
        state.links.get(name).is_some_and(|it| it.is_up || !is_up_too)
    };
    let is_kept = |it: &Route| {
        let of = |state: &KernelState| Some(state.links.get(it.link()?)?.kind.clone());
        !matches!((of(actual), of(desired)), (Some(old), Some(new)) if !old.becomes(&new))
    };
    let is_there =
        |it: &Route| actual.routes.contains(it) && is_on_link_of(actual, it, true) && is_kept(it);
    let put: Vec<_> = desired.routes.iter().filter(|it| !is_there(it)).cloned().collect();
    let delete = actual.routes.difference(&desired.routes).filter(|old| {
        let is_replaced = put.iter().any(|new| new.replaces(old));
        !is_replaced && is_kept(old) && is_on_link_of(desired, old, false)
    });
    let delete: Vec<_> = delete.cloned().map(Change::DeleteRoute).collect();
    put.into_iter().map(Change::PutRoute).chain(delete).collect()
}
