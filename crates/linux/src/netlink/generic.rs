//! Generic netlink: what registers with the kernel by a name and is spoken to by a number.

use std::path::Path;

use rustix::io::Errno;

use super::{Attribute, Error, Family, Message, Reply, Socket};

/// Of the one who knows the numbers of all others.
const CONTROLLER: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

/// Length of `struct genlmsghdr`: command, version, two bytes of nothing.
pub(super) const FIXED: usize = 4;

/// A socket that speaks to one of them.
#[derive(Debug)]
pub struct GenericSocket {
    socket: Socket,
    id: u16,
    version: u8,
}

impl GenericSocket {
    /// In the network namespace that the file names. `None`: the kernel has nothing of this name,
    /// or not yet: what comes with a kind of links may come with the first of them.
    pub fn open_in(namespace: &Path, name: &str, version: u8) -> Result<Option<Self>, Error> {
        let mut socket = Socket::open_in(Family::Generic, namespace)?;
        let doing = format!("ask the kernel for {name}");
        let ask = Message::new(doing, CONTROLLER, 0, &[GET_FAMILY, 1, 0, 0]).with(|it| {
            it.string(FAMILY_NAME, name);
        });
        let id = match socket.ask(&ask) {
            Ok(reply) => reply.as_ref().and_then(read_id),
            Err(err) if err.is(Errno::NOENT) => None,
            Err(err) => return Err(err),
        };
        Ok(id.map(|id| Self { socket, id, version }))
    }

    pub fn message(&self, doing: String, command: u8) -> Message {
        Message::new(doing, self.id, 0, &[command, self.version, 0, 0])
    }

    pub fn request(&mut self, message: &Message) -> Result<(), Error> {
        self.socket.request(message)
    }

    pub fn ask(&mut self, message: &Message) -> Result<Option<Reply>, Error> {
        self.socket.ask(message)
    }

    pub fn dump(&mut self, message: &Message) -> Result<Vec<Reply>, Error> {
        self.socket.dump(message)
    }
}

fn read_id(reply: &Reply) -> Option<u16> {
    reply.attributes(FIXED).find_kind(FAMILY_ID).and_then(Attribute::u16)
}

pub(super) fn read_any(reply: &Reply) {
    let _ = read_id(reply);
}
