//! What is and what should be in, changes out.

use proptest::prelude::*;

use super::*;

const POD_HARDWARE: HardwareAddress = HardwareAddress([2; 6]);

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn end() -> PodEnd {
    let addresses = vec![(ip("10.0.0.2"), ip("10.0.0.1")), (ip("fd00::2"), ip("fd00::1"))];
    PodEnd { hardware: POD_HARDWARE, host_hardware: HardwareAddress([4; 6]), addresses }
}

fn over(link: &str, destination: &str) -> Route {
    let destination = destination.parse().unwrap();
    Route { destination, next: Next::Link { name: link.into(), source: None } }
}

/// A bridge and a pod, of both families.
fn desired() -> KernelState {
    let bridge = Link {
        kind: LinkKind::Bridge,
        is_up: true,
        addresses: BTreeSet::from([(ip("10.0.0.1"), 32), (ip("fd00::1"), 128)]),
        neighbors: BTreeMap::new(),
    };
    let pod = Link {
        kind: LinkKind::Pod { end: Some(end()) },
        is_up: true,
        addresses: BTreeSet::new(),
        neighbors: BTreeMap::from([(ip("10.0.0.2"), POD_HARDWARE), (ip("fd00::2"), POD_HARDWARE)]),
    };
    KernelState {
        links: BTreeMap::from([("xebec0".into(), bridge), ("veth1".into(), pod)]),
        routes: BTreeSet::from([
            over("veth1", "10.0.0.2/32"),
            over("veth1", "fd00::2/128"),
            Route::nowhere("10.0.0.0/24".parse().unwrap()),
        ]),
        tables: BTreeMap::new(),
        settings: BTreeMap::from([("all/forwarding".into(), "1".into())]),
    }
}

/// Each change as a line.
fn show(change: &Change) -> String {
    match change {
        Change::Set { name, value } => format!("set {name} {value}"),
        Change::CreateBridge { link } => format!("create {link}"),
        Change::Connect { link, .. } => format!("connect {link}"),
        Change::BringUp { link } => format!("up {link}"),
        Change::AddAddress { link, address, prefix_length } => {
            format!("add {address}/{prefix_length} {link}")
        }
        Change::DeleteAddress { link, address, prefix_length } => {
            format!("delete {address}/{prefix_length} {link}")
        }
        Change::PutNeighbor { link, address, .. } => format!("neighbor {address} {link}"),
        Change::DeleteNeighbor { link, address } => format!("no neighbor {address} {link}"),
        Change::PutRoute(route) => format!("route {}", show_route(route)),
        Change::DeleteRoute(route) => format!("no route {}", show_route(route)),
        Change::DeleteLink { link } => format!("delete {link}"),
    }
}

fn show_route(route: &Route) -> String {
    let destination = route.destination;
    match &route.next {
        Next::Link { name, .. } => format!("{destination} {name}"),
        Next::Gateway(address) => format!("{destination} via {address}"),
        Next::Nowhere => format!("{destination} nowhere"),
    }
}

fn check(actual: &KernelState, desired: &KernelState, expected: &[&str]) {
    let found: Vec<_> = changes(actual, desired).iter().map(show).collect();
    assert_eq!(found, expected, "{actual:?} {desired:?}");
}

#[test]
fn what_is_right_is_left_alone() {
    check(&desired(), &desired(), &[]);
    let mut actual = desired();
    actual.settings.insert("x".into(), "2".into());
    // What is in the pod is not looked at.
    actual.links.get_mut("veth1").unwrap().kind = LinkKind::Pod { end: None };
    check(&actual, &desired(), &[]);
}

#[test]
fn from_nothing_all_is_made() {
    let expected = [
        "set all/forwarding 1",
        "connect veth1",
        "neighbor 10.0.0.2 veth1",
        "neighbor fd00::2 veth1",
        "create xebec0",
        "add 10.0.0.1/32 xebec0",
        "add fd00::1/128 xebec0",
        "route 10.0.0.0/24 nowhere",
        "route 10.0.0.2/32 veth1",
        "route fd00::2/128 veth1",
    ];
    check(&KernelState::default(), &desired(), &expected);
}

