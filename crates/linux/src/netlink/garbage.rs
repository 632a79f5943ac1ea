//! What any bytes do to those who read the kernel's dumps. The fuzz targets call it, and the test
//! suite does with random bytes.

use super::message::{Acknowledgment, split};
use super::{
    Reply, conntrack, ethtool, generic, ip_sets, nftables, notices, route, socket_diagnosis,
    wireguard,
};

/// A datagram of a dump of any family: messages, and in them whatever a reader looks for.
pub fn dump(bytes: &[u8]) {
    for received in split(bytes) {
        let _ = Acknowledgment::read(received);
        notices::read_any(received);
        let reply = Reply { kind: received.kind, payload: received.payload.to_vec() };
        route::read_any(&reply);
        conntrack::read_any(&reply);
        nftables::read_any(&reply);
        ethtool::read_any(&reply);
        generic::read_any(&reply);
        ip_sets::read_any(&reply);
        wireguard::read_any(&reply);
        let _ = socket_diagnosis::read(&reply);
    }
}
