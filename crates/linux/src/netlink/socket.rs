//! A netlink socket: ask, and wait for the kernel's answer.
//!
//! A socket stays in the network namespace in which it was opened, whichever thread uses it. One
//! question at a time: every call sends, then reads all of the answer.

use std::ffi::{c_int, c_uint, c_void};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::{GENERIC, INET_DIAG, NETFILTER, SocketAddrNetlink};
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, getsockname,
    recvfrom, sendto, socket_with,
};

use super::message::{Acknowledgment, Received, flags, split};
use super::{Error, Message, Reply};
use crate::network_namespace;

/// The kernel never makes an answer longer than 32 KiB in one piece unless a single object is.
const RECEIVE_BUFFER: usize = 64 << 10;
/// Room in the kernel for refusals of many messages of one batch.
const RECEIVE_QUEUE: usize = 1 << 20;
/// Bound of what one call sends.
const SEND_MAX: usize = 64 << 20;
/// Bound of what one dump holds in memory.
const DUMP_MAX: usize = 256 << 20;
/// A dump during which something changed is repeated, this often.
const DUMP_ATTEMPTS: usize = 16;
/// The kernel answers in microseconds; this only keeps a broken one from hanging us.
const PATIENCE: Duration = Duration::from_secs(30);

const SOL_NETLINK: c_int = 270;
const NETLINK_ADD_MEMBERSHIP: c_int = 1;
const NETLINK_CAP_ACK: c_int = 10;
const NETLINK_EXT_ACK: c_int = 11;

const NLMSG_NOOP: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;

const NFNL_MSG_BATCH_BEGIN: u16 = 16;
const NFNL_MSG_BATCH_END: u16 = 17;
const NFNL_SUBSYS_NFTABLES: u16 = 10;
const NFNL_BATCH_GENID: u16 = 1;

unsafe extern "C" {
    /// rustix knows no netlink options; the C library that the standard library links does.
    fn setsockopt(
        socket: c_int,
        level: c_int,
        name: c_int,
        value: *const c_void,
        length: c_uint,
    ) -> c_int;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Links, addresses, routes.
    Route,
    /// nftables, conntrack.
    Netfilter,
    /// Whatever has registered by name: WireGuard.
    Generic,
    /// Sockets.
    Diagnosis,
}

#[derive(Debug)]
pub struct Socket {
    descriptor: OwnedFd,
    /// By which the kernel knows the socket.
    port: u32,
    sequence: u32,
    buffer: Vec<u8>,
}

/// The kernel's answer to one message, as far as it was read.
enum Answer {
    Reply(Reply),
    Acknowledged,
    /// The end of a dump.
    Done,
}

impl Socket {
    /// In the network namespace of the calling thread.
    pub fn open(family: Family) -> Result<Self, Error> {
        Self::try_open(family)
            .map_err(|errno| Error::new(format!("open a netlink socket ({family:?})"), errno))
    }

    fn try_open(family: Family) -> Result<Self, io::Error> {
        let protocol: Option<Protocol> = match family {
            // NETLINK_ROUTE is zero, which is how no protocol is said.
            Family::Route => None,
            Family::Netfilter => Some(NETFILTER),
            Family::Generic => Some(GENERIC),
            Family::Diagnosis => Some(INET_DIAG),
        };
        let (domain, kind) = (AddressFamily::NETLINK, SocketType::RAW);
        let descriptor = socket_with(domain, kind, SocketFlags::CLOEXEC, protocol)?;
        sockopt::set_socket_timeout(&descriptor, Timeout::Recv, Some(PATIENCE))?;
        // Forcing needs a privilege in the first user namespace; without it a smaller queue must
        // do.
        if sockopt::set_socket_recv_buffer_size_force(&descriptor, RECEIVE_QUEUE).is_err() {
            sockopt::set_socket_recv_buffer_size(&descriptor, RECEIVE_QUEUE)?;
        }
        set_option(&descriptor, NETLINK_EXT_ACK, 1)?;
        set_option(&descriptor, NETLINK_CAP_ACK, 1)?;
        bind(&descriptor, &SocketAddrNetlink::new(0, 0))?;
        let port = SocketAddrNetlink::try_from(getsockname(&descriptor)?)?.pid();
        Ok(Self { descriptor, port, sequence: 0, buffer: vec![0; RECEIVE_BUFFER] })
    }

