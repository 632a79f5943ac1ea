//! Unix sockets that keep messages apart (`SOCK_SEQPACKET`) and carry descriptors (`SCM_RIGHTS`).
//!
//! Promises: a message arrives whole or not at all; one that does not fit is an error, never cut;
//! descriptors that arrive are closed on exec. A peer that closed reads as `None`.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

/// Most descriptors in one message.
pub const DESCRIPTORS_MAX: usize = 8;
/// Longest message; below the kernel's default for a socket's buffer.
pub const MESSAGE_MAX: usize = 128 * 1024;

/// Who is at the other end, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    pub pid: i32,
    pub uid: u32,
    pub gid: u32,
}

#[derive(Debug)]
pub struct Listener(OwnedFd);

#[derive(Debug)]
pub struct Connection(OwnedFd);

#[derive(Debug)]
pub struct Message {
    pub bytes: Vec<u8>,
    pub descriptors: Vec<OwnedFd>,
}

impl Listener {
    /// Makes the socket's file, for its owner alone; one that was left there is replaced.
    /// Nonblocking.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let (directory, name) = open_parent(path)?;
        match rustix::fs::unlinkat(&directory, name, rustix::fs::AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            Err(err) => return Err(err.into()),
        }
        let socket = socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        rustix::net::bind(&socket, &short_address(&directory, name)?)?;
        let path = format!("/proc/self/fd/{}/{name}", directory.as_raw_fd());
        rustix::fs::chmod(path, Mode::from_raw_mode(0o600))?;
        rustix::net::listen(&socket, 16)?;
        Ok(Self(socket))
    }

    /// `WouldBlock` when nobody waits. The connection is nonblocking.
    pub fn accept(&self) -> io::Result<Connection> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        Ok(Connection(rustix::net::accept_with(&self.0, flags)?))
    }
}

impl Connection {
    /// Blocking.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let (directory, name) = open_parent(path)?;
        let socket = socket(SocketFlags::CLOEXEC)?;
        rustix::net::connect(&socket, &short_address(&directory, name)?)?;
        Ok(Self(socket))
    }

    /// Nonblocking. `WouldBlock` when the listener's queue is full, which one that does not accept
    /// leaves so.
    pub fn connect_now(path: &Path) -> io::Result<Self> {
        let (directory, name) = open_parent(path)?;
        let socket = socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        rustix::net::connect(&socket, &short_address(&directory, name)?)?;
        Ok(Self(socket))
    }

    /// Two ends, connected to each other. Blocking.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok((Self(one), Self(other)))
    }

    pub fn set_nonblocking(&self) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(&self.0, true)?)
    }

    pub fn peer(&self) -> io::Result<Peer> {
        let peer = rustix::net::sockopt::socket_peercred(&self.0)?;
        Ok(Peer {
            pid: peer.pid.as_raw_nonzero().get(),
            uid: peer.uid.as_raw(),
            gid: peer.gid.as_raw(),
        })
    }

    /// Sends one message, whole. `WouldBlock` on a nonblocking connection whose peer does not read.
    pub fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        if bytes.is_empty() || bytes.len() > MESSAGE_MAX || descriptors.len() > DESCRIPTORS_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "message of {} bytes and {} descriptors; allowed are 1 to {MESSAGE_MAX} and {DESCRIPTORS_MAX}",
                    bytes.len(),
                    descriptors.len()
                ),
            ));
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        rustix::io::retry_on_intr(|| {
            rustix::net::sendmsg(
                &self.0,
                &[io::IoSlice::new(bytes)],
                &mut ancillary,
                SendFlags::NOSIGNAL,
            )
        })?;
        Ok(())
    }

    /// The next message; `None` when the peer has closed.
    pub fn receive(&self) -> io::Result<Option<Message>> {
        // Messages are short and processes that wait for them small: no room is made before its
        // size is known.
        let peek = RecvFlags::PEEK | RecvFlags::TRUNC;
        let length =
            match rustix::io::retry_on_intr(|| rustix::net::recv(&self.0, &mut [0_u8; 1], peek)) {
                Ok((_, 0)) | Err(rustix::io::Errno::CONNRESET) => return Ok(None),
                Ok((_, length)) => length.min(MESSAGE_MAX),
                Err(err) => return Err(err.into()),
            };
        let mut bytes = vec![0; length];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = rustix::io::retry_on_intr(|| {
            rustix::net::recvmsg(
                &self.0,
                &mut [io::IoSliceMut::new(&mut bytes)],
                &mut ancillary,
                RecvFlags::CMSG_CLOEXEC,
            )
        });
        let received = match received {
            Ok(received) => received,
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            Err(err) => return Err(err.into()),
        };
        let mut descriptors = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("message longer than {MESSAGE_MAX} bytes or {DESCRIPTORS_MAX} descriptors"),
            ));
        }
        if received.bytes == 0 {
            return Ok(None);
        }
        bytes.truncate(received.bytes);
        Ok(Some(Message { bytes, descriptors }))
    }
}