#[test]
fn to_nothing_all_is_removed() {
    let settings = BTreeMap::from([("all/forwarding".into(), "0".into())]);
    let nothing = KernelState { settings, ..KernelState::default() };
    let expected =
        ["set all/forwarding 0", "no route 10.0.0.0/24 nowhere", "delete veth1", "delete xebec0"];
    check(&desired(), &nothing, &expected);
}

#[test]
fn the_kernel_is_told_to_listen_to_routers_still_before_it_forwards() {
    let mut wanted = desired();
    wanted.settings.insert("eth0/accept_ra".into(), "2".into());
    let mut actual = desired();
    actual.settings.clear();
    check(&actual, &wanted, &["set eth0/accept_ra 2", "set all/forwarding 1"]);
}

#[test]
fn a_wrong_bridge_is_corrected_in_place() {
    let mut actual = desired();
    let bridge = actual.links.get_mut("xebec0").unwrap();
    bridge.is_up = false;
    bridge.addresses = BTreeSet::from([(ip("10.0.0.1"), 24), (ip("fd00::1"), 128)]);
    let expected = ["up xebec0", "add 10.0.0.1/32 xebec0", "delete 10.0.0.1/24 xebec0"];
    check(&actual, &desired(), &expected);
}

#[test]
fn a_link_gets_what_it_lacks_and_loses_what_is_not_its_own() {
    let check_link = |damage: fn(&mut KernelState), expected: &[&str]| {
        let mut actual = desired();
        damage(&mut actual);
        check(&actual, &desired(), expected);
    };
    fn pod(state: &mut KernelState) -> &mut Link {
        state.links.get_mut("veth1").unwrap()
    }
    check_link(
        |it| {
            it.routes.remove(&over("veth1", "fd00::2/128"));
        },
        &["route fd00::2/128 veth1"],
    );
    check_link(
        |it| {
            it.routes.insert(over("veth1", "10.0.0.9/32"));
        },
        &["no route 10.0.0.9/32 veth1"],
    );
    check_link(
        |it| {
            pod(it).neighbors.insert(ip("10.0.0.2"), HardwareAddress([9; 6]));
        },
        &["neighbor 10.0.0.2 veth1"],
    );
    check_link(
        |it| {
            pod(it).neighbors.insert(ip("10.0.0.9"), POD_HARDWARE);
        },
        &["no neighbor 10.0.0.9 veth1"],
    );
    // What goes with a link that goes down has to come again.
    let again = [
        "up veth1",
        "neighbor 10.0.0.2 veth1",
        "neighbor fd00::2 veth1",
        "route 10.0.0.2/32 veth1",
        "route fd00::2/128 veth1",
    ];
    check_link(|it| pod(it).is_up = false, &again);
}

#[test]
fn a_route_that_is_replaced_is_not_deleted_after_it() {
    let via = |text: &str| Route {
        destination: "10.0.7.0/24".parse().unwrap(),
        next: Next::Gateway(ip(text)),
    };
    let with = |route: Route| {
        let mut state = desired();
        state.routes.insert(route);
        state
    };
    let (old, new) = (with(via("192.0.2.7")), with(via("192.0.2.8")));
    check(&old, &new, &["route 10.0.7.0/24 via 192.0.2.8"]);
    check(&new, &desired(), &["no route 10.0.7.0/24 via 192.0.2.8"]);
    let moved = with(over("veth1", "10.0.0.3/32"));
    let mut actual = with(over("veth2", "10.0.0.3/32"));
    actual.links.insert("veth2".into(), actual.links["veth1"].clone());
    check(&actual, &moved, &["route 10.0.0.3/32 veth1", "delete veth2"]);
}

