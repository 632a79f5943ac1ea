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
    Route::new(destination, Next::Link { name: link.into(), source: None })
}

fn link(kind: LinkKind) -> Link {
    let (addresses, neighbors) = (BTreeSet::new(), BTreeMap::new());
    Link { kind, is_up: true, mtu: 1450, addresses, neighbors, forwards: BTreeMap::new() }
}

fn vxlan(vni: u32) -> LinkKind {
    let local = ip("192.0.2.1");
    let vxlan = Vxlan { vni, port: 8472, local, is_learning: false };
    LinkKind::Vxlan { vxlan, hardware: HardwareAddress([6; 6]) }
}

fn wireguard(peers: &[(u8, &str)]) -> LinkKind {
    let peer = |(key, endpoint): &(u8, &str)| {
        let endpoint = Some(endpoint.parse().unwrap());
        (wireguard::Key([*key; 32]), wireguard::Peer { endpoint, allowed: BTreeSet::new() })
    };
    let peers = peers.iter().map(peer).collect();
    LinkKind::Wireguard(wireguard::Device { private_key: None, listen_port: 51820, peers })
}

/// With ways to these ranges.
fn udp(ranges: &[&str]) -> LinkKind {
    let peer = Ipv4Addr::new(192, 0, 2, 7);
    LinkKind::Udp(Tunnel {
        local: Some("192.0.2.1:8285".parse().unwrap()),
        own: Some("10.0.0.0/24".parse().unwrap()),
        ways: ranges.iter().map(|it| (it.parse().unwrap(), peer)).collect(),
    })
}

/// The state with a tunnel to one other node.
fn with_tunnel(kind: LinkKind) -> KernelState {
    let mut state = desired();
    let gateway = ip("10.0.7.0");
    let remote = Remote { address: ip("192.0.2.7"), vni: None };
    let tunnel = Link {
        addresses: BTreeSet::from([(ip("10.0.0.0"), 32)]),
        neighbors: BTreeMap::from([(gateway, HardwareAddress([7; 6]))]),
        forwards: BTreeMap::from([(HardwareAddress([7; 6]), remote)]),
        ..link(kind)
    };
    state.links.insert("flannel.1".into(), tunnel);
    let next = Next::Onlink { name: "flannel.1".into(), gateway };
    state.routes.insert(Route::new("10.0.7.0/24".parse().unwrap(), next));
    state
}

