//! Sets of ipset, whose members rules of iptables ask for: which there are, and removing them.

use rustix::io::Errno;

use super::{Attribute, Error, Family, Message, Reply, Socket};

const SUBSYSTEM: u16 = 6;
const DESTROY: u16 = 3;
const LIST: u16 = 7;

/// Length of `struct nfgenmsg`.
const FIXED: usize = 4;
const AF_INET: u8 = 2;
/// What every kernel speaks that has any.
const PROTOCOL_VERSION: u8 = 6;

const PROTOCOL: u16 = 1;
const NAME: u16 = 2;
const FLAGS: u16 = 6;
/// Without what is in them.
const NAMES_ALONE: u32 = 1 << 1;

/// Speaks of the sets of one network namespace.
#[derive(Debug)]
pub struct IpSets {
    socket: Socket,
}

impl IpSets {
    /// In the network namespace of the calling thread.
    pub fn open() -> Result<Self, Error> {
        Ok(Self { socket: Socket::open(Family::Netfilter)? })
    }

    /// None, if this kernel has no sets.
    pub fn names(&mut self) -> Result<Vec<String>, Error> {
        let ask = message("list ipsets".to_owned(), LIST).with(|it| {
            it.u32_be(FLAGS, NAMES_ALONE);
        });
        match self.socket.dump(&ask) {
            Ok(replies) => Ok(replies.iter().filter_map(read_name).collect()),
            Err(err) if err.is(Errno::INVAL) || err.is(Errno::OPNOTSUPP) => Ok(Vec::new()),
            Err(err) => Err(err),
        }
    }

    /// Refused (`EBUSY`) while a rule asks for it.
    pub fn destroy(&mut self, name: &str) -> Result<(), Error> {
        let destroy = message(format!("destroy ipset {name}"), DESTROY).with(|it| {
            it.string(NAME, name);
        });
        match self.socket.request(&destroy) {
            Err(err) if err.is(Errno::NOENT) => Ok(()),
            result => result,
        }
    }
}

fn message(doing: String, command: u16) -> Message {
    Message::new(doing, SUBSYSTEM << 8 | command, 0, &[AF_INET, 0, 0, 0]).with(|it| {
        it.u8(PROTOCOL, PROTOCOL_VERSION);
    })
}

fn read_name(reply: &Reply) -> Option<String> {
    let name = reply.attributes(FIXED).find_kind(NAME).and_then(Attribute::string)?;
    Some(name.to_owned())
}

pub(super) fn read_any(reply: &Reply) {
    let _ = read_name(reply);
}
