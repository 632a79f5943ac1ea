//! One client of the holder: requests in, replies and events out, never blocking.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use linux::seqpacket;

use crate::protocol::{self, Message};

/// Messages that wait because the client does not read. One that reaches it is disconnected; it
/// comes back and asks for the state.
const QUEUE_MAX: usize = 256;

pub(super) struct Connection {
    socket: seqpacket::Connection,
    queue: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
    /// Has said hello: is told what happens to containers.
    pub(super) wants_events: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sent {
    All,
    /// Call [`Connection::flush`] when it can be written to.
    Waiting,
    /// It is gone, or too slow.
    Broken,
}

impl Connection {
    pub(super) fn new(socket: seqpacket::Connection) -> Self {
        Self { socket, queue: VecDeque::new(), wants_events: false }
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(super) fn send(&mut self, message: &Message, descriptors: Vec<OwnedFd>) -> Sent {
        let Ok(packet) = protocol::encode_message(message) else { return Sent::Broken };
        if self.queue.len() >= QUEUE_MAX {
            return Sent::Broken;
        }
        self.queue.push_back((packet, descriptors));
        self.flush()
    }

    pub(super) fn flush(&mut self) -> Sent {
        while let Some((packet, descriptors)) = self.queue.front() {
            let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
            match self.socket.send(packet, &borrowed) {
                Ok(()) => drop(self.queue.pop_front()),
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => return Sent::Waiting,
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Sent::Broken,
            }
        }
        self.queue = VecDeque::new();
        Sent::All
    }

    /// `Ok(None)`: nothing is there now. The end of the connection is an error too.
    pub(super) fn receive(&self) -> io::Result<Option<seqpacket::Message>> {
        match self.socket.receive() {
            Ok(Some(packet)) => Ok(Some(packet)),
            Ok(None) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(err) if err.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(err) => Err(err),
        }
    }
}
