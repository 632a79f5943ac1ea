//! What is written is what the kernel tells.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::peer::{Change, changes};
use super::*;
use crate::netlink::Attributes;

fn peer(endpoint: &str, allowed: &[&str]) -> Peer {
    let allowed: BTreeSet<_> = allowed.iter().map(|it| it.parse().unwrap()).collect();
    Peer { endpoint: Some(endpoint.parse::<SocketAddr>().unwrap()), allowed }
}

/// The payload of a message of one or more peers.
fn reply(port: u16, changes: &[Change<'_>]) -> Reply {
    let attributes = Attributes::of(|it| {
        it.u16(DEVICE_LISTEN_PORT, port).bytes(DEVICE_PRIVATE_KEY, &[9; 32]);
        it.nest(DEVICE_PEERS, |it| changes.iter().for_each(|change| change.write(it)));
    });
    let payload = [&[GET_DEVICE, VERSION, 0, 0], attributes.as_bytes()].concat();
    Reply { kind: 30, payload }
}

#[test]
fn a_link_is_read_as_it_is_written_also_in_pieces() {
    let (a, b) = (Key([1; 32]), Key([2; 32]));
    let first = peer("192.0.2.1:51820", &["10.244.1.0/24"]);
    let second = peer("[2001:db8::1]:51820", &["10.244.2.0/24", "fd00:10:244:2::/64"]);
    let mut device = Device::default();
    let half = Peer { allowed: ["10.244.2.0/24".parse().unwrap()].into(), ..second.clone() };
    read(&reply(51820, &[Change::Put(&a, &first), Change::Put(&b, &half)]), &mut device);
    let rest = Peer { endpoint: None, ..second.clone() };
    read(&reply(51820, &[Change::Put(&b, &rest)]), &mut device);
    assert_eq!(device.listen_port, 51820);
    assert_eq!(device.private_key.as_ref().map(|it| *it.as_bytes()), Some([9; 32]));
    assert_eq!(device.peers, BTreeMap::from([(a, first), (b, second)]));
    assert_eq!(format!("{:?}", device.private_key), "Some(PrivateKey(..))");
}

#[test]
fn only_what_differs_is_written_and_those_that_go_come_first() {
    let (a, b, c) = (Key([1; 32]), Key([2; 32]), Key([3; 32]));
    let stays = peer("192.0.2.1:51820", &["10.244.1.0/24"]);
    let moves = peer("192.0.2.2:51820", &["10.244.2.0/24"]);
    let moved = peer("192.0.2.22:51820", &["10.244.2.0/24"]);
    let actual = [(a, stays.clone()), (b, moves), (c, stays.clone())].into();
    let desired = [(a, stays), (b, moved.clone())].into();
    assert_eq!(changes(&actual, &desired), [Change::Remove(&c), Change::Put(&b, &moved)]);
    assert_eq!(changes(&desired, &desired), []);
}

#[test]
fn a_private_key_is_kept_as_the_kernel_keeps_it() {
    let key = PrivateKey::clamped([0xff; 32]);
    assert_eq!((key.as_bytes()[0], key.as_bytes()[31]), (0xf8, 0x7f));
}
