//! Tunnels on a real kernel: each test has a network namespace of its own. Kinds that this kernel
//! lacks are skipped, and said.

#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]
#![expect(clippy::print_stderr, reason = "a skipped test says so")]

use std::collections::BTreeMap;

use linux::netlink::ethtool::Ethtool;
use linux::netlink::notices::{Notice, Notices};
use linux::netlink::route::{
    Forward, HardwareAddress, LinkChange, NewTunnel, RouteSocket, TunnelKind, Vxlan,
};
use linux::netlink::wireguard::{Device, Key, Peer, PrivateKey, Wireguard};
use linux::network_namespace::NetworkNamespace;
use rustix::io::Errno;

const MAC: HardwareAddress = HardwareAddress([2, 0, 0, 0, 0, 7]);

fn namespace() -> Option<(NetworkNamespace, RouteSocket)> {
    let namespace = match NetworkNamespace::create() {
        Ok(namespace) => namespace,
        Err(err) => {
            eprintln!("SKIPPED: {err}: {}", err.source);
            return None;
        }
    };
    let socket = RouteSocket::open_in(&namespace.path()).unwrap();
    Some((namespace, socket))
}

/// `false`: this kernel has no such links.
fn create(socket: &mut RouteSocket, kind: TunnelKind, address: Option<HardwareAddress>) -> bool {
    let tunnel = NewTunnel { name: "t0", group: 7, mtu: Some(1400), address, kind };
    match socket.create_tunnel(&tunnel) {
        Err(err) if err.is(Errno::OPNOTSUPP) => {
            eprintln!("SKIPPED: {err}: {}", err.source);
            false
        }
        result => {
            result.unwrap();
            let again = socket.create_tunnel(&tunnel).unwrap_err();
            assert!(again.is(Errno::EXIST), "{again}");
            true
        }
    }
}

fn vxlan(local: &str) -> TunnelKind {
    let local = local.parse().unwrap();
    TunnelKind::Vxlan(Vxlan { vni: 5, port: 8472, local, is_learning: false })
}

#[test]
fn a_tunnel_is_read_as_it_was_made() {
    let kinds = [
        vxlan("192.0.2.1"),
        vxlan("2001:db8::1"),
        TunnelKind::Ipip { local: [192, 0, 2, 1].into() },
        TunnelKind::Wireguard,
        TunnelKind::Dummy,
    ];
    for kind in kinds {
        let Some((_namespace, mut socket)) = namespace() else { return };
        let address = matches!(kind, TunnelKind::Vxlan(_)).then_some(MAC);
        if !create(&mut socket, kind, address) {
            continue;
        }
        let link = socket.link("t0").unwrap().unwrap();
        assert_eq!((link.tunnel, link.kind.as_deref()), (Some(kind), Some(kind.name())));
        assert_eq!((link.group, link.mtu, link.is_up), (7, 1400, false));
        if address.is_some() {
            assert_eq!(link.address, address);
        }
        socket.delete_link(&link).unwrap();
        assert_eq!(socket.link("t0").unwrap(), None);
    }
}

#[test]
fn forwarding_entries_come_change_and_go_and_are_told_of() {
    let Some((namespace, mut socket)) = namespace() else { return };
    let mut notices = namespace.run(|| Notices::of_links().unwrap()).unwrap();
    if !create(&mut socket, vxlan("192.0.2.1"), Some(MAC)) {
        return;
    }
    let link = socket.link("t0").unwrap().unwrap();
    let up = LinkChange { is_up: Some(true), ..LinkChange::default() };
    socket.change_link(&link, up).unwrap();
    while notices.receive().unwrap().is_some() {}
    let of_link = |socket: &mut RouteSocket| -> Vec<Forward> {
        let all = socket.forwards().unwrap().into_iter();
        all.filter(|(index, _)| *index == link.index).map(|(_, it)| it).collect()
    };
    let hardware_address = HardwareAddress([2, 0, 0, 0, 0, 9]);
    let forward = Forward { hardware_address, remote: "192.0.2.9".parse().unwrap(), vni: None };
    for _ in 0..2 {
        socket.put_forward(&link, &forward).unwrap();
    }
    assert_eq!(of_link(&mut socket), [forward]);
    let told: Vec<_> = std::iter::from_fn(|| notices.receive().unwrap()).flatten().collect();
    assert!(told.contains(&Notice::Neighbor { link: link.index }), "{told:?}");
    let moved = Forward { remote: "192.0.2.10".parse().unwrap(), vni: Some(77), ..forward };
    socket.put_forward(&link, &moved).unwrap();
    assert_eq!(of_link(&mut socket), [moved]);
    for _ in 0..2 {
        socket.delete_forward(&link, hardware_address).unwrap();
    }
    assert_eq!(of_link(&mut socket), []);
}

#[test]
fn a_wireguard_link_has_the_peers_that_it_should_have_however_many() {
    let Some((namespace, mut socket)) = namespace() else { return };
    if !create(&mut socket, TunnelKind::Wireguard, None) {
        return;
    }
    let mut wireguard = Wireguard::open_in(&namespace.path()).unwrap().unwrap();
    assert_eq!(wireguard.observe("t0").unwrap().peers, BTreeMap::new());
    let peer = |n: u16| {
        let [a, b] = n.to_be_bytes();
        let mut key = [7; 32];
        key[..2].copy_from_slice(&[a, b]);
        let endpoint = Some(format!("192.0.2.1:{}", 1000 + n).parse().unwrap());
        let ranges = [format!("10.{a}.{b}.0/24"), format!("fd00:{n:x}::/64")];
        let allowed = ranges.iter().map(|it| it.parse().unwrap()).collect();
        (Key(key), Peer { endpoint, allowed })
    };
    let private_key = Some(PrivateKey::clamped([9; 32]));
    let mut device = Device { private_key, listen_port: 51820, peers: BTreeMap::new() };
    device.peers = (0..1000).map(peer).collect();
    wireguard.converge("t0", &device).unwrap();
    assert_eq!(wireguard.observe("t0").unwrap(), device);
    device.peers.retain(|key, _| key.0[1] % 2 == 0);
    device.listen_port = 51821;
    wireguard.converge("t0", &device).unwrap();
    assert_eq!(wireguard.observe("t0").unwrap(), device);
}

#[test]
fn a_link_leaves_checksums_to_others_or_not() {
    let Some((namespace, mut socket)) = namespace() else { return };
    if !create(&mut socket, vxlan("192.0.2.1"), Some(MAC)) {
        return;
    }
    let Some(mut ethtool) = Ethtool::open_in(&namespace.path()).unwrap() else {
        return eprintln!("SKIPPED: this kernel has no ethtool");
    };
    assert!(ethtool.leaves_checksums("t0").unwrap());
    for leaves in [false, false, true] {
        ethtool.leave_checksums("t0", leaves).unwrap();
        assert_eq!(ethtool.leaves_checksums("t0").unwrap(), leaves);
    }
    assert!(ethtool.leaves_checksums("none").unwrap_err().is(Errno::NODEV));
}