fn socket(flags: SocketFlags) -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

fn open_parent(path: &Path) -> io::Result<(OwnedFd, &str)> {
    let name = path.file_name().and_then(|it| it.to_str());
    let (Some(directory), Some(name)) = (path.parent(), name) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "socket path without a name"));
    };
    let directory = rustix::fs::open(
        directory,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    Ok((directory, name))
}

/// A socket's address has room for 108 bytes (unix(7)); through the descriptor of its directory any
/// path fits.
fn short_address(directory: &OwnedFd, name: &str) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new(format!("/proc/self/fd/{}/{name}", directory.as_raw_fd()))?)
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.0.as_raw_fd()
    }
}

impl AsRawFd for Connection {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.0.as_raw_fd()
    }
}

impl From<OwnedFd> for Connection {
    fn from(socket: OwnedFd) -> Self {
        Self(socket)
    }
}

impl From<Connection> for OwnedFd {
    fn from(connection: Connection) -> Self {
        connection.0
    }
}

impl From<OwnedFd> for Listener {
    fn from(socket: OwnedFd) -> Self {
        Self(socket)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    #[test]
    fn messages_stay_apart_and_carry_descriptors_over_a_long_path() {
        let directory = tempfile::tempdir().unwrap();
        let long = directory.path().join("d".repeat(120));
        std::fs::create_dir(&long).unwrap();
        let path = long.join("socket");
        let listener = Listener::bind(&path).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let client = Connection::connect(&path).unwrap();
        let server = listener.accept().unwrap();
        assert_eq!(server.peer().unwrap().pid, i32::try_from(std::process::id()).unwrap());

        let (read, write) = io::pipe().unwrap();
        client.send(b"one", &[write.as_fd()]).unwrap();
        client.send(b"two", &[]).unwrap();
        drop(write);
        let one = server.receive().unwrap().unwrap();
        assert_eq!((one.bytes.as_slice(), one.descriptors.len()), (b"one".as_slice(), 1));
        let mut writer = std::fs::File::from(one.descriptors.into_iter().next().unwrap());
        writer.write_all(b"through").unwrap();
        drop(writer);
        let mut text = String::new();
        std::fs::File::from(OwnedFd::from(read)).read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
        assert_eq!(server.receive().unwrap().unwrap().bytes, b"two");
        assert_eq!(server.receive().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(client);
        assert!(server.receive().unwrap().is_none(), "closed");
    }

    #[test]
    fn whoever_must_not_wait_is_told_that_the_queue_is_full() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = Listener::bind(&path).unwrap();
        let mut waiting = Vec::new();
        let full = loop {
            match Connection::connect_now(&path) {
                Ok(connection) => waiting.push(connection),
                Err(err) => break err,
            }
            assert!(waiting.len() < 1000, "a queue without an end");
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        listener.accept().unwrap();
        Connection::connect_now(&path).unwrap();
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let (one, other) = Connection::pair().unwrap();
        assert_eq!(one.send(&[], &[]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        let long = vec![7; MESSAGE_MAX + 1];
        assert_eq!(one.send(&long, &[]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        one.send(&long[1..], &[]).unwrap();
        assert_eq!(other.receive().unwrap().unwrap().bytes.len(), MESSAGE_MAX);
        // Somebody else's program may send more than ours does.
        rustix::net::send(&one, &long, SendFlags::empty()).unwrap();
        assert_eq!(other.receive().unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