/// Carries a change out on the model.
fn apply(state: &mut KernelState, change: Change) {
    let link = |kind| {
        let (addresses, neighbors) = (BTreeSet::new(), BTreeMap::new());
        Link { kind, is_up: true, addresses, neighbors }
    };
    fn named<'a>(state: &'a mut KernelState, name: &str) -> &'a mut Link {
        state.links.get_mut(name).unwrap()
    }
    match change {
        Change::Set { name, value } => drop(state.settings.insert(name, value)),
        Change::CreateBridge { link: name } => {
            assert_eq!(state.links.insert(name, link(LinkKind::Bridge)), None);
        }
        Change::Connect { link: name, end } => {
            let made = link(LinkKind::Pod { end: Some(end) });
            assert_eq!(state.links.insert(name, made), None);
        }
        Change::BringUp { link } => {
            named(state, &link).is_up = true;
            named(state, &link).neighbors.clear();
            state.routes.retain(|it| it.link() != Some(&link));
        }
        Change::AddAddress { link, address, prefix_length } => {
            assert!(named(state, &link).addresses.insert((address, prefix_length)));
        }
        Change::DeleteAddress { link, address, prefix_length } => {
            assert!(named(state, &link).addresses.remove(&(address, prefix_length)));
        }
        Change::PutNeighbor { link, address, hardware } => {
            named(state, &link).neighbors.insert(address, hardware);
        }
        Change::DeleteNeighbor { link, address } => {
            named(state, &link).neighbors.remove(&address);
        }
        Change::PutRoute(route) => {
            assert!(route.link().is_none_or(|it| state.links[it].is_up));
            state.routes.retain(|it| !route.replaces(it));
            state.routes.insert(route);
        }
        Change::DeleteRoute(route) => drop(state.routes.remove(&route)),
        Change::DeleteLink { link } => {
            assert!(state.links.remove(&link).is_some());
            state.routes.retain(|it| it.link() != Some(&link));
        }
    }
}

/// With routes over links that are there.
fn any_state() -> impl Strategy<Value = KernelState> {
    let address = || {
        prop_oneof![
            (0u8..4).prop_map(|it| IpAddr::from([10, 0, 0, it])),
            (0u16..4).prop_map(|it| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, it])),
        ]
    };
    let addresses = || proptest::collection::btree_set((address(), 30u8..=32), 0..3);
    let hardware = (0u8..2).prop_map(|it| HardwareAddress([it; 6]));
    let neighbors = proptest::collection::btree_map(address(), hardware, 0..3);
    let link = move |name: &'static str| {
        (any::<bool>(), addresses(), neighbors.clone()).prop_map(move |it| {
            let (is_up, addresses, neighbors) = it;
            let kind = match name {
                "xebec0" => LinkKind::Bridge,
                _ => LinkKind::Pod { end: Some(end()) },
            };
            (name.to_owned(), Link { kind, is_up, addresses, neighbors })
        })
    };
    let links =
        proptest::collection::vec(prop_oneof![link("xebec0"), link("veth1"), link("veth2")], 0..4);
    let next = prop_oneof![
        proptest::sample::select(&["veth1", "veth2"][..])
            .prop_map(|it| Next::Link { name: it.into(), source: None }),
        address().prop_map(Next::Gateway),
        Just(Next::Nowhere),
    ];
    let route = (address(), next)
        .prop_map(|(address, next)| Route { destination: Cidr::host(address), next });
    let settings = proptest::collection::btree_map("[ab]", "[01]", 0..2);
    (links, proptest::collection::vec(route, 0..5), settings).prop_map(|it| {
        let (links, routes, settings) = it;
        let links: BTreeMap<_, _> = links.into_iter().collect();
        let mut state = KernelState { links, settings, ..KernelState::default() };
        for route in routes {
            let is_possible = route.link().is_none_or(|it| state.links.contains_key(it));
            if is_possible && !state.routes.iter().any(|it| it.replaces(&route)) {
                state.routes.insert(route);
            }
        }
        state
    })
}

proptest! {
    #[test]
    fn after_the_changes_nothing_is_left_to_change(
        actual in any_state(),
        mut desired in any_state(),
    ) {
        // Only what is up is ever wanted.
        desired.links.values_mut().for_each(|it| it.is_up = true);
        let mut state = actual.clone();
        for change in changes(&actual, &desired) {
            apply(&mut state, change);
        }
        prop_assert_eq!(changes(&state, &desired), []);
    }
}
