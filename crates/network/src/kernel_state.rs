//! What of the pod network is in the kernel's links, addresses, routes and settings; and the
//! changes from what is to what should be. Pure. (Rules are compared by
//! `linux::netlink::nftables`.)

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use crate::range::Range;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KernelState {
    pub(crate) bridge: Option<Bridge>,
    /// The host end of each pod's link, by name.
    pub(crate) links: BTreeMap<String, PodLink>,
    /// Who sends to one of these, and not to a pod, is told at once that nobody is there.
    pub(crate) unreachable: BTreeSet<Range>,
    /// Names and values of kernel settings. Those that are not here may be what they are.
    pub(crate) settings: BTreeMap<String, String>,
}

/// It has no ports: it is where the gateway's address lives, whether there are pods or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bridge {
    pub(crate) is_up: bool,
    /// With the lengths of their prefixes.
    pub(crate) addresses: BTreeSet<(Ipv4Addr, u8)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodLink {
    pub(crate) is_up: bool,
    /// The addresses that are routed over it.
    pub(crate) routes: BTreeSet<Ipv4Addr>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Set {
        name: String,
        value: String,
    },
    CreateBridge,
    BringBridgeUp,
    AddAddress(Ipv4Addr, u8),
    DeleteAddress(Ipv4Addr, u8),
    DeleteBridge,
    /// Brings the host end up and routes the address over it.
    Connect {
        link: String,
        address: Ipv4Addr,
    },
    /// Makes the pair anew, with its other end in the sandbox's namespace.
    Reconnect {
        link: String,
        address: Ipv4Addr,
    },
    DeleteRoute {
        link: String,
        address: Ipv4Addr,
    },
    DeleteLink(String),
    AddUnreachable(Range),
    DeleteUnreachable(Range),
}

impl Change {
    /// The pod's link that it is about, if it is about one that should be there.
    pub(crate) fn link(&self) -> Option<&str> {
        match self {
            Self::Connect { link, .. }
            | Self::Reconnect { link, .. }
            | Self::DeleteRoute { link, .. } => Some(link),
            Self::Set { .. }
            | Self::CreateBridge
            | Self::BringBridgeUp
            | Self::AddAddress(..)
            | Self::DeleteAddress(..)
            | Self::DeleteBridge
            | Self::DeleteLink(_)
            | Self::AddUnreachable(_)
            | Self::DeleteUnreachable(_) => None,
        }
    }

    /// What is broken until it is made; `None` if there is only too much.
    pub(crate) fn fault(&self) -> Option<String> {
        match self {
            Self::Set { name, value } => Some(format!("{name} is not {value}")),
            Self::CreateBridge => Some("its bridge is gone".to_owned()),
            Self::BringBridgeUp => Some("its bridge is down".to_owned()),
            Self::AddAddress(address, _) => Some(format!("its bridge has no address {address}")),
            Self::AddUnreachable(range) => Some(format!("the route for {range} is gone")),
            Self::Connect { link, .. } => Some(format!("its link {link} is down or has no route")),
            Self::Reconnect { link, .. } => Some(format!("its link {link} is gone")),
            Self::DeleteAddress(..)
            | Self::DeleteBridge
            | Self::DeleteRoute { .. }
            | Self::DeleteLink(_)
            | Self::DeleteUnreachable(_) => None,
        }
    }
}

/// Additions first, so that traffic always has a path.
pub(crate) fn changes(actual: &KernelState, desired: &KernelState) -> Vec<Change> {
    let mut changes: Vec<_> = desired
        .settings
        .iter()
        .filter(|(name, value)| actual.settings.get(*name) != Some(*value))
        .map(|(name, value)| Change::Set { name: name.clone(), value: value.clone() })
        .collect();
    changes.extend(bridge_changes(actual.bridge.as_ref(), desired.bridge.as_ref()));
    let ranges = |from: &KernelState, without: &KernelState| {
        from.unreachable.difference(&without.unreachable).copied().collect::<Vec<_>>()
    };
    changes.extend(ranges(desired, actual).into_iter().map(Change::AddUnreachable));
    for (name, link) in &actual.links {
        changes.extend(link_changes(name, link, desired.links.get(name)));
    }
    let missing = desired.links.iter().filter(|(name, _)| !actual.links.contains_key(*name));
    for (name, link) in missing {
        let reconnect = |address: &_| Change::Reconnect { link: name.clone(), address: *address };
        changes.extend(link.routes.iter().map(reconnect));
    }
    changes.extend(ranges(actual, desired).into_iter().map(Change::DeleteUnreachable));
    changes
}