    /// What [`super::notices::Notice`]s of this socket's own changes carry.
    pub fn port(&self) -> u32 {
        self.port
    }

    /// From now on the kernel sends what this group is told. Such a socket asks nothing.
    pub(super) fn subscribe(&self, group: u32) -> Result<(), Error> {
        set_option(&self.descriptor, NETLINK_ADD_MEMBERSHIP, group.cast_signed())
            .map_err(|err| Error::new(format!("listen to netlink group {group}"), err))
    }

    /// What has come already, in one piece; never waits.
    pub(super) fn receive_now(&mut self) -> Result<&[u8], Errno> {
        let length = self.receive(RecvFlags::DONTWAIT)?;
        Ok(&self.buffer[..length])
    }

    /// In the network namespace that this file names, such as `/proc/4711/ns/net`.
    pub fn open_in(family: Family, namespace: &Path) -> Result<Self, Error> {
        network_namespace::run_in(namespace, || Self::open(family))
            .map_err(|err| Error::new(err.to_string(), err.source))?
    }

    /// Asks for a change and waits until it is made.
    pub fn request(&mut self, message: &Message) -> Result<(), Error> {
        self.ask(message).map(drop)
    }

    /// Asks for one object, or for a change that answers with an object (`NLM_F_ECHO`).
    pub fn ask(&mut self, message: &Message) -> Result<Option<Reply>, Error> {
        let sequence = self.send_one(message, flags::REQUEST | flags::ACK)?;
        let mut reply = None;
        loop {
            for answer in self.next_answers(message, sequence)?.answers {
                match answer {
                    Answer::Reply(it) => reply = Some(it),
                    Answer::Acknowledged | Answer::Done => return Ok(reply),
                }
            }
        }
    }

    /// Asks for all objects. A dump that a change interrupted is repeated; if changes never cease,
    /// that is an error.
    pub fn dump(&mut self, message: &Message) -> Result<Vec<Reply>, Error> {
        for _ in 0..DUMP_ATTEMPTS {
            match self.dump_once(message) {
                Ok(Some(replies)) => return Ok(replies),
                Ok(None) => {}
                Err(err) if err.is(Errno::INTR) => {}
                Err(err) => return Err(err),
            }
        }
        Err(refused(message, Errno::INTR, Some("changed while it was read, again and again")))
    }

    /// `None`: something changed meanwhile, so that objects may be missing or twice there.
    fn dump_once(&mut self, message: &Message) -> Result<Option<Vec<Reply>>, Error> {
        let sequence = self.send_one(message, flags::REQUEST | flags::DUMP)?;
        let (mut replies, mut size, mut is_whole) = (Vec::new(), 0, true);
        loop {
            let received = self.next_answers(message, sequence)?;
            is_whole &= !received.is_interrupted;
            for answer in received.answers {
                match answer {
                    Answer::Reply(it) => {
                        size += it.payload.len();
                        if size > DUMP_MAX {
                            return Err(refused(message, Errno::NOBUFS, Some("dump too long")));
                        }
                        replies.push(it);
                    }
                    Answer::Acknowledged | Answer::Done => return Ok(is_whole.then_some(replies)),
                }
            }
        }
    }

