//! What the kernel tells unasked, on a real kernel: each test has a network namespace of its own.

#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]
#![expect(clippy::print_stderr, reason = "a skipped test says so")]

use linux::netlink::nftables::{Nftables, Table, TableFamily, TableId};
use linux::netlink::notices::{Notice, Notices};
use linux::netlink::route::{Destination, Route, RouteSocket, Scope};
use linux::network_namespace::NetworkNamespace;
use linux::sysctl;

fn namespace() -> Option<NetworkNamespace> {
    NetworkNamespace::create().map_err(|err| eprintln!("SKIPPED: {err}: {}", err.source)).ok()
}

/// The kernel tells within the call that changes: what there is to tell is there.
fn all(notices: &mut Notices) -> Vec<Notice> {
    std::iter::from_fn(|| notices.receive().unwrap()).flatten().collect()
}

#[test]
fn whoever_changes_links_addresses_routes_or_settings_it_is_told() {
    let Some(namespace) = namespace() else { return };
    let mut notices = namespace.run(|| Notices::of_links().unwrap()).unwrap();
    assert_eq!(all(&mut notices), []);
    let mut socket = RouteSocket::open_in(&namespace.path()).unwrap();
    socket.create_bridge("br0", 7, 1500).unwrap();
    let link = socket.link("br0").unwrap().unwrap();
    let told = all(&mut notices);
    let is_bridge =
        |it: &Notice| matches!(it, Notice::Link(it) if it.name == "br0" && it.group == 7);
    assert!(told.iter().any(is_bridge), "{told:?}");

    let address = "10.1.0.1".parse().unwrap();
    socket.add_address(&link, address, 32).unwrap();
    let told = all(&mut notices);
    assert!(told.contains(&Notice::Address { link: link.index }), "{told:?}");

    let route = Route {
        destination: Destination::host("10.1.0.2".parse().unwrap()),
        link: Some(link.index),
        is_blackhole: false,
        gateway: None,
        is_onlink: false,
        source: None,
        scope: Scope::Link,
        metric: 0,
        mtu: None,
        protocol: 120,
    };
    socket.put_route(&route).unwrap();
    assert_eq!(all(&mut notices), [Notice::Route(route)]);
    socket.delete_route(&route).unwrap();
    assert_eq!(all(&mut notices), [Notice::Route(route)]);
    socket.delete_address(&link, address, 32).unwrap();
    let told = all(&mut notices);
    assert!(told.contains(&Notice::Address { link: link.index }), "{told:?}");

    namespace.run(|| sysctl::write("net/ipv4/ip_forward", "1").unwrap()).unwrap();
    let told = all(&mut notices);
    assert!(told.contains(&Notice::Setting), "{told:?}");
    socket.delete_link(&link).unwrap();
    let told = all(&mut notices);
    assert!(told.iter().any(is_bridge), "{told:?}");
}

#[test]
fn a_change_of_a_table_says_whose_it_is() {
    let Some(namespace) = namespace() else { return };
    let open = || {
        let id = TableId::new(TableFamily::Ip, "mine");
        (
            Notices::of_tables().unwrap(),
            Nftables::open(id.clone()).unwrap(),
            Nftables::open(id).unwrap(),
        )
    };
    let (mut notices, mut one, mut other) = namespace.run(open).unwrap();
    assert_ne!(one.port(), other.port());
    one.converge(&Table::default()).unwrap();
    let of = |it: &Nftables| Notice::Table { name: "mine".into(), port: it.port() };
    assert_eq!(all(&mut notices), [of(&one)]);
    other.purge().unwrap();
    assert_eq!(all(&mut notices), [of(&other)]);
    assert_eq!(one.tables().unwrap(), []);
}

#[test]
fn more_than_the_queue_holds_is_told_as_that() {
    let Some(namespace) = namespace() else { return };
    let mut notices = namespace.run(|| Notices::of_links().unwrap()).unwrap();
    let mut socket = RouteSocket::open_in(&namespace.path()).unwrap();
    socket.create_bridge("br0", 0, 1500).unwrap();
    let link = socket.link("br0").unwrap().unwrap();
    let address = "10.1.0.1".parse().unwrap();
    for _ in 0..20_000 {
        socket.add_address(&link, address, 32).unwrap();
        socket.delete_address(&link, address, 32).unwrap();
    }
    assert!(all(&mut notices).contains(&Notice::Missed));
}