fn bridge_changes(actual: Option<&Bridge>, desired: Option<&Bridge>) -> Vec<Change> {
    let mut changes = Vec::new();
    let Some(desired) = desired else {
        changes.extend(actual.map(|_| Change::DeleteBridge));
        return changes;
    };
    let none = BTreeSet::new();
    let addresses = actual.map_or(&none, |it| &it.addresses);
    match actual {
        None => changes.push(Change::CreateBridge),
        Some(actual) if actual.is_up != desired.is_up => changes.push(Change::BringBridgeUp),
        Some(_) => {}
    }
    let add = desired.addresses.difference(addresses);
    changes.extend(add.map(|(address, length)| Change::AddAddress(*address, *length)));
    let delete = addresses.difference(&desired.addresses);
    changes.extend(delete.map(|(address, length)| Change::DeleteAddress(*address, *length)));
    changes
}

fn link_changes(name: &str, actual: &PodLink, desired: Option<&PodLink>) -> Vec<Change> {
    let Some(desired) = desired else { return vec![Change::DeleteLink(name.to_owned())] };
    let mut changes = Vec::new();
    // The kernel forgets the routes of a link that goes down.
    let missing = desired.routes.iter().filter(|it| !actual.is_up || !actual.routes.contains(it));
    for address in missing {
        changes.push(Change::Connect { link: name.to_owned(), address: *address });
    }
    for address in actual.routes.difference(&desired.routes) {
        changes.push(Change::DeleteRoute { link: name.to_owned(), address: *address });
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const POD: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    fn link(is_up: bool, routes: &[Ipv4Addr]) -> PodLink {
        PodLink { is_up, routes: routes.iter().copied().collect() }
    }

    fn desired() -> KernelState {
        let addresses = BTreeSet::from([(GATEWAY, 32)]);
        KernelState {
            bridge: Some(Bridge { is_up: true, addresses }),
            links: BTreeMap::from([("veth1".into(), link(true, &[POD]))]),
            unreachable: BTreeSet::from([Range::new(GATEWAY, 24)]),
            settings: BTreeMap::from([("forward".into(), "1".into())]),
        }
    }

    fn check(actual: KernelState, desired: KernelState, expected: &[Change]) {
        assert_eq!(changes(&actual, &desired), expected, "{actual:?} {desired:?}");
    }

    #[test]
    fn what_is_right_is_left_alone() {
        check(desired(), desired(), &[]);
        let more = BTreeMap::from([("forward".into(), "1".into()), ("x".into(), "2".into())]);
        check(KernelState { settings: more, ..desired() }, desired(), &[]);
    }

    #[test]
    fn from_nothing_all_is_made() {
        let set = Change::Set { name: "forward".into(), value: "1".into() };
        let unreachable = Change::AddUnreachable(Range::new(GATEWAY, 24));
        let address = Change::AddAddress(GATEWAY, 32);
        let reconnect = Change::Reconnect { link: "veth1".into(), address: POD };
        let expected = [set, Change::CreateBridge, address, unreachable, reconnect];
        check(KernelState::default(), desired(), &expected);
    }

    #[test]
    fn to_nothing_all_is_removed() {
        let nothing = KernelState {
            settings: BTreeMap::from([("forward".into(), "0".into())]),
            ..KernelState::default()
        };
        let set = Change::Set { name: "forward".into(), value: "0".into() };
        let unreachable = Change::DeleteUnreachable(Range::new(GATEWAY, 24));
        let link = Change::DeleteLink("veth1".into());
        check(desired(), nothing, &[set, Change::DeleteBridge, link, unreachable]);
    }

    #[test]
    fn a_wrong_bridge_is_corrected_in_place() {
        let wrong = Ipv4Addr::new(10, 9, 0, 1);
        let addresses = BTreeSet::from([(GATEWAY, 24), (wrong, 32)]);
        let bridge = Some(Bridge { is_up: false, addresses });
        let expected = [
            Change::BringBridgeUp,
            Change::AddAddress(GATEWAY, 32),
            Change::DeleteAddress(GATEWAY, 24),
            Change::DeleteAddress(wrong, 32),
        ];
        check(KernelState { bridge, ..desired() }, desired(), &expected);
    }

    #[test]
    fn a_link_gets_its_route_and_loses_others() {
        let check = |actual: PodLink, expected: &[Change]| {
            let links = BTreeMap::from([("veth1".into(), actual)]);
            check(KernelState { links, ..desired() }, desired(), expected);
        };
        let connect = Change::Connect { link: "veth1".into(), address: POD };
        let other = Ipv4Addr::new(10, 0, 0, 3);
        let delete = Change::DeleteRoute { link: "veth1".into(), address: other };
        check(link(true, &[]), std::slice::from_ref(&connect));
        check(link(false, &[POD]), std::slice::from_ref(&connect));
        check(link(true, &[other]), &[connect, delete.clone()]);
        check(link(true, &[POD, other]), &[delete]);
    }

    /// Carries a change out on the model.
    fn apply(state: &mut KernelState, change: Change) {
        let bridge = Bridge { is_up: true, addresses: BTreeSet::new() };
        match change {
            Change::Set { name, value } => drop(state.settings.insert(name, value)),
            Change::CreateBridge => assert_eq!(state.bridge.replace(bridge), None),
            Change::BringBridgeUp => state.bridge.as_mut().unwrap().is_up = true,
            Change::AddAddress(address, length) => {
                assert!(state.bridge.as_mut().unwrap().addresses.insert((address, length)));
            }
            Change::DeleteAddress(address, length) => {
                assert!(state.bridge.as_mut().unwrap().addresses.remove(&(address, length)));
            }
            Change::DeleteBridge => assert!(state.bridge.take().is_some()),
            Change::Connect { link, address } => {
                let link = state.links.get_mut(&link).unwrap();
                link.is_up = true;
                link.routes.insert(address);
            }
            Change::Reconnect { link, address } => {
                let made = PodLink { is_up: true, routes: BTreeSet::new() };
                state.links.entry(link).or_insert(made).routes.insert(address);
            }
            Change::DeleteRoute { link, address } => {
                assert!(state.links.get_mut(&link).unwrap().routes.remove(&address));
            }
            Change::DeleteLink(name) => assert!(state.links.remove(&name).is_some()),
            Change::AddUnreachable(range) => assert!(state.unreachable.insert(range)),
            Change::DeleteUnreachable(range) => assert!(state.unreachable.remove(&range)),
        }
    }

    fn any_state() -> impl Strategy<Value = KernelState> {
        let address = (0u8..4).prop_map(|it| Ipv4Addr::new(10, 0, 0, it));
        let addresses = proptest::collection::btree_set((address.clone(), 30u8..=32), 0..3);
        let bridge =
            (any::<bool>(), addresses).prop_map(|(is_up, addresses)| Bridge { is_up, addresses });
        let routes = proptest::collection::btree_set(address.clone(), 1..3);
        let link = (any::<bool>(), routes).prop_map(|(is_up, routes)| PodLink { is_up, routes });
        (
            proptest::option::of(bridge),
            proptest::collection::btree_map("veth[0-3]", link, 0..3),
            proptest::collection::btree_set(address.prop_map(|it| Range::new(it, 31)), 0..3),
            proptest::collection::btree_map("[ab]", "[01]", 0..2),
        )
            .prop_map(|(bridge, links, unreachable, settings)| KernelState {
                bridge,
                links,
                unreachable,
                settings,
            })
    }

    proptest! {
        #[test]
        fn after_the_changes_nothing_is_left_to_change(
            actual in any_state(),
            mut desired in any_state(),
        ) {
            // Only what is up is ever wanted.
            desired.bridge.iter_mut().for_each(|it| it.is_up = true);
            desired.links.values_mut().for_each(|it| it.is_up = true);
            let mut state = actual.clone();
            for change in changes(&actual, &desired) {
                apply(&mut state, change);
            }
            prop_assert_eq!(changes(&state, &desired), []);
        }
    }
}
