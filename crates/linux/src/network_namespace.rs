//! Running something in a network namespace, and making one.
//!
//! Which namespace a thread is in belongs to the thread, so a thread of its own goes there and ends
//! there: no other work ever finds itself in the wrong place, and nothing has to be put back.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::thread;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

const SO_NETNS_COOKIE: libc::c_int = 71;

#[derive(Debug, thiserror::Error)]
#[error("{doing}")]
pub struct Error {
    pub doing: String,
    #[source]
    pub source: io::Error,
}

impl Error {
    fn new(doing: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self { doing: doing.into(), source: source.into() }
    }
}

/// Runs it in the namespace that the file names, such as `/proc/4711/ns/net`, and waits for it.
/// Sockets that it opens stay there.
pub fn run_in<T: Send>(namespace: &Path, run: impl FnOnce() -> T + Send) -> Result<T, Error> {
    let file = File::open(namespace).map_err(|err| {
        Error::new(format!("open the network namespace {}", namespace.display()), err)
    })?;
    in_thread(|| {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).map_err(
            |errno| Error::new(format!("enter the namespace {}", namespace.display()), errno),
        )?;
        Ok(run())
    })
}

/// A network namespace that lives as long as this value, or something else in it.
#[derive(Debug)]
pub struct NetworkNamespace {
    file: File,
}

impl NetworkNamespace {
    /// A new one, with nothing in it but a loopback that is down.
    pub fn create() -> Result<Self, Error> {
        in_thread(|| {
            // SAFETY: CLONE_FILES is not among the flags; the thread ends right after.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
                .map_err(|errno| Error::new("make a network namespace", errno))?;
            Self::current()
        })
    }

    /// That of the calling thread.
    pub fn current() -> Result<Self, Error> {
        let file = File::open("/proc/thread-self/ns/net")
            .map_err(|err| Error::new("open the network namespace of this thread", err))?;
        Ok(Self { file })
    }

    /// A file that names the namespace, for this process.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }

    /// Runs it in the namespace and waits for it.
    pub fn run<T: Send>(&self, run: impl FnOnce() -> T + Send) -> Result<T, Error> {
        run_in(&self.path(), run)
    }
}

/// A number that the namespace of the calling thread has, and that no other of this machine has or
/// had (`SO_NETNS_COOKIE`).
pub fn cookie() -> Result<u64, Error> {
    let read = || -> io::Result<u64> {
        let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0))?;
        let mut cookie = 0u64;
        let mut length = size_of::<u64>() as libc::socklen_t;
        // SAFETY: the pointers are to integers that live through the call, and the length is that
        // of the first; the socket is open.
        let result = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                SO_NETNS_COOKIE,
                (&raw mut cookie).cast(),
                &raw mut length,
            )
        };
        if result == 0 { Ok(cookie) } else { Err(io::Error::last_os_error()) }
    };
    read().map_err(|err| Error::new("read the number of the network namespace (Linux 5.14)", err))
}

/// A panic of the closure goes on in the caller.
fn in_thread<T: Send>(run: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    thread::scope(|scope| {
        let builder = thread::Builder::new().name("netns".into());
        let handle = builder
            .spawn_scoped(scope, run)
            .map_err(|err| Error::new("start a thread for a network namespace", err))?;
        handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
