//! Connections to ports of the pod's loopback, made here and handed to the client: to 127.0.0.1, and
//! where nobody listens there to ::1, as programs may listen on either.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::poll::{Source, Token};
use super::requests::Answer;
use super::serve::Holder;
use crate::protocol::{Refusal, Reply};

/// One in the making.
pub(super) struct Connecting {
    pub(super) socket: OwnedFd,
    pub(super) source: Token,
    /// Of the request.
    id: u64,
    address: SocketAddr,
}

enum Outcome {
    Connected(OwnedFd),
    /// The answer comes later.
    Begun,
    Failed(Errno),
}

impl Holder {
    pub(super) fn connect(&mut self, (connection, id): (Token, u64), port: u16) -> Answer {
        let first = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
        match self.begin((connection, id), first)? {
            Outcome::Connected(socket) => Ok(Some((Reply::Done, vec![socket]))),
            Outcome::Begun => Ok(None),
            Outcome::Failed(err) => self.connect_next((connection, id), first, err),
        }
    }

    /// After the failure of the first, the second; after that, its failure.
    fn connect_next(&mut self, starter: (Token, u64), failed: SocketAddr, err: Errno) -> Answer {
        let refusal = |err: Errno| {
            let port = failed.port();
            let err = std::io::Error::from(err);
            Refusal::Kernel(format!("connecting to localhost:{port}: {err}"))
        };
        if failed.is_ipv6() {
            return Err(refusal(err));
        }
        let next = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), failed.port());
        match self.begin(starter, next)? {
            Outcome::Connected(socket) => Ok(Some((Reply::Done, vec![socket]))),
            Outcome::Begun => Ok(None),
            // A pod without IPv6 has nothing to say of it.
            Outcome::Failed(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL) => Err(refusal(err)),
            Outcome::Failed(err) => Err(refusal(err)),
        }
    }

    fn begin(
        &mut self,
        (connection, id): (Token, u64),
        address: SocketAddr,
    ) -> Result<Outcome, Refusal> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = match rustix::net::socket_with(family, SocketType::STREAM, flags, None) {
            Ok(socket) => socket,
            Err(err) => return Ok(Outcome::Failed(err)),
        };
        match rustix::net::connect(&socket, &address) {
            Ok(()) => return Ok(Outcome::Connected(socket)),
            Err(Errno::INPROGRESS) => {}
            Err(err) => return Ok(Outcome::Failed(err)),
        }
        let source = self
            .poll
            .add_for(&socket, Source::Connecting { connection }, EventFlags::OUT)
            .map_err(|err| Refusal::Kernel(format!("watching a connection: {err}")))?;
        self.connecting.insert(connection, Connecting { socket, source, id, address });
        Ok(Outcome::Begun)
    }

    /// The connection is made, or has failed.
    pub(super) fn connected(&mut self, connection: Token) {
        let Some(made) = self.connecting.remove(&connection) else { return };
        let Connecting { socket, source, id, address } = made;
        self.poll.remove(source, &socket);
        let err = match rustix::net::sockopt::socket_error(&socket) {
            Ok(Ok(())) => return self.reply_with(connection, id, Reply::Done, vec![socket]),
            Ok(Err(err)) | Err(err) => err,
        };
        match self.connect_next((connection, id), address, err) {
            Ok(Some((reply, descriptors))) => self.reply_with(connection, id, reply, descriptors),
            Ok(None) => {}
            Err(refusal) => self.reply(connection, id, Reply::Refused(refusal)),
        }
    }
}
