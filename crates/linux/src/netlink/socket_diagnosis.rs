//! Connected UDP sockets, whoever's they are, and ending them (sock_diag(7)).
//!
//! Who waits at a socket that is ended gets `ECONNABORTED`, and the socket is connected to nobody:
//! who sends without an address gets `EDESTADDRREQ`.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::Path;

use rustix::io::Errno;

use super::attributes::array;
use super::{Error, Family, Message, Reply, Socket};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const SOCK_DESTROY: u16 = 21;
const UDP: u8 = 17;
/// `1 << TCP_ESTABLISHED`, which UDP uses, too.
const CONNECTED: u32 = 1 << 1;
const EVERY_STATE: u32 = u32::MAX;
/// Where `struct inet_diag_sockid` is in `struct inet_diag_msg`, and its length.
const ID_OFFSET: usize = 4;
const ID_LENGTH: usize = 48;

/// A connected UDP socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpSocket {
    /// A number that no other socket of this machine has or had.
    pub cookie: u64,
    /// Of IPv4 also where the socket is of IPv6.
    pub peer: SocketAddr,
    family: u8,
    /// `struct inet_diag_sockid`.
    id: [u8; ID_LENGTH],
}

/// The sockets of one network namespace.
#[derive(Debug)]
pub struct SocketDiagnosis {
    socket: Socket,
}

impl SocketDiagnosis {
    /// In the network namespace of the calling thread.
    pub fn open() -> Result<Self, Error> {
        Ok(Self { socket: Socket::open(Family::Diagnosis)? })
    }

    /// In the network namespace that this file names, such as `/proc/4711/ns/net`.
    pub fn open_in(namespace: &Path) -> Result<Self, Error> {
        Ok(Self { socket: Socket::open_in(Family::Diagnosis, namespace)? })
    }

    /// Of both families.
    pub fn connected_udp(&mut self) -> Result<Vec<UdpSocket>, Error> {
        let mut found = Vec::new();
        for family in [2, 10] {
            let fixed = request(family, CONNECTED, &[0; ID_LENGTH]);
            let message = Message::new("list UDP sockets", SOCK_DIAG_BY_FAMILY, 0, &fixed);
            found.extend(self.socket.dump(&message)?.iter().filter_map(read));
        }
        Ok(found)
    }

    /// Whether it was still there. A kernel that cannot answers `EOPNOTSUPP`
    /// (`CONFIG_INET_DIAG_DESTROY`).
    pub fn destroy(&mut self, socket: &UdpSocket) -> Result<bool, Error> {
        let fixed = request(socket.family, EVERY_STATE, &socket.id);
        let doing = format!("end a UDP socket that is connected to {}", socket.peer);
        match self.socket.request(&Message::new(doing, SOCK_DESTROY, 0, &fixed)) {
            Ok(()) => Ok(true),
            Err(err) if err.is(Errno::NOENT) || err.is(Errno::STALE) => Ok(false),
            Err(err) => Err(err),
        }
    }
}

/// `struct inet_diag_req_v2`.
fn request(family: u8, states: u32, id: &[u8; ID_LENGTH]) -> Vec<u8> {
    let mut fixed = vec![family, UDP, 0, 0];
    fixed.extend(states.to_ne_bytes());
    fixed.extend(id);
    fixed
}

/// `struct inet_diag_msg`: family, state, timer, retransmissions, then ports, addresses, interface
/// and cookie.
pub(super) fn read(reply: &Reply) -> Option<UdpSocket> {
    let family = *reply.payload.first()?;
    let id = *reply.payload.get(ID_OFFSET..)?.first_chunk::<ID_LENGTH>()?;
    let port = u16::from_be_bytes(array(&id[2..])?);
    let address = match family {
        2 => IpAddr::from(array::<4>(&id[20..])?),
        10 => Ipv6Addr::from(array::<16>(&id[20..])?).to_canonical(),
        _ => return None,
    };
    let cookie = u64::from_ne_bytes(array(&id[40..])?);
    Some(UdpSocket { cookie, peer: SocketAddr::new(address, port), family, id })
}