    /// All of these changes to nftables or none, in one transaction. With a generation the kernel
    /// refuses (`ERESTART`) if the rules changed since that generation was read.
    ///
    /// Every refusal is read, and the first is returned; it names its message.
    pub fn batch(&mut self, messages: &[Message], generation: Option<u32>) -> Result<(), Error> {
        let Some(last) = messages.len().checked_sub(1) else { return Ok(()) };
        let first_sequence = self.next_sequence(messages.len() + 2);
        let begin = batch_end(NFNL_MSG_BATCH_BEGIN).with(|it| {
            if let Some(generation) = generation {
                it.u32_be(NFNL_BATCH_GENID, generation);
            }
        });
        let mut bytes = Vec::new();
        begin.encode(flags::REQUEST, first_sequence, &mut bytes);
        for (index, message) in messages.iter().enumerate() {
            validate_overflow(message)?;
            // A refusal is always told, so one acknowledgment, of the last, is enough to know that
            // all were seen. (One for each would overflow the queue.)
            let ack = if index == last { flags::ACK } else { 0 };
            message.encode(flags::REQUEST | ack, sequence_of(first_sequence, index), &mut bytes);
        }
        let end = sequence_of(first_sequence, messages.len());
        batch_end(NFNL_MSG_BATCH_END).encode(flags::REQUEST, end, &mut bytes);
        self.send(&bytes).map_err(|err| Error::new("send a batch of changes", err))?;
        self.read_batch_answers(messages, first_sequence)
    }

    /// The kernel works on a batch while it is being sent: all answers are there now, so nothing
    /// waits.
    fn read_batch_answers(&mut self, messages: &[Message], first: u32) -> Result<(), Error> {
        let mut refusal = None;
        let mut is_acknowledged = false;
        loop {
            let length = match self.receive(RecvFlags::DONTWAIT) {
                Ok(length) => length,
                Err(Errno::AGAIN) => break,
                // So many refusals that some were lost. The first ones were not.
                Err(Errno::NOBUFS) => continue,
                Err(errno) => return Err(Error::new("read the answers to a batch", errno)),
            };
            for received in split(&self.buffer[..length]) {
                let index = received.sequence.wrapping_sub(first) as usize;
                if received.kind != NLMSG_ERROR || index > messages.len() + 1 {
                    continue;
                }
                let Some(acknowledgment) = Acknowledgment::read(received) else { continue };
                let message = index.checked_sub(1).and_then(|it| messages.get(it));
                match acknowledgment.error {
                    0 => is_acknowledged |= index == messages.len(),
                    error => {
                        let errno = Errno::from_raw_os_error(error.saturating_neg());
                        let words = acknowledgment.words.as_deref();
                        let err = message.map_or_else(
                            || explained("commit a batch of changes", errno, words),
                            |it| refused(it, errno, words),
                        );
                        refusal.get_or_insert(err);
                    }
                }
            }
        }
        match refusal {
            Some(err) => Err(err),
            None if is_acknowledged => Ok(()),
            None => Err(Error::new("read the answers to a batch", Errno::NOBUFS)),
        }
    }

    fn send_one(&mut self, message: &Message, flags: u16) -> Result<u32, Error> {
        validate_overflow(message)?;
        let sequence = self.next_sequence(1);
        let mut bytes = Vec::new();
        message.encode(flags, sequence, &mut bytes);
        self.send(&bytes).map_err(|err| Error::new(message.doing(), err))?;
        Ok(sequence)
    }

    fn send(&self, bytes: &[u8]) -> Result<(), io::Error> {
        if bytes.len() > SEND_MAX {
            return Err(Errno::MSGSIZE.into());
        }
        // A message must fit the send buffer whole.
        if bytes.len() + 1024 > sockopt::socket_send_buffer_size(&self.descriptor)?
            && sockopt::set_socket_send_buffer_size_force(&self.descriptor, 2 * bytes.len())
                .is_err()
        {
            sockopt::set_socket_send_buffer_size(&self.descriptor, 2 * bytes.len())?;
        }
        let kernel = SocketAddrNetlink::new(0, 0);
        rustix::io::retry_on_intr(|| sendto(&self.descriptor, bytes, SendFlags::empty(), &kernel))?;
        Ok(())
    }

