//! The node's end: finds its worker or starts one, and says what is to be carried. Blocks, but never
//! for long; not for a task that has other things to do.

mod listening;
mod start;

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use linux::seqpacket::Connection;
use rustix::net::sockopt::{self, Timeout};

use crate::Place;
use crate::portals::Portal;
use crate::protocol::{self, Reply, Request, VERSION, WAYS_AT_ONCE, decode, encode};
use crate::tunnel::Tunnel;

pub use listening::Listening;
pub use start::purge;

/// A worker answers in microseconds; one that does not is stopped, or its machine is.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("prepare the directory of the worker")]
    Prepare(#[source] io::Error),
    #[error("find the process of the worker")]
    Find(#[source] io::Error),
    #[error("start {program} as worker")]
    Start { program: String, source: io::Error },
    #[error("speak with the worker")]
    Speak(#[source] io::Error),
    #[error("the worker does not answer")]
    Silent,
    #[error("the worker has ended")]
    Ended,
    #[error("the worker answered something else")]
    Nonsense,
    #[error("the worker refuses: {0}")]
    Refused(String),
    #[error("remove the worker")]
    Remove(#[source] io::Error),
}

/// A connection to the worker.
#[derive(Debug)]
pub struct Worker(Connection);

impl Worker {
    /// `None`: there is none, or one of another version.
    pub fn find(place: &Place) -> Result<Option<Self>, Error> {
        let connection = match Connection::connect_now(&place.socket()) {
            Ok(connection) => connection,
            Err(err) if err.kind() == io::ErrorKind::WouldBlock => return Err(Error::Silent),
            Err(err) if is_nobody(&err) => return Ok(None),
            Err(err) => return Err(Error::Speak(err)),
        };
        let prepare = || {
            rustix::io::ioctl_fionbio(&connection, false)?;
            sockopt::set_socket_timeout(&connection, Timeout::Recv, Some(PATIENCE))?;
            sockopt::set_socket_timeout(&connection, Timeout::Send, Some(PATIENCE))
        };
        prepare().map_err(|err| Error::Speak(err.into()))?;
        let mut worker = Self(connection);
        match worker.ask(&Request::Hello { version: VERSION }) {
            Ok(Reply::Done) => Ok(Some(worker)),
            Ok(_) | Err(Error::Refused(_) | Error::Ended) => Ok(None),
            Err(err) => Err(err),
        }
    }

    /// One that is there, or a new one, in the network namespace of the calling thread. One of
    /// another version ends, and with it what it carried.
    pub fn find_or_start(place: &Place) -> Result<Self, Error> {
        start::find_or_start(place)
    }

    /// The index of the link whose end it has, and what it carries.
    pub fn tunnel(&mut self) -> Result<(Option<u32>, Tunnel), Error> {
        let mut tunnel = Tunnel::default();
        loop {
            let answer = self.ask(&Request::Tunnel { from: tunnel.ways.len() })?;
            let Reply::Tunnel { link, local, own, ways, is_last } = answer else {
                return Err(Error::Nonsense);
            };
            let is_more = !ways.is_empty();
            tunnel.ways.extend(ways);
            if is_last || !is_more {
                return Ok((link, Tunnel { local, own, ..tunnel }));
            }
        }
    }

    /// Gives it the end of the link with this index.
    pub fn give_link(&mut self, index: u32, end: impl AsFd) -> Result<(), Error> {
        self.give(&Request::TakeLink { index }, end.as_fd())
    }

    /// Gives it the socket with this address.
    pub fn give_socket(&mut self, local: SocketAddrV4, socket: impl AsFd) -> Result<(), Error> {
        self.give(&Request::TakeSocket { local }, socket.as_fd())
    }

    pub fn set_ways(&mut self, tunnel: &Tunnel) -> Result<(), Error> {
        let Some(own) = tunnel.own else { return self.drop_tunnel() };
        let ways: Vec<_> = tunnel.ways.iter().map(|(range, peer)| (*range, *peer)).collect();
        let count = ways.len().div_ceil(WAYS_AT_ONCE).max(1);
        for n in 0..count {
            let ways = ways.iter().skip(n * WAYS_AT_ONCE).take(WAYS_AT_ONCE).copied().collect();
            let place = protocol::Place { is_first: n == 0, is_last: n + 1 == count };
            self.demand(&Request::Ways { own, ways, place })?;
        }
        Ok(())
    }

    /// Nothing is carried to other nodes any more.
    pub fn drop_tunnel(&mut self) -> Result<(), Error> {
        self.demand(&Request::DropTunnel)
    }

    /// From here to [`Self::end_portals`] all are opened that should be.
    pub fn begin_portals(&mut self) -> Result<(), Error> {
        self.demand(&Request::BeginPortals)
    }

    /// Says at which port it is. Refused if there are too many.
    pub fn open_portal(&mut self, portal: &Portal) -> Result<u16, Error> {
        match self.ask(&Request::OpenPortal(portal.clone()))? {
            Reply::Port(port) => Ok(port),
            _ => Err(Error::Nonsense),
        }
    }

    pub fn end_portals(&mut self) -> Result<(), Error> {
        self.demand(&Request::EndPortals)
    }

    pub fn close_portal(&mut self, id: &str) -> Result<(), Error> {
        self.demand(&Request::ClosePortal(id.to_owned()))
    }

    fn give(&mut self, request: &Request, descriptor: BorrowedFd<'_>) -> Result<(), Error> {
        self.say(request, &[descriptor])?;
        self.hear().and_then(expect_done)
    }

    fn demand(&mut self, request: &Request) -> Result<(), Error> {
        self.ask(request).and_then(expect_done)
    }

    fn ask(&mut self, request: &Request) -> Result<Reply, Error> {
        self.say(request, &[])?;
        self.hear()
    }

    fn say(&mut self, request: &Request, descriptors: &[BorrowedFd<'_>]) -> Result<(), Error> {
        self.0.send(&encode(request), descriptors).map_err(speaking)
    }

    fn hear(&mut self) -> Result<Reply, Error> {
        let message = self.0.receive().map_err(speaking)?.ok_or(Error::Ended)?;
        match decode(&message.bytes) {
            Ok(Reply::Refused(why)) => Err(Error::Refused(why)),
            Ok(reply) => Ok(reply),
            Err(_) => Err(Error::Nonsense),
        }
    }
}

fn expect_done(reply: Reply) -> Result<(), Error> {
    match reply {
        Reply::Done => Ok(()),
        _ => Err(Error::Nonsense),
    }
}

fn is_nobody(err: &io::Error) -> bool {
    matches!(err.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

fn speaking(err: io::Error) -> Error {
    match err.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Error::Silent,
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Error::Ended,
        _ => Error::Speak(err),
    }
}
