//! What any bytes do to those who read BGP: each function takes some, and panics if a reader does or
//! breaks its law. The fuzz targets call them, and the test suite does with random bytes.

use std::net::Ipv4Addr;
use std::time::Duration;

use stdx::Family;

use crate::message::{LENGTH_MAX, Message};
use crate::{Action, Config, ConnectionId, Input, Peer};

/// One message: what is understood says the same when it is written and read again.
pub fn message(bytes: &[u8]) {
    let Ok(message) = Message::decode(bytes) else { return };
    let Some(written) = message.encode() else { return };
    assert!(written.len() <= LENGTH_MAX);
    let again = Message::decode(&written);
    if matches!(&message, Message::Open(_) | Message::Keepalive | Message::Notification(_)) {
        assert_eq!(again.as_ref(), Ok(&message));
    }
    assert!(again.is_ok(), "{message:?}");
}

/// All that a peer sends, cut into parts by the first byte: there is an end to what is sent back, and
/// never more routes than it may have.
pub fn session(bytes: &[u8]) {
    let Some((size, rest)) = bytes.split_first() else { return };
    let config = Config {
        own_as: 64_512,
        identifier: Ipv4Addr::new(192, 0, 2, 1),
        peer_as: 64_512,
        families: vec![Family::V4, Family::V6],
        hold_time: Duration::from_secs(90),
        is_dialing: false,
        restart_time: Duration::from_secs(120),
        has_restarted: false,
        routes_max: 10,
        takes_own_as: false,
    };
    let mut peer = Peer::new(config, Duration::ZERO);
    let id = ConnectionId(1);
    let mut actions = peer.step(Duration::ZERO, Input::Accepted(id));
    for (n, part) in (0u64..).zip(rest.chunks(usize::from(*size).max(1))) {
        let now = Duration::from_millis(n);
        actions.extend(peer.step(now, Input::Received(id, part)));
        assert!(peer.learned().len() <= 11);
        if actions.contains(&Action::Close(id)) {
            return;
        }
    }
    assert!(actions.len() <= 8 + 4 * rest.len(), "{}", actions.len());
}
