//! What a node and its worker say to each other: one message, one answer. Pure.
//!
//! Whatever comes is bounded by the longest message of the socket; a table that is longer comes in
//! parts. A worker and a node of different versions do not speak: the node starts a worker of its
//! own.

use std::net::{Ipv4Addr, SocketAddrV4};

use serde::{Deserialize, Serialize};
use stdx::Cidr;

use crate::portals::Portal;

/// Of all that follows.
pub(crate) const VERSION: u32 = 1;
/// Ranges in one message, which has place for twice as many.
pub(crate) const WAYS_AT_ONCE: usize = 1000;

/// What a worker does: each is another's business on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    Tunnel,
    Portals,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Request {
    /// The first of every connection.
    Hello {
        version: u32,
    },
    /// From now on complaints about this part come on this connection, and nothing else.
    Listen(Part),
    /// What is carried; of the ways, those from this number on.
    Tunnel {
        from: usize,
    },
    /// With the descriptor of the link that has this index.
    TakeLink {
        index: u32,
    },
    /// With the socket that has this address.
    TakeSocket {
        local: SocketAddrV4,
    },
    /// All ways, in as many messages as it takes; they hold from the last one on.
    Ways {
        own: Cidr,
        ways: Vec<(Cidr, Ipv4Addr)>,
        place: Place,
    },
    DropTunnel,
    /// Portals that are not opened between this and `EndPortals` are closed by that.
    BeginPortals,
    OpenPortal(Portal),
    EndPortals,
    ClosePortal(String),
}

/// Of a message among those that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) is_first: bool,
    pub(crate) is_last: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Reply {
    Done,
    Tunnel {
        link: Option<u32>,
        local: Option<SocketAddrV4>,
        own: Option<Cidr>,
        ways: Vec<(Cidr, Ipv4Addr)>,
        is_last: bool,
    },
    /// Where the portal is.
    Port(u16),
    Refused(String),
    /// Unasked, to who listens.
    Complaint(String),
}

pub(crate) fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    serde_json::to_vec(message).expect("messages have nothing that JSON has not")
}

pub(crate) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(bytes)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use linux::seqpacket::MESSAGE_MAX;

    use super::*;
    use crate::portals::{ENDPOINTS_MAX, Protocol};

    #[test]
    fn the_longest_messages_fit() {
        let way = ("255.255.255.255/32".parse().unwrap(), Ipv4Addr::BROADCAST);
        let place = Place { is_first: true, is_last: false };
        let ways = Request::Ways { own: way.0, ways: vec![way; WAYS_AT_ONCE], place };
        assert!(encode(&ways).len() * 2 < MESSAGE_MAX);
        let endpoint: SocketAddr =
            "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535".parse().unwrap();
        let portal = Portal {
            id: "x".repeat(600),
            address: endpoint.ip(),
            protocol: Protocol::Udp,
            endpoints: vec![endpoint; ENDPOINTS_MAX],
            serving: vec![endpoint; ENDPOINTS_MAX],
            affinity: None,
        };
        let request = Request::OpenPortal(portal);
        let bytes = encode(&request);
        assert!(bytes.len() < MESSAGE_MAX, "{}", bytes.len());
        assert_eq!(decode::<Request>(&bytes).unwrap(), request);
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        for bytes in [&b""[..], b"{}", b"null", b"\"Nonsense\"", b"{\"Hello\":{}}", b"\xff"] {
            assert!(decode::<Request>(bytes).is_err(), "{bytes:?}");
        }
    }
}