/// A bridge and a pod, of both families.
fn desired() -> KernelState {
    let bridge = Link {
        kind: LinkKind::Bridge,
        addresses: BTreeSet::from([(ip("10.0.0.1"), 32), (ip("fd00::1"), 128)]),
        ..link(LinkKind::Bridge)
    };
    let pod = Link {
        neighbors: BTreeMap::from([(ip("10.0.0.2"), POD_HARDWARE), (ip("fd00::2"), POD_HARDWARE)]),
        ..link(LinkKind::Pod { end: Some(end()) })
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
        Change::Create { link, .. } => format!("create {link}"),
        Change::Remake { link, .. } => format!("make {link} anew"),
        Change::SetMtu { link, mtu } => format!("mtu {mtu} {link}"),
        Change::Configure { link, is_fault, .. } => format!("configure {link} {is_fault}"),
        Change::Carry { link, is_fault, .. } => format!("carry {link} {is_fault}"),
        Change::PutForward { link, hardware, remote } => {
            format!("forward {hardware} {} {link}", remote.address)
        }
        Change::DeleteForward { link, hardware } => format!("no forward {hardware} {link}"),
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
        Next::Onlink { name, gateway } => format!("{destination} via {gateway} {name}"),
        Next::Nowhere => format!("{destination} nowhere"),
        Next::Blackhole => format!("{destination} blackhole"),
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
    let via = |text: &str| Route::new("10.0.7.0/24".parse().unwrap(), Next::Gateway(ip(text)));
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

#[test]
fn a_tunnel_is_made_before_it_is_up_and_then_knows_who_is_behind_it() {
    let all = [
        "create flannel.1",
        "up flannel.1",
        "add 10.0.0.0/32 flannel.1",
        "neighbor 10.0.7.0 flannel.1",
        "forward 07:07:07:07:07:07 192.0.2.7 flannel.1",
        "route 10.0.7.0/24 via 10.0.7.0 flannel.1",
    ];
    check(&desired(), &with_tunnel(vxlan(1)), &all);
    check(&with_tunnel(vxlan(1)), &with_tunnel(vxlan(1)), &[]);
    check(&with_tunnel(vxlan(1)), &desired(), &["delete flannel.1"]);
    // Of another kind or with another number it cannot be made right.
    let anew = [&["make flannel.1 anew"], &all[1..]].concat();
    check(&with_tunnel(vxlan(2)), &with_tunnel(vxlan(1)), &anew);
    check(
        &with_tunnel(LinkKind::Ipip { local: [1, 2, 3, 4].into() }),
        &with_tunnel(vxlan(1)),
        &anew,
    );
}

#[test]
fn ways_that_are_there_are_kept_where_nobody_knows_better() {
    let mut actual = with_tunnel(vxlan(1));
    let next = Next::Gateway(ip("192.0.2.8"));
    actual.routes.insert(Route::new("10.0.8.0/24".parse().unwrap(), next));
    check(&actual, &desired().with_ways_of(&actual), &[]);
    // What else is too much goes.
    actual.links.insert("stray".into(), link(LinkKind::Pod { end: None }));
    check(&actual, &desired().with_ways_of(&actual), &["delete stray"]);
}

#[test]
fn what_a_tunnel_forgets_it_is_told_again() {
    let wanted = with_tunnel(vxlan(1));
    let check_link = |damage: fn(&mut Link), expected: &[&str]| {
        let mut actual = wanted.clone();
        damage(actual.links.get_mut("flannel.1").unwrap());
        check(&actual, &wanted, expected);
    };
    let forward = "forward 07:07:07:07:07:07 192.0.2.7 flannel.1";
    check_link(|it| it.forwards.clear(), &[forward]);
    let elsewhere = Remote { address: [192, 0, 2, 66].into(), vni: None };
    let hardware = HardwareAddress([7; 6]);
    let lie: fn(&mut Link) = |it| {
        let remote = Remote { address: [192, 0, 2, 66].into(), vni: Some(7) };
        it.forwards.insert(HardwareAddress([7; 6]), remote);
    };
    check_link(lie, &[forward]);
    check_link(|it| it.mtu = 1500, &["mtu 1450 flannel.1"]);
    check_link(|it| it.neighbors.clear(), &["neighbor 10.0.7.0 flannel.1"]);
    let mut actual = wanted.clone();
    let tunnel = actual.links.get_mut("flannel.1").unwrap();
    tunnel.forwards = [(hardware, tunnel.forwards[&hardware]), (POD_HARDWARE, elsewhere)].into();
    check(&actual, &wanted, &["no forward 02:02:02:02:02:02 flannel.1"]);
}

#[test]
fn a_peer_that_is_heard_from_another_place_is_no_fault() {
    let wanted = with_tunnel(wireguard(&[(1, "192.0.2.1:51820")]));
    let check = |actual: LinkKind, expected: &[&str]| {
        check(&with_tunnel(actual), &wanted, expected);
    };
    check(wireguard(&[(1, "192.0.2.1:51820")]), &[]);
    check(wireguard(&[(1, "192.0.2.9:51820")]), &["configure flannel.1 false"]);
    check(wireguard(&[]), &["configure flannel.1 true"]);
    check(wireguard(&[(1, "192.0.2.1:51820"), (2, "192.0.2.2:1")]), &["configure flannel.1 true"]);
}

/// Carries a change out on the model.
fn apply(state: &mut KernelState, change: Change) {
    fn named<'a>(state: &'a mut KernelState, name: &str) -> &'a mut Link {
        state.links.get_mut(name).unwrap()
    }
    match change {
        Change::Set { name, value } => drop(state.settings.insert(name, value)),
        Change::Create { link: name, kind, mtu } => {
            let is_up = kind == LinkKind::Bridge;
            assert_eq!(state.links.insert(name, Link { is_up, mtu, ..link(kind) }), None);
        }
        Change::Remake { link: name, kind, mtu } => {
            state.routes.retain(|it| it.link() != Some(&name));
            assert!(state.links.insert(name, Link { is_up: false, mtu, ..link(kind) }).is_some());
        }
        Change::Connect { link: name, end, mtu } => {
            let made = Link { mtu, ..link(LinkKind::Pod { end: Some(end) }) };
            assert_eq!(state.links.insert(name, made), None);
        }
        Change::SetMtu { link, mtu } => named(state, &link).mtu = mtu,
        Change::Configure { link, device, .. } => {
            named(state, &link).kind = LinkKind::Wireguard(device);
        }
        Change::Carry { link, tunnel, .. } => named(state, &link).kind = LinkKind::Udp(tunnel),
        Change::PutForward { link, hardware, remote } => {
            named(state, &link).forwards.insert(hardware, remote);
        }
        Change::DeleteForward { link, hardware } => {
            assert!(named(state, &link).forwards.remove(&hardware).is_some());
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
    let any_link = move |name: &'static str| {
        (any::<bool>(), addresses(), neighbors.clone(), 1u32..4).prop_map(move |it| {
            let (is_up, addresses, neighbors, n) = it;
            let kind = match name {
                "xebec0" => LinkKind::Bridge,
                "flannel.1" if n == 3 => LinkKind::Ipip { local: [192, 0, 2, 1].into() },
                "flannel.1" if n == 2 => udp(&["10.0.7.0/24"]),
                "flannel.1" => vxlan(n),
                _ => LinkKind::Pod { end: Some(end()) },
            };
            let remote = Remote { address: ip("192.0.2.7"), vni: Some(n) };
            let forwards = [(HardwareAddress([n as u8; 6]), remote)].into();
            let mtu = 1400 + n;
            (name.to_owned(), Link { is_up, mtu, addresses, neighbors, forwards, ..link(kind) })
        })
    };
    let links =
        ["xebec0", "veth1", "veth2", "flannel.1"].map(|it| proptest::option::of(any_link(it)));
    let next = prop_oneof![
        proptest::sample::select(&["veth1", "veth2"][..])
            .prop_map(|it| Next::Link { name: it.into(), source: None }),
        address().prop_map(|gateway| Next::Onlink { name: "flannel.1".into(), gateway }),
        address().prop_map(Next::Gateway),
        Just(Next::Nowhere),
    ];
    let route = (address(), next).prop_map(|(address, next)| Route::new(Cidr::host(address), next));
    let settings = proptest::collection::btree_map("[ab]", "[01]", 0..2);
    (links, proptest::collection::vec(route, 0..5), settings).prop_map(|it| {
        let (links, routes, settings) = it;
        let links: BTreeMap<_, _> = links.into_iter().flatten().collect();
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

#[test]
fn a_link_that_nobody_carries_is_carried_and_other_peers_are_no_fault() {
    let carried = |kind: LinkKind| {
        let mut state = desired();
        state.links.insert("flannel0".into(), link(kind));
        state
    };
    let check = |actual: &KernelState, desired: &KernelState, expected: &[&str]| {
        let found: Vec<_> = changes(actual, desired).iter().map(show).collect();
        assert_eq!(found, expected);
    };
    let both = carried(udp(&["10.0.7.0/24", "10.0.8.0/24"]));
    let new = ["create flannel0", "carry flannel0 true", "up flannel0"];
    check(&desired(), &both, &new);
    check(&carried(LinkKind::Udp(Tunnel::default())), &both, &["carry flannel0 true"]);
    check(&carried(udp(&["10.0.7.0/24"])), &both, &["carry flannel0 false"]);
    check(&both, &both, &[]);
    check(&both, &desired(), &["delete flannel0"]);
    // What is carried stays while nobody knows the peers.
    check(&both, &desired().with_ways_of(&both), &[]);
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