    /// The first of so many sequence numbers that no late answer to an earlier question carries.
    fn next_sequence(&mut self, n_messages: usize) -> u32 {
        let first = self.sequence.wrapping_add(1);
        self.sequence = self.sequence.wrapping_add(u32::try_from(n_messages).unwrap_or(u32::MAX));
        first
    }

    /// What came in one piece in answer to this message.
    fn next_answers(&mut self, message: &Message, sequence: u32) -> Result<Answers, Error> {
        let length = self
            .receive(RecvFlags::empty())
            .map_err(|errno| Error::new(format!("{}: read the answer", message.doing()), errno))?;
        let mut answers = Vec::new();
        let mut is_interrupted = false;
        for received in split(&self.buffer[..length]).filter(|it| it.sequence == sequence) {
            is_interrupted |= received.flags & flags::DUMP_INTR != 0;
            if let Some(answer) = read_answer(message, received)? {
                answers.push(answer);
            }
        }
        Ok(Answers { answers, is_interrupted })
    }

    /// Reads one piece that the kernel sent; what other processes send is passed over.
    fn receive(&mut self, flags: RecvFlags) -> Result<usize, Errno> {
        loop {
            let (_, length, sender) = rustix::io::retry_on_intr(|| {
                recvfrom(&self.descriptor, &mut *self.buffer, flags | RecvFlags::TRUNC)
            })?;
            if length > self.buffer.len() {
                return Err(Errno::MSGSIZE);
            }
            let sender = sender.and_then(|it| SocketAddrNetlink::try_from(it).ok());
            if sender.is_some_and(|it| it.pid() == 0) {
                return Ok(length);
            }
        }
    }
}

struct Answers {
    answers: Vec<Answer>,
    is_interrupted: bool,
}

fn read_answer(message: &Message, received: Received<'_>) -> Result<Option<Answer>, Error> {
    match received.kind {
        NLMSG_NOOP => Ok(None),
        NLMSG_ERROR | NLMSG_DONE => {
            let end = if received.kind == NLMSG_DONE { Answer::Done } else { Answer::Acknowledged };
            match Acknowledgment::read(received) {
                Some(it) if it.error < 0 => {
                    let errno = Errno::from_raw_os_error(it.error.saturating_neg());
                    Err(refused(message, errno, it.words.as_deref()))
                }
                _ => Ok(Some(end)),
            }
        }
        kind => Ok(Some(Answer::Reply(Reply { kind, payload: received.payload.to_vec() }))),
    }
}

fn refused(message: &Message, errno: Errno, words: Option<&str>) -> Error {
    explained(message.doing(), errno, words)
}

fn explained(doing: &str, errno: Errno, words: Option<&str>) -> Error {
    match words {
        Some(words) => Error::new(format!("{doing} ({words})"), errno),
        None => Error::new(doing, errno),
    }
}

fn validate_overflow(message: &Message) -> Result<(), Error> {
    if message.attributes.has_overflowed() {
        return Err(refused(message, Errno::MSGSIZE, Some("an attribute is over 64 KiB")));
    }
    Ok(())
}

/// The sequence number of the message at this index; the batch's beginning has the first.
fn sequence_of(first: u32, index: usize) -> u32 {
    first.wrapping_add(1).wrapping_add(u32::try_from(index).unwrap_or(u32::MAX))
}

/// Either end of a batch: `struct nfgenmsg` with the subsystem.
fn batch_end(kind: u16) -> Message {
    let [high, low] = NFNL_SUBSYS_NFTABLES.to_be_bytes();
    Message::new("frame a batch of changes", kind, 0, &[0, 0, high, low])
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn set_option(descriptor: &OwnedFd, option: c_int, value: c_int) -> Result<(), io::Error> {
    let length = size_of::<c_int>() as c_uint;
    // SAFETY: the pointer is to an integer that lives through the call, and the length is its own;
    // the descriptor is open.
    let result = unsafe {
        setsockopt(descriptor.as_raw_fd(), SOL_NETLINK, option, (&raw const value).cast(), length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
